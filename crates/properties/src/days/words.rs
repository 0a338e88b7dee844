//! Bare words: lines of many formats whose producers escape what they like, parsed as files are, and asked for words in
//! every state of their day. A list of the texts that were written, before anything was escaped, says what matches.

use super::Dice;
use super::records::{day, table};
use super::states::submit;
use daytable_archive::Access;
use daytable_intake::route::{Condition, Subject};
use daytable_lifecycle::Executor;
use daytable_logsql::{Expression, FieldName, ParsedQuery, Test};
use daytable_model::batch::Batch;
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use daytable_model::words::is_word_character;
use daytable_parse::{Assembler, Ending, ParseOptions, SourceProfile};
use daytable_query::answer::{AnswerItem, AnswerOptions, answer};
use daytable_query::{Archives, Stores};
use daytable_store::{Reader, Store, StoreOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Words, some of which others become where an escape is taken for text.
const WORDS: [&str; 14] = [
    "größe",
    "café",
    "second",
    "nsecond",
    "ttable",
    "table",
    "u00e9",
    "u003cb",
    "ошибка",
    "ОШИБКА",
    "10.1.2.3",
    "quote",
    "zz",
    "𝄞mark",
];
/// What stands between words.
const BETWEEN: [&str; 9] = [" ", "\n", "\t", "/", "\\", "\"", " <", "&", "é "];

/// A line, and the texts in it.
struct EscapedLine {
    written: String,
    texts: Vec<String>,
}

fn text(dice: &mut Dice, between: &[&str]) -> String {
    let mut text = WORDS[dice.below(WORDS.len())].to_owned();
    for _ in 0..dice.below(4) {
        text.push_str(between[dice.below(between.len())]);
        text.push_str(WORDS[dice.below(WORDS.len())]);
    }
    text
}

/// The text within quotes, escaped as JSON requires and as its producer likes.
fn escaped(dice: &mut Dice, text: &str) -> String {
    let (liking, mut escaped) = (dice.below(3), String::new());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' if liking < 2 => escaped.push_str("\\n"),
            '\t' if liking < 2 => escaped.push_str("\\t"),
            '/' if liking > 0 => escaped.push_str("\\/"),
            c if c < ' ' || liking > 0 && !c.is_ascii_alphanumeric() && c != ' ' => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn line(dice: &mut Dice, time: Ticks) -> EscapedLine {
    let texts: [String; 5] = std::array::from_fn(|_| text(dice, &BETWEEN));
    let mut quoted = |at: usize| escaped(dice, &texts[at]);
    let [message, note, inner, first, last] = std::array::from_fn(&mut quoted);
    let object = format!(
        r#"{{"time":"{time}","level":"info","msg":"{message}","note":"{note}","deep":{{"inner":"{inner}"}},"list":["{first}",{{"in":"{last}"}}]}}"#
    );
    match dice.below(6) {
        0 => {
            let log = escaped(dice, &format!("{object}\n"));
            EscapedLine {
                written: format!(r#"{{"log":"{log}","stream":"stdout","time":"{time}"}}"#),
                texts: texts.into(),
            }
        }
        1 => EscapedLine {
            written: format!("time={time} level=info msg=\"{message}\" note=\"{note}\""),
            texts: texts[..2].to_vec(),
        },
        2 => {
            let texts: [String; 2] = std::array::from_fn(|_| text(dice, &[" ", "/", "\\", "\"", " <", "é "]));
            let [message, query] = texts.each_ref().map(|text| text.replace('"', "\"\""));
            let (clock, started) = (time.to_string().replace('T', " ").replace('Z', ""), "2026-11-20 00:00:00 UTC");
            let written = format!(
                r#"{clock} UTC,"ada","shop",123,"[local]",65a.7b,1,"SELECT",{started},3/7,0,ERROR,42P01,"{message}",,,,,,"{query}",15,,"psql","client backend",,0"#
            );
            EscapedLine { written, texts: texts.into() }
        }
        3 => {
            let text = text(dice, &[" ", "/", "\\"]);
            EscapedLine { written: format!("{time} INFO done with {text}"), texts: vec![text] }
        }
        _ => EscapedLine { written: object, texts: texts.into() },
    }
}

/// A question, and whether a text answers it.
struct WordQuestion {
    test: Test,
    accepts: Box<dyn Fn(&str) -> bool>,
    is_negated: bool,
}

/// Whether a text has what a test looks for.
type Accepts = Box<dyn Fn(&str) -> bool>;

/// Whether a text has another one, with no word that goes on at these ends.
fn has(text: &str, wanted: &str, ends: (bool, bool)) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(is_word_character);
    let (starts, stops) = (is_word(wanted.chars().next()), is_word(wanted.chars().next_back()));
    text.match_indices(wanted).any(|(at, _)| {
        let before = is_word(text[..at].chars().next_back());
        let after = is_word(text[at + wanted.len()..].chars().next());
        !(ends.0 && starts && before || ends.1 && stops && after)
    })
}

fn question(dice: &mut Dice, lines: &[EscapedLine]) -> WordQuestion {
    let of = &dice.pick(lines).texts;
    let text = dice.pick(of).clone();
    // From a word to the end of a word: the line has other text beside values.
    let cut = |dice: &mut Dice| {
        let places = WORDS.iter().flat_map(|word| text.match_indices(word).map(|(at, word)| (at, at + word.len())));
        let places: Vec<(usize, usize)> = places.collect();
        let ((from, end), (_, later)) = (*dice.pick(&places), *dice.pick(&places));
        text[from..if later > end { later } else { end }].to_owned()
    };
    let word = (*dice.pick(&WORDS)).to_owned();
    let wanted = word.clone();
    let (test, accepts): (Test, Accepts) = match dice.below(8) {
        0 => {
            let part = cut(dice);
            let sought = part.clone();
            (Test::Part(part), Box::new(move |text| text.contains(&sought)))
        }
        1 => {
            let phrase = cut(dice);
            let sought = phrase.clone();
            (Test::Phrase { text: phrase, any_case: false }, Box::new(move |text| has(text, &sought, (true, true))))
        }
        2 => (
            Test::Phrase { text: text.clone(), any_case: false },
            Box::new(move |known| has(known, &text, (true, true))),
        ),
        3 => (Test::Prefix { text: word, any_case: false }, Box::new(move |text| has(text, &wanted, (true, false)))),
        4 => (
            Test::Phrase { text: word, any_case: true },
            Box::new(move |text| has(&text.to_lowercase(), &wanted.to_lowercase(), (true, true))),
        ),
        5 => (Test::Regexp(word.replace('.', "[.]")), Box::new(move |text| text.contains(&wanted))),
        _ => (Test::Phrase { text: word, any_case: false }, Box::new(move |text| has(text, &wanted, (true, true)))),
    };
    WordQuestion { test, accepts, is_negated: dice.is_one_in(4) }
}

impl WordQuestion {
    fn expression(&self) -> Expression {
        let bare = Expression::Field(FieldName::anywhere(), self.test.clone());
        if self.is_negated { Expression::Not(bare.into()) } else { bare }
    }

    fn accepts(&self, line: &EscapedLine) -> bool {
        line.texts.iter().any(|text| (self.accepts)(text)) != self.is_negated
    }
}

/// Parses lines as those of a file. Each record must be of its line, and a condition of a table means what the question does.
fn batches(lines: &[EscapedLine], first: usize, questions: &[WordQuestion]) -> Vec<Batch> {
    let bytes: String = lines.iter().map(|line| format!("{}\n", line.written)).collect();
    let options = ParseOptions::default();
    let (mut profile, mut batches) = (SourceProfile::default(), Vec::new());
    let mut records = Assembler::new(bytes.as_bytes(), 0, 1 << 20, &options, Ending::Closed).at_beginning(true);
    let conditions: Vec<Condition> = questions
        .iter()
        .map(|question| Condition::parse(&question.expression().to_string()).expect("a filter"))
        .collect();
    for (n, line) in (first..).zip(lines) {
        let raw = records.next(&profile, &options).expect("a record a line");
        let parsed = profile.raw_record(&raw, &options, Ticks::MAX);
        let record = &parsed.record;
        assert!(record.time.is_some(), "{}", line.written);
        for (question, condition) in questions.iter().zip(&conditions) {
            let subject = Subject { instance: "web", source: "app.log", tenant: None, record };
            assert_eq!(condition.holds(&subject), question.accepts(line), "when {condition}: {}", line.written);
        }
        let time = record.time.expect("a time");
        let partition = ["web", "db", "cache"][n % 3];
        let mut batch = Batch::new(table(), partition.into());
        daytable_model::entity::append(&mut batch, RowKey::new(time, 1, n as u64), "app.log", record);
        batches.push(batch);
    }
    assert!(records.next(&profile, &options).is_none());
    batches
}

fn ask(state: &str, data: &Path, lines: &[EscapedLine], questions: &[WordQuestion]) {
    let (reader, archives) = (Reader::open(data).expect("opened"), Archives::Read(Access::default()));
    let stores = Stores::local(&reader, &archives);
    for question in questions {
        let text = question.expression().to_string();
        let query = ParsedQuery::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let options = AnswerOptions::at(day().plus(Duration::from_secs(86_400)));
        let mut found = Vec::new();
        answer(&stores, &query, &options, &|| true, &mut |item| {
            if let AnswerItem::Record(record) = item {
                found.push(record.record().row_key.position());
            }
            ControlFlow::Continue(())
        })
        .expect("answered");
        found.sort_unstable();
        let wanted: Vec<u64> = (0..).zip(lines).filter(|(_, line)| question.accepts(line)).map(|(n, _)| n).collect();
        let differs = (0..).zip(lines).find(|(n, _)| found.contains(n) != wanted.contains(n));
        assert_eq!(found, wanted, "{state}: {text}: {:?}", differs.map(|(_, line)| (&line.written, &line.texts)));
        let query = ParsedQuery::parse(&format!("{text} | stats count() n")).expect("a query");
        let mut counted = Vec::new();
        answer(&stores, &query, &options, &|| true, &mut |item| {
            counted.push(serde_json::to_string(&item).expect("plain data"));
            ControlFlow::Continue(())
        })
        .expect("answered");
        assert_eq!(counted, [format!("{{\"n\":{}}}", wanted.len())], "{state}: {text}");
    }
}

/// A bare word finds the records that have it in their message or in a value, as it was meant and not as it was written.
pub(super) fn find(dice: &mut Dice) {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let store = Store::open(&data, options).expect("opened");
    let count = 40 + dice.below(160);
    let time = |n: usize| day().plus(Duration::from_millis(1000 + 250 * n as u64));
    let mut lines: Vec<EscapedLine> = (0..count).map(|n| line(dice, time(n))).collect();
    let questions: Vec<WordQuestion> = (0..14).map(|_| question(dice, &lines)).collect();
    let middle = count / 2;
    submit(&store, batches(&lines[..middle], 0, &questions));
    submit(&store, batches(&lines[middle..], middle, &questions));
    ask("open", &data, &lines, &questions);
    let archive = format!("file://{}", dir.path().join("archive").display());
    let executor = Executor::new(store.steps(), data.clone(), Access::default(), Arc::default());
    executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
    ask("sealed", &data, &lines, &questions);
    let late: Vec<EscapedLine> = (count..count + 9).map(|n| line(dice, time(n))).collect();
    submit(&store, batches(&late, count, &questions));
    lines.extend(late);
    ask("sealed, with late records", &data, &lines, &questions);
    executor.archive_now(&table(), Some(&archive), &mut |_| {}).expect("sealed again, and archived");
    executor.steps().drop_table(&table()).expect("dropped");
    ask("archived", &data, &lines, &questions);
    store.close().expect("closed");
}
