//! The questions, in each program's language.

use crate::corpus::{Corpus, SEED};
use crate::victoria;

/// A question.
pub(crate) struct Question {
    /// The name in the report.
    pub(crate) name: &'static str,
    /// Milliseconds to reach.
    pub(crate) target: &'static str,
    /// The query of daytable, and of VictoriaLogs where it has no other.
    pub(crate) query: String,
    /// Maximum number of records.
    pub(crate) limit: Option<u64>,
    /// The query of VictoriaLogs, if it differs.
    pub(crate) victoria: Option<String>,
    /// In SQL, with the columns of the sealed file and the table `logs`.
    pub(crate) sql: String,
}

impl Question {
    /// A question about all records, which VictoriaLogs is asked alike.
    pub(crate) fn new(name: &'static str, target: &'static str, query: &str, sql: &str) -> Question {
        Question { name, target, query: query.to_owned(), limit: None, victoria: None, sql: sql.to_owned() }
    }
}

/// All questions about a corpus of so many records.
pub(crate) fn questions(records: u64) -> Vec<Question> {
    let mut line = String::new();
    if let Some(sample) = Corpus::new(SEED, records).nth(usize::try_from(records / 2).unwrap_or(0)) {
        sample.write_json(&mut line);
    }
    let trace = line.split("\"trace_id\":\"").nth(1).and_then(|rest| rest.get(..32)).unwrap_or_default().to_owned();
    let part = &trace[3..29];
    let hour = "\"Time\" >= '2026-11-20 12:00:00' AND \"Time\" < '2026-11-20 13:00:00'";
    let times = "_time:[2026-11-20T12:00:00Z, 2026-11-20T13:00:00Z)";
    let newest = "ORDER BY \"Time\" DESC LIMIT 100";
    let any = |text: &str| {
        let columns = ["Message", "component", "method", "path", "client", "trace_id", "error"];
        let tests: Vec<String> = columns.iter().map(|column| format!("\"{column}\" LIKE '%{text}%'")).collect();
        tests.join(" OR ")
    };
    let all = |filter: &str| format!("SELECT * FROM logs WHERE {filter}");
    let question = |name, target, query: &str, limit, sql: String| Question {
        name,
        target,
        query: query.to_owned(),
        limit,
        victoria: None,
        sql,
    };
    // A word, or a part of one between asterisks.
    let text = |name, target, text: &str, around: Option<&str>| {
        let around = around.unwrap_or_default();
        let victoria = if around.is_empty() { text.to_owned() } else { format!("~\"{text}\"") };
        Question {
            victoria: Some(victoria::any_field(&victoria)),
            ..question(name, target, &format!("{around}{text}{around}"), None, all(&any(text)))
        }
    };
    let five = "time_bucket(INTERVAL '5 minutes', \"Time\")";
    vec![
        question(
            "newest 100 of one instance",
            "0.5",
            "instance:=worker-07",
            Some(100),
            all(&format!("\"PartitionKey\" = 'worker-07' {newest}")),
        ),
        question("newest 100 of all", "3", "*", Some(100), format!("SELECT * FROM logs {newest}")),
        question(
            "errors of one hour",
            "10",
            &format!("level:error {times}"),
            None,
            all(&format!("\"Level\" = 'error' AND {hour}")),
        ),
        question("newest 100 errors", "3", "level:error", Some(100), all(&format!("\"Level\" = 'error' {newest}"))),
        question(
            "an hour of one instance",
            "12",
            &format!("instance:=worker-07 {times}"),
            None,
            all(&format!("\"PartitionKey\" = 'worker-07' AND {hour}")),
        ),
        text("an identifier, any field", "10", &trace, None),
        text("an identifier, as a part", "60", part, Some("*")),
        text("a word that is nowhere", "5", "qwertzuiop", None),
        text("a part that is nowhere", "50", "wertzuio", Some("*")),
        Question {
            victoria: Some("error:~\"\\\\(try 2\\\\)\"".into()),
            ..question("a text in 3 of 5,000 records, all of them", "100", "*\"(try 2)\"*", None, all(&any("(try 2)")))
        },
        question(
            "count by level, every 5 min",
            "10",
            "* | stats by (_time:5m, level) count() n",
            None,
            format!("SELECT {five}, \"Level\", count(*) FROM logs GROUP BY 1, 2"),
        ),
        question(
            "count by instance",
            "1",
            "* | stats by (instance) count() n",
            None,
            "SELECT \"PartitionKey\", count(*) FROM logs GROUP BY 1".into(),
        ),
        question(
            "count of status = 500",
            "8",
            "status:=500 | stats count() n",
            None,
            "SELECT count(*) FROM logs WHERE status = 500".into(),
        ),
        question("newest 100 of status = 500", "3", "status:=500", Some(100), all(&format!("status = 500 {newest}"))),
        question(
            "top 10 paths",
            "80",
            "* | top 10 by (path)",
            None,
            "SELECT path, count(*) FROM logs GROUP BY 1 ORDER BY 2 DESC LIMIT 10".into(),
        ),
        question(
            "top 10 clients",
            "200",
            "* | top 10 by (client)",
            None,
            "SELECT client, count(*) FROM logs GROUP BY 1 ORDER BY 2 DESC LIMIT 10".into(),
        ),
        question(
            "average of a duration by component",
            "25",
            "* | stats by (component) avg(duration_ms) a",
            None,
            "SELECT component, avg(duration_ms) FROM logs GROUP BY 1".into(),
        ),
        question(
            "99th percentile by component",
            "35",
            "* | stats by (component) quantile(0.99, duration_ms) p",
            None,
            "SELECT component, quantile_cont(duration_ms, 0.99) FROM logs GROUP BY 1".into(),
        ),
        question(
            "99th percentile by component, every 5 min",
            "120",
            "* | stats by (_time:5m, component) quantile(0.99, duration_ms) p",
            None,
            format!("SELECT {five}, component, quantile_cont(duration_ms, 0.99) FROM logs GROUP BY 1, 2"),
        ),
        question(
            "count by status and level",
            "20",
            "* | stats by (status, level) count() n",
            None,
            "SELECT status, \"Level\", count(*) FROM logs GROUP BY 1, 2".into(),
        ),
    ]
}
