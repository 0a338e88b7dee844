//! The list of tools, and the route of each call.

use daytable_model::safe_text::percent_encoded;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Bytes of an answer. Agents pay for each of them.
pub const ANSWER_BYTES_MAX: usize = 48 << 10;
/// Records of an answer without `limit`, and the most.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 1000;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// A whole number from 0 up to this.
    Number(u64),
}

/// An argument of a tool: its name, the parameter of the route, its type, whether it is required, and what it is.
#[derive(Clone, Copy, Debug)]
struct Argument {
    name: &'static str,
    parameter: &'static str,
    kind: Kind,
    is_required: bool,
    about: &'static str,
}

const fn text(name: &'static str, about: &'static str) -> Argument {
    Argument { name, parameter: name, kind: Kind::Text, is_required: false, about }
}

const QUERY: Argument = Argument {
    parameter: "q",
    ..text(
        "query",
        "A query: words and fields, for example `timeout level:>=error instance:web-*`, `status:>=500`, `\"a phrase\"`, `path:/api/*`; joined by and, or, not. \
         Empty means every record",
    )
};
const PIPED: Argument = Argument {
    is_required: true,
    about: "A query with pipes, for example `level:error | stats by (instance) count() n | sort by (n desc)`, `* | top 10 by (path)`, \
            `* | stats by (_time:1h) quantile(0.95, duration) p95`",
    ..QUERY
};
const SINCE: Argument = text("since", "The oldest time: an age such as `15m`, `2h`, `3d`, or RFC 3339");
const UNTIL: Argument = text("until", "The newest time, in the same forms");
const LIMIT: Argument = Argument {
    kind: Kind::Number(LIMIT_MAX),
    ..text("limit", "The most lines of the answer: 50 without it, 1000 at most")
};

/// A tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// The name that a call gives.
    pub name: &'static str,
    /// What it answers, for the agent that chooses.
    pub about: &'static str,
    route: &'static str,
    arguments: &'static [Argument],
    /// Whether the route limits its lines.
    has_limit: bool,
    /// Whether the answer has content of logs.
    pub is_content: bool,
}

/// All tools.
pub const TOOLS: [ToolSpec; 9] = [
    ToolSpec {
        name: "query",
        about: "The newest log records that a query finds, one JSON object a line, newest first. Begin with `stats` or `facets` when there may be many. \
                `table`, `partition_key` and `row_key` of a record, joined by `/`, are its key for `context`",
        route: "/api/query",
        arguments: &[QUERY, SINCE, UNTIL, LIMIT],
        has_limit: true,
        is_content: true,
    },
    ToolSpec {
        name: "stats",
        about: "The rows of a query with pipes: counts, groups, percentiles, top values. One JSON document. The cheapest way to an overview",
        route: "/api/stats",
        arguments: &[PIPED, SINCE, UNTIL, LIMIT],
        has_limit: true,
        is_content: true,
    },
    ToolSpec {
        name: "facets",
        about: "The most frequent values of each field among the records of a query: what is different about these records",
        route: "/api/facets",
        arguments: &[QUERY, SINCE, UNTIL],
        has_limit: false,
        is_content: true,
    },
    ToolSpec {
        name: "fields",
        about: "The names of all fields among the records of a query, with the number of records of each. Ask this before you write a query about a field",
        route: "/api/fields",
        arguments: &[QUERY, SINCE, UNTIL],
        has_limit: false,
        is_content: true,
    },
    ToolSpec {
        name: "values",
        about: "The most frequent values of one field, with the number of records of each",
        route: "/api/values",
        arguments: &[
            Argument { is_required: true, ..text("field", "The name of the field, for example `instance`") },
            QUERY,
            SINCE,
            UNTIL,
            LIMIT,
        ],
        has_limit: true,
        is_content: true,
    },
    ToolSpec {
        name: "context",
        about: "The records around one record of the same source, oldest first",
        route: "/api/context",
        arguments: &[
            Argument { is_required: true, ..text("key", "TABLE/PARTITION_KEY/ROW_KEY of a record that `query` gave") },
            Argument { kind: Kind::Number(100), ..text("before", "Records before it: 10 without it") },
            Argument { kind: Kind::Number(100), ..text("after", "Records after it: 10 without it") },
        ],
        has_limit: false,
        is_content: true,
    },
    ToolSpec {
        name: "patterns",
        about: "Messages that differ in numbers and names only are one pattern: which kinds of messages there are, and how many of each",
        route: "/api/patterns",
        arguments: &[QUERY, SINCE, UNTIL],
        has_limit: false,
        is_content: true,
    },
    ToolSpec {
        name: "sources",
        about: "Where the records come from: files, listeners, the journal, with how far each was read and what was lost",
        route: "/api/sources",
        arguments: &[],
        has_limit: false,
        is_content: false,
    },
    ToolSpec {
        name: "verify",
        about: "The state of daytable: troubles, alerts, what the last verification of the stored records found, how far sources and archives are",
        route: "/api/status",
        arguments: &[],
        has_limit: false,
        is_content: false,
    },
];

impl ToolSpec {
    /// The tool with a name.
    ///
    /// # Errors
    ///
    /// There is no such tool; the text has the names of all.
    pub fn named(name: &str) -> Result<&'static ToolSpec, String> {
        TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
            let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            format!("there is no tool {name:?}; the tools are {}", names.join(", "))
        })
    }

    /// The JSON Schema of the arguments.
    pub fn schema(&self) -> Map<String, Value> {
        let property = |argument: &Argument| {
            let schema = match argument.kind {
                Kind::Text => json!({ "type": "string", "description": argument.about }),
                Kind::Number(most) => {
                    json!({ "type": "integer", "minimum": 0, "maximum": most, "description": argument.about })
                }
            };
            (argument.name.to_owned(), schema)
        };
        let required: Vec<&str> = self.arguments.iter().filter(|one| one.is_required).map(|one| one.name).collect();
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(self.arguments.iter().map(property).collect()));
        schema.insert("required".into(), required.into());
        schema.insert("additionalProperties".into(), false.into());
        schema
    }

    /// The route of a call, with its parameters.
    ///
    /// # Errors
    ///
    /// An argument is unknown, missing, or of another type; the text says what to write.
    pub fn target(&self, given: &Map<String, Value>) -> Result<String, String> {
        if let Some(unknown) = given.keys().find(|name| !self.arguments.iter().any(|one| one.name == **name)) {
            let known: Vec<&str> = self.arguments.iter().map(|one| one.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("{} has no argument {unknown:?}; its arguments: {known}", self.name));
        }
        let mut target = format!("{}?", self.route);
        for argument in self.arguments {
            let value = match (given.get(argument.name).unwrap_or(&Value::Null), argument.kind) {
                (Value::Null, _) if argument.is_required => {
                    return Err(format!("{} needs `{}`: {}", self.name, argument.name, argument.about));
                }
                (Value::Null, _) => continue,
                (Value::String(text), Kind::Text) if text.trim().is_empty() && !argument.is_required => continue,
                (Value::String(text), Kind::Text) if !text.trim().is_empty() => text.clone(),
                (Value::Number(number), Kind::Number(most)) => match number.as_u64().filter(|number| *number <= most) {
                    Some(number) => number.to_string(),
                    None => return Err(format!("`{}` is a whole number from 0 to {most}", argument.name)),
                },
                (_, Kind::Text) => return Err(format!("`{}` is a text: {}", argument.name, argument.about)),
                (_, Kind::Number(most)) => {
                    return Err(format!("`{}` is a whole number from 0 to {most}", argument.name));
                }
            };
            // The routes take from 1 on; no line at all answers nothing.
            let value = if argument.name == "limit" && value == "0" { "1".into() } else { value };
            add(&mut target, argument.parameter, &value);
        }
        if self.has_limit && !given.get("limit").is_some_and(Value::is_number) {
            add(&mut target, "limit", &LIMIT_DEFAULT.to_string());
        }
        target.pop();
        Ok(target)
    }
}

/// Adds a parameter and a `&` or keeps the `?` at the end.
fn add(target: &mut String, name: &str, value: &str) {
    let _ = write!(target, "{name}={}&", percent_encoded(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tool: &str, arguments: Value) -> Result<String, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        ToolSpec::named(tool)?.target(&arguments)
    }

    #[test]
    fn a_call_is_a_route_with_parameters() {
        for (tool, arguments, expected) in [
            ("query", json!({}), "/api/query?limit=50"),
            ("query", json!({ "query": "a&b +ü", "limit": 5 }), "/api/query?q=a%26b%20%2B%C3%BC&limit=5"),
            ("query", json!({ "query": "", "since": null, "limit": 0 }), "/api/query?limit=1"),
            ("context", json!({ "key": "Log1/a/b", "before": 0 }), "/api/context?key=Log1%2Fa%2Fb&before=0"),
            ("sources", json!({}), "/api/sources"),
        ] {
            assert_eq!(target(tool, arguments).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_wrong_call_says_what_to_write() {
        for (tool, arguments, says) in [
            ("quary", json!({}), "the tools are query, stats"),
            ("query", json!({ "q": "a" }), "its arguments: query, since, until, limit"),
            ("query", json!({ "query": 7 }), "`query` is a text"),
            ("query", json!({ "limit": 1001 }), "from 0 to 1000"),
            ("query", json!({ "limit": "5" }), "from 0 to 1000"),
            ("stats", json!({}), "stats needs `query`"),
            ("values", json!({ "field": " " }), "`field` is a text"),
            ("verify", json!({ "day": "x" }), "its arguments: none"),
        ] {
            let error = target(tool, arguments).expect_err(says);
            assert!(error.contains(says), "{error}");
        }
    }
}
