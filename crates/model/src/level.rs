//! The level of a record: its names, codes and severities.

use crate::did_you_mean::did_you_mean;

/// The severity level of a record, in ascending order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// OpenTelemetry severity 1.
    Trace = 1,
    /// OpenTelemetry severity 5.
    Debug,
    /// OpenTelemetry severity 9.
    Info,
    /// OpenTelemetry severity 10.
    Notice,
    /// OpenTelemetry severity 13.
    Warn,
    /// OpenTelemetry severity 17.
    Error,
    /// OpenTelemetry severity 18.
    Critical,
    /// OpenTelemetry severity 19.
    Alert,
    /// OpenTelemetry severity 21.
    Fatal,
}

/// For each first letter a bit for each second letter with which the name of a level may begin: the first test of every word.
const SECOND_LETTERS: [u32; 26] = {
    const BEGINNINGS: &[u8] = b"trvevrfifaftdedbdpinnowawrersecralpaem";
    let mut table = [0; 26];
    let mut at = 0;
    while at < BEGINNINGS.len() {
        table[(BEGINNINGS[at] - b'a') as usize] |= 1 << (BEGINNINGS[at + 1] - b'a');
        at += 2;
    }
    table
};

impl Level {
    /// Every level, the least severe first.
    pub const ALL: [Level; 9] = [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warn,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Fatal,
    ];

    /// The name as stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Fatal => "fatal",
        }
    }

    /// The severity number of OpenTelemetry.
    pub const fn severity(self) -> i32 {
        match self {
            Level::Trace => 1,
            Level::Debug => 5,
            Level::Info => 9,
            Level::Notice => 10,
            Level::Warn => 13,
            Level::Error => 17,
            Level::Critical => 18,
            Level::Alert => 19,
            Level::Fatal => 21,
        }
    }

    /// 1 to 9, the least severe first. 0 means that a record has no level.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The inverse of [`Level::code`].
    pub const fn from_code(code: u8) -> Option<Level> {
        match code {
            1..=9 => Some(Level::ALL[code as usize - 1]),
            _ => None,
        }
    }

    /// Parses a level name or a common abbreviation, in any case.
    #[inline]
    pub fn from_word(word: &str) -> Option<Level> {
        // Most words fail this test, so they cost no comparison.
        if Level::may_begin(word.as_bytes()) { Level::of_whole_word(word) } else { None }
    }

    /// Whether the name of a level, or an abbreviation, may begin with the first three bytes of a word.
    #[inline(always)]
    pub fn may_begin(word: &[u8]) -> bool {
        let [first, second, third, ..] = word else { return false };
        let letter = |byte: &u8| u32::from((byte | 0x20).wrapping_sub(b'a'));
        let seconds = SECOND_LETTERS.get(letter(first) as usize).copied().unwrap_or(0);
        let is_begun = letter(second) < u32::BITS && seconds >> letter(second) & 1 == 1;
        is_begun && Level::has_third(&[first | 0x20, second | 0x20, third | 0x20])
    }

    /// Whether three small letters begin the name of a level, or an abbreviation.
    #[rustfmt::skip]
    fn has_third(letters: &[u8; 3]) -> bool {
        matches!(
            letters,
            b"tra" | b"trc" | b"ver" | b"vrb" | b"fin" | b"deb" | b"dbg" | b"dbu" | b"inf" | b"not" | b"war" | b"wrn" | b"err" | b"ero"
                | b"sev" | b"cri" | b"crt" | b"dpa" | b"ale" | b"alr" | b"fat" | b"ftl" | b"pan" | b"eme"
        )
    }

    fn of_whole_word(word: &str) -> Option<Level> {
        let mut lower = [0u8; 13];
        let lower = lower.get_mut(..word.len())?;
        for (lower, byte) in lower.iter_mut().zip(word.bytes()) {
            *lower = byte.to_ascii_lowercase();
        }
        Some(match &*lower {
            b"trace" | b"trc" | b"trce" | b"verbose" | b"vrb" | b"verb" | b"finest" | b"finer" => Level::Trace,
            b"debug" | b"dbg" | b"dbug" | b"debu" | b"fine" => Level::Debug,
            [b'd', b'e', b'b', b'u', b'g', b'1'..=b'5'] => Level::Debug,
            b"info" | b"inf" | b"information" | b"informational" => Level::Info,
            b"notice" => Level::Notice,
            b"warn" | b"warning" | b"warni" | b"wrn" => Level::Warn,
            // In small letters it is an archive of Java.
            b"war" if word == "WAR" => Level::Warn,
            b"error" | b"err" | b"erro" | b"eror" | b"severe" | b"sever" => Level::Error,
            b"critical" | b"crit" | b"crt" | b"dpanic" => Level::Critical,
            b"alert" | b"alrt" => Level::Alert,
            b"fatal" | b"fata" | b"ftl" | b"panic" | b"pani" | b"emergency" | b"emerg" | b"emer" => Level::Fatal,
            _ => return None,
        })
    }
}

/// What to say of a word that is not a level: the level that was meant, if a slip tells it, and the levels.
pub fn unknown_level(word: &str) -> String {
    let others = ["warning", "information", "emergency", "err", "crit", "panic", "verbose"];
    let known: Vec<&str> = Level::ALL.map(Level::name).into_iter().chain(others).collect();
    let hint = did_you_mean(word, &known).map_or_else(String::new, |known| format!("; did you mean {known}?"));
    let shown: String = word.chars().take(64).collect();
    format!(
        "{shown} is not a level{hint}{} the levels are {}",
        if hint.is_empty() { ";" } else { "" },
        Level::ALL.map(Level::name).join(", ")
    )
}
