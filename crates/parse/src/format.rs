//! The names of the formats: what a line can be recognised as, and what the configuration can choose.

use std::str::FromStr;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object.
    Json,
    /// `key=value` pairs and nothing else.
    Logfmt,
    /// A timestamp near the start, perhaps a level, a thread, a component and a process, then the message: the form of
    /// nearly all logging libraries.
    Text,
    /// RFC 5424 or RFC 3164, with or without the priority.
    Syslog,
    /// A line in the envelope of a Kubernetes runtime, with plain text inside.
    Cri,
    /// A line in the envelope of Docker's json-file, with plain text inside.
    Docker,
    /// `I1121 08:00:00.000000 1 file.go:123] text`, the layout of glog.
    Klog,
    /// An access log of nginx or Apache, common or combined.
    Access,
    /// Apache's error log.
    ApacheError,
    /// nginx's error log.
    NginxError,
    /// Android's log, in its layouts `threadtime`, `time` and `brief`.
    Logcat,
    /// Windows' component-based servicing: `TIME, LEVEL   COMPONENT   text`.
    Cbs,
    /// The kernel's ring buffer: seconds since boot in brackets.
    Kernel,
    /// .NET's console: `info: Category[0]`, then the message in indented lines.
    Dotnet,
    /// PostgreSQL's log to stderr.
    Postgresql,
    /// MySQL's or MariaDB's error log.
    Mysql,
    /// Redis' log.
    Redis,
    /// W3C extended (IIS): the last `#Fields:` line names the fields.
    W3c,
    /// Values between commas; the first line names them.
    Csv,
    /// HAProxy's logs of requests and connections.
    Haproxy,
    /// Labels and values with tabs between them.
    Ltsv,
    /// A pattern of the configuration.
    Explicit,
    /// Any other text: the text is the message.
    Plain,
}

impl Format {
    /// Every format, in the order of [`Format::number`].
    pub const ALL: [Format; 23] = [
        Format::Json,
        Format::Logfmt,
        Format::Text,
        Format::Syslog,
        Format::Cri,
        Format::Docker,
        Format::Klog,
        Format::Access,
        Format::ApacheError,
        Format::NginxError,
        Format::Logcat,
        Format::Cbs,
        Format::Kernel,
        Format::Dotnet,
        Format::Postgresql,
        Format::Mysql,
        Format::Redis,
        Format::W3c,
        Format::Csv,
        Format::Haproxy,
        Format::Ltsv,
        Format::Explicit,
        Format::Plain,
    ];

    /// The index in [`Format::ALL`].
    pub const fn number(self) -> usize {
        self as usize
    }

    /// The name in metrics, in the ledger of the store and in the configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Logfmt => "logfmt",
            Format::Text => "text",
            Format::Syslog => "syslog",
            Format::Cri => "cri",
            Format::Docker => "docker",
            Format::Klog => "klog",
            Format::Access => "access",
            Format::ApacheError => "apache_error",
            Format::NginxError => "nginx_error",
            Format::Logcat => "logcat",
            Format::Cbs => "cbs",
            Format::Kernel => "kernel",
            Format::Dotnet => "dotnet",
            Format::Postgresql => "postgresql",
            Format::Mysql => "mysql",
            Format::Redis => "redis",
            Format::W3c => "w3c",
            Format::Csv => "csv",
            Format::Haproxy => "haproxy",
            Format::Ltsv => "ltsv",
            Format::Explicit => "explicit",
            Format::Plain => "plain",
        }
    }
}

/// The `format` key of the configuration: how the lines of a source are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatChoice {
    /// The format is recognised line by line.
    #[default]
    Auto,
    /// This format, else plain. Chosen logfmt accepts a single pair, and reads a bare word as a flag that is true.
    /// Never [`Format::Explicit`], which has no name to choose.
    Only(Format),
}

/// The name of an unknown format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format \"{0}\" (known: {known})", known = known())]
pub struct UnknownFormat(pub String);

impl FormatChoice {
    /// Every choice, except explicit patterns.
    pub fn all() -> impl Iterator<Item = FormatChoice> {
        let named = Format::ALL.into_iter().filter(|format| *format != Format::Explicit);
        std::iter::once(FormatChoice::Auto).chain(named.map(FormatChoice::Only))
    }

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            FormatChoice::Auto => "auto",
            FormatChoice::Only(format) => format.label(),
        }
    }
}

impl FromStr for FormatChoice {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        FormatChoice::all().find(|choice| choice.name() == name).ok_or_else(|| UnknownFormat(name.into()))
    }
}

fn known() -> String {
    let names: Vec<_> = FormatChoice::all().map(FormatChoice::name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_the_names_of_their_formats() {
        for choice in FormatChoice::all() {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        for (number, format) in Format::ALL.into_iter().enumerate() {
            assert_eq!(format.number(), number);
            let named = format.label().parse().ok();
            assert_eq!(named, (format != Format::Explicit).then_some(FormatChoice::Only(format)));
        }
        assert_eq!(FormatChoice::default(), FormatChoice::Auto);
        let unknown = UnknownFormat("yaml".into());
        assert!(unknown.to_string().starts_with("unknown format \"yaml\" (known: auto, json, logfmt, text, syslog"));
        assert_eq!("yaml".parse::<FormatChoice>(), Err(unknown));
    }
}
