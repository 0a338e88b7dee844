//! The grok patterns that are available by name: the common ones of Logstash's legacy set, rewritten without
//! look-around. In a line that is matched as a whole they accept what the originals accept; the neighbouring text
//! excludes what the originals exclude by look-around.
//!
//! Fields have daytable's own names for the same meaning: `time`, `level`, `host`, `component`, `pid`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const PATTERNS: &[(&str, &str)] = &[
    // Words and numbers.
    ("WORD", r"[\w]+"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("QUOTEDSTRING", r#""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`"#),
    ("QS", "%{QUOTEDSTRING}"),
    ("INT", "[+-]?[0-9]+"),
    ("POSINT", "[1-9][0-9]*"),
    ("NONNEGINT", "[0-9]+"),
    ("BASE10NUM", r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"),
    ("NUMBER", "%{BASE10NUM}"),
    ("BASE16NUM", "[+-]?(?:0[xX])?[0-9A-Fa-f]+"),
    ("BASE16FLOAT", r"[+-]?(?:0[xX])?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)"),
    ("BOOLEAN", "(?i:true|false)"),
    ("UUID", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
    ("URN", "urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:[^ ]+"),
    // People.
    ("USERNAME", "[0-9A-Za-z._-]+"),
    ("USER", "%{USERNAME}"),
    ("EMAILLOCALPART", "[0-9A-Za-z][0-9A-Za-z!#$%&'*+/=?^_`{|}~.-]*"),
    ("EMAILADDRESS", "%{EMAILLOCALPART}@%{HOSTNAME}"),
    // Networks.
    ("CISCOMAC", r"(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"),
    ("WINDOWSMAC", "(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}"),
    ("COMMONMAC", "(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}"),
    ("MAC", "%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}"),
    ("BYTE_", "25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9]"),
    ("IPV4", r"%{BYTE_}(?:\.%{BYTE_}){3}"),
    ("IPV6", "(?:[0-9A-Fa-f]{0,4}:){2,7}(?:%{IPV4}|[0-9A-Fa-f]{0,4})(?:%[0-9A-Za-z._-]+)?"),
    ("IP", "%{IPV6}|%{IPV4}"),
    ("HOSTNAME", r"[0-9A-Za-z_](?:[0-9A-Za-z_-]*)(?:\.[0-9A-Za-z_][0-9A-Za-z_-]*)*\.?"),
    ("HOST", "%{HOSTNAME}"),
    ("IPORHOST", "%{IP}|%{HOSTNAME}"),
    ("HOSTPORT", "%{IPORHOST}:%{POSINT}"),
    // Paths and addresses.
    ("UNIXPATH", r"(?:/[\w%!$@:.,+~-]*)+"),
    ("WINPATH", r"(?:[A-Za-z]:|\\)(?:\\[^\\?*]*)+"),
    ("PATH", "%{UNIXPATH}|%{WINPATH}"),
    ("TTY", r"/dev/(?:pts|tty[pq]?)\w*/?[0-9]+"),
    ("URIPROTO", "[A-Za-z][0-9A-Za-z+.-]+"),
    ("URIHOST", "%{IPORHOST}(?::%{POSINT:port})?"),
    ("URIPATH", r"(?:/[0-9A-Za-z$.+!*'(){},~:;=@#%&_\-]*)+"),
    ("URIPARAM", r"\?[0-9A-Za-z$.+!*'|(){},~@#%&/=:;_?\-\[\]<>]*"),
    ("URIPATHPARAM", "%{URIPATH}(?:%{URIPARAM})?"),
    ("URI", "%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?"),
    // Dates and times.
    (
        "MONTH",
        "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?\
         |oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)",
    ),
    ("MONTHNUM", "0?[1-9]|1[0-2]"),
    ("MONTHNUM2", "0[1-9]|1[0-2]"),
    ("MONTHDAY", "0[1-9]|[12][0-9]|3[01]|[1-9]"),
    ("DAY", "(?i:mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"),
    ("YEAR", "[0-9]{4}|[0-9]{2}"),
    ("HOUR", "2[0-3]|[01]?[0-9]"),
    ("MINUTE", "[0-5][0-9]"),
    ("SECOND", "(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?"),
    ("TIME", "%{HOUR}:%{MINUTE}:%{SECOND}"),
    ("DATE_US", "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}"),
    ("DATE_EU", "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}"),
    ("DATE", "%{DATE_US}|%{DATE_EU}"),
    ("DATESTAMP", "%{DATE}[- ]%{TIME}"),
    ("ISO8601_TIMEZONE", "Z|[+-]%{HOUR}:?%{MINUTE}"),
    ("ISO8601_SECOND", "%{SECOND}"),
    (
        "TIMESTAMP_ISO8601",
        "%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?: ?%{ISO8601_TIMEZONE})?",
    ),
    ("TZ", "[A-Z]{3,4}"),
    ("DATESTAMP_RFC822", "%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}"),
    ("DATESTAMP_RFC2822", "%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}"),
    ("DATESTAMP_OTHER", "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    ("DATESTAMP_EVENTLOG", "[0-9]{4}%{MONTHNUM2}[0-9]{2}[0-9]{2}%{MINUTE}[0-9]{2}"),
    ("HTTPDATE", "%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("HTTPDERROR_DATE", "%{DAY} %{MONTH} +%{MONTHDAY} %{TIME} %{YEAR}"),
    ("SYSLOGTIMESTAMP", "%{MONTH} +%{MONTHDAY} %{TIME}"),
    (
        "LOGLEVEL",
        "(?i:trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe|alert\
         |emerg(?:ency)?)",
    ),
    // Programs.
    ("PROG", r"[\x21-\x5a\x5c\x5e-\x7e]+"),
    ("JAVACLASS", r"(?:[\w$]+\.)*[\w$]+"),
    ("JAVAFILE", r"[\w$. -]+"),
    ("JAVAMETHOD", r"<?[\w$]+>?"),
    ("JAVASTACKTRACEPART", r"\s*at %{JAVACLASS:class}\.%{JAVAMETHOD:method}\(%{JAVAFILE:file}(?::%{INT:line:int})?\)"),
    // Whole lines.
    ("SYSLOGPROG", r"%{PROG:component}(?:\[%{POSINT:pid}\])?"),
    ("SYSLOGHOST", "%{IPORHOST}"),
    ("SYSLOGFACILITY", "<%{NONNEGINT:facility}.%{NONNEGINT:priority}>"),
    ("SYSLOGBASE", "%{SYSLOGTIMESTAMP:time} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host} %{SYSLOGPROG}:"),
    (
        "SYSLOGBASE2",
        "(?:%{SYSLOGTIMESTAMP:time}|%{TIMESTAMP_ISO8601:time}) (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host}\
         (?: %{SYSLOGPROG}:)?",
    ),
    ("SYSLOGLINE", "%{SYSLOGBASE2} %{GREEDYDATA:message}"),
    ("HTTPDUSER", "%{EMAILADDRESS}|%{USER}"),
    (
        "HTTPD_COMMONLOG",
        "%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \\[%{HTTPDATE:time}\\] \
         \"(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})\" \
         (?:%{INT:response:int}|-) (?:%{INT:bytes:int}|-)",
    ),
    ("HTTPD_COMBINEDLOG", "%{HTTPD_COMMONLOG} %{QS:referrer} %{QS:agent}"),
    ("COMMONAPACHELOG", "%{HTTPD_COMMONLOG}"),
    ("COMBINEDAPACHELOG", "%{HTTPD_COMBINEDLOG}"),
    (
        "HTTPD20_ERRORLOG",
        r"\[%{HTTPDERROR_DATE:time}\] \[%{LOGLEVEL:level}\] (?:\[client %{IPORHOST:clientip}\] )?%{GREEDYDATA:message}",
    ),
    (
        "HTTPD24_ERRORLOG",
        r"\[%{HTTPDERROR_DATE:time}\] \[%{WORD:component}:%{LOGLEVEL:level}\] \[pid %{POSINT:pid}(?::tid %{INT:tid:int})?\](?: \[client %{IPORHOST:clientip}:%{POSINT:clientport:int}\])? %{GREEDYDATA:message}",
    ),
    ("HTTPD_ERRORLOG", "%{HTTPD20_ERRORLOG}|%{HTTPD24_ERRORLOG}"),
];

static BY_NAME: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| PATTERNS.iter().copied().collect());

/// The pattern of this name, with the name.
pub(super) fn pattern(name: &str) -> Option<(&'static str, &'static str)> {
    BY_NAME.get_key_value(name).map(|(name, text)| (*name, *text))
}

/// The names that a configuration can refer to.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PATTERNS.iter().map(|(name, _)| *name).filter(|name| !name.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Explicit;

    #[test]
    fn every_pattern_compiles() {
        for name in names() {
            let made = Explicit::grok(&format!("%{{{name}:whole}}"), BTreeMap::new());
            assert!(made.is_ok(), "{name}: {made:?}");
        }
        assert_eq!(BY_NAME.len(), PATTERNS.len(), "a name is there twice");
    }

    #[test]
    fn texts_that_patterns_accept_and_refuse() {
        for (name, takes, leaves) in [
            ("INT", &["0", "-12", "+7"][..], &["1.5", "", "x"][..]),
            ("NUMBER", &["1", "-1.5", ".5"], &["1.", "1e5"]),
            ("IPV4", &["10.0.0.1", "255.255.255.255"], &["256.0.0.1", "1.2.3"]),
            ("IPV6", &["::1", "fe80::1%eth0", "2001:db8::8a2e:370:7334", "::ffff:10.0.0.1"], &["12:34", "g::1"]),
            ("IPORHOST", &["web-1.example.com", "10.0.0.1", "::1", "combo"], &["-", "a b"]),
            ("UUID", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567"]),
            ("QS", &["\"a \\\" b\"", "'x'", "\"\""], &["\"a", "a"]),
            (
                "TIMESTAMP_ISO8601",
                &["2026-11-21T08:00:00.123Z", "2026-11-21 08:00:00,123", "2026-11-21T08:00+01:00"],
                &["2026-13-21T08:00:00"],
            ),
            ("HTTPDATE", &["21/Nov/2026:08:00:00 +0100"], &["21/Nov/2026"]),
            ("SYSLOGTIMESTAMP", &["Nov  1 08:00:00", "Nov 21 08:00:00"], &["21 Nov 08:00:00"]),
            ("LOGLEVEL", &["INFO", "warning", "Err"], &["loud"]),
            ("MAC", &["00:1a:2b:3c:4d:5e", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e"], &["00:1a"]),
            ("URI", &["https://user:pass@example.com:8080/a/b?c=d", "ftp://host/"], &["/a/b"]),
            ("PATH", &["/var/log/a.log", "C:\\logs\\a.log"], &["a/b"]),
        ] {
            let pattern = Explicit::grok(&format!("%{{{name}:x}}"), BTreeMap::new()).expect(name);
            for text in takes {
                assert!(pattern.begins(text), "{name} does not take {text}");
            }
            for text in leaves {
                assert!(!pattern.begins(text), "{name} takes {text}");
            }
        }
    }
}
