//! The tree of a query. What can be compiled once (regular expressions, templates) is compiled in the tree.

use crate::ip::IpFilter;
use crate::line_pattern::CapturePattern;
use crate::template::Template;
use regex::Regex;

/// A query.
#[derive(Clone, Debug)]
pub enum LogqlQuery {
    /// A query for entries.
    Log(LogQuery),
    /// A query for numbers.
    Metric(MetricQuery),
}

/// Streams, and what happens to each of their entries.
#[derive(Clone, Debug)]
pub struct LogQuery {
    /// The streams.
    pub selector: Selector,
    /// What happens to an entry, in this order.
    pub stages: Vec<PipelineStage>,
}

/// The conditions on the labels of a stream; all must hold.
#[derive(Clone, Debug)]
pub struct Selector(pub Vec<LabelMatcher>);

impl Selector {
    /// Whether a stream with these labels is selected. `get` returns a label's value.
    pub fn matches<'v>(&self, get: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.0.iter().all(|matcher| matcher.matches(get(&matcher.name).unwrap_or_default()))
    }

    /// The value that a label must have, if the selector names one.
    pub fn equal_to(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|matcher| matcher.name == name && matcher.op == MatchOp::Equal).map(|m| m.value.as_str())
    }
}

/// How a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

/// A condition on a label.
#[derive(Clone, Debug)]
pub struct LabelMatcher {
    /// The label.
    pub name: String,
    /// The comparison.
    pub op: MatchOp,
    /// The text, or the regular expression as written.
    pub value: String,
    /// The regular expression, anchored.
    pub(crate) regex: Option<Regex>,
}

impl LabelMatcher {
    /// Whether a value satisfies the condition. A label that does not exist has an empty value.
    pub fn matches(&self, value: &str) -> bool {
        match (self.op, &self.regex) {
            (MatchOp::Equal, _) => value == self.value,
            (MatchOp::NotEqual, _) => value != self.value,
            (MatchOp::Regex, Some(regex)) => regex.is_match(value),
            (MatchOp::NotRegex, Some(regex)) => !regex.is_match(value),
            (_, None) => false,
        }
    }
}

/// A step of a pipeline.
#[derive(Clone, Debug)]
pub enum PipelineStage {
    /// A condition on the line.
    Line(LineFilter),
    /// `| json`
    Json(Vec<LabelExtraction>),
    /// `| logfmt`
    Logfmt {
        /// `--strict`: a malformed pair is an error.
        strict: bool,
        /// `--keep-empty`: a key without a value is a label.
        keep_empty: bool,
        /// The keys to extract; all if empty.
        keys: Vec<LabelExtraction>,
    },
    /// `| pattern`
    Pattern(CapturePattern),
    /// `| regexp`
    Regexp {
        /// The expression as written.
        source: String,
        /// The expression.
        regex: Regex,
    },
    /// `| unpack`
    Unpack,
    /// `| decolorize`
    Decolorize,
    /// A condition on labels.
    Labels(LabelFilter),
    /// `| line_format`
    LineFormat(Template),
    /// The same in a query for numbers that nothing behind it reads: as in Loki, no line is made, and no error.
    UnreadFormat(Template),
    /// `| label_format`
    LabelFormat(Vec<(String, LabelValue)>),
    /// `| drop`
    Drop(Vec<LabelPick>),
    /// `| keep`
    Keep(Vec<LabelPick>),
}

/// A label that a parser extracts: its name, and the path or key of its value.
#[derive(Clone, Debug)]
pub struct LabelExtraction {
    /// The label.
    pub label: String,
    /// The path as written.
    pub source: String,
    /// The steps of the path.
    pub(crate) path: Vec<PathStep>,
}

/// A step of a path in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathStep {
    Member(String),
    Index(usize),
}

/// The value that `label_format` gives to a label.
#[derive(Clone, Debug)]
pub enum LabelValue {
    /// That of another label, which disappears.
    Renamed(String),
    /// A template.
    Template(Template),
}

/// A label that is dropped or kept, with a condition.
#[derive(Clone, Debug)]
pub enum LabelPick {
    /// Always.
    Name(String),
    /// If its value satisfies the condition.
    If(LabelMatcher),
}

impl LabelPick {
    pub(crate) fn picks(&self, name: &str, value: &str) -> bool {
        match self {
            LabelPick::Name(picked) => picked == name,
            LabelPick::If(matcher) => matcher.name == name && matcher.matches(value),
        }
    }
}

/// A condition on the line.
#[derive(Clone, Debug)]
pub struct LineFilter {
    /// The comparison.
    pub op: LineOp,
    /// Of these, one must hold; where the comparison is negative, none may hold.
    pub tests: Vec<LineTest>,
}

/// How a line is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOp {
    /// `|=`
    Contains,
    /// `!=`
    NotContains,
    /// `|~`
    Regex,
    /// `!~`
    NotRegex,
    /// `|>`
    Pattern,
    /// `!>`
    NotPattern,
}

impl LineOp {
    /// Whether the line must not satisfy any test.
    pub fn is_negative(self) -> bool {
        matches!(self, LineOp::NotContains | LineOp::NotRegex | LineOp::NotPattern)
    }
}

/// What is looked for in a line.
#[derive(Clone, Debug)]
pub enum LineTest {
    /// A text.
    Text(String),
    /// A regular expression, and its source.
    Regex(String, Regex),
    /// A pattern.
    Pattern(CapturePattern),
    /// An address.
    Ip(IpFilter),
}

/// A condition on labels.
#[derive(Clone, Debug)]
pub enum LabelFilter {
    /// Both.
    And(Box<LabelFilter>, Box<LabelFilter>),
    /// One of both.
    Or(Box<LabelFilter>, Box<LabelFilter>),
    /// A text.
    Text(LabelMatcher),
    /// A number, a duration or a size.
    Quantity {
        /// The label.
        name: String,
        /// The comparison.
        op: CompareOp,
        /// What the label is compared with.
        value: f64,
        /// How the label's text is read.
        unit: Unit,
    },
    /// An address.
    Ip {
        /// The label.
        name: String,
        /// Whether the address must not match.
        negative: bool,
        /// The address.
        filter: IpFilter,
    },
}

/// How the text of a label becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Number,
    /// A duration, in nanoseconds.
    Duration,
    /// A size, in bytes.
    Size,
}

/// A comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl CompareOp {
    /// Whether the comparison holds.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            CompareOp::Equal => left == right,
            CompareOp::NotEqual => left != right,
            CompareOp::Greater => left > right,
            CompareOp::GreaterOrEqual => left >= right,
            CompareOp::Less => left < right,
            CompareOp::LessOrEqual => left <= right,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            CompareOp::Equal => "==",
            CompareOp::NotEqual => "!=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
        }
    }
}

/// A query for numbers.
#[derive(Clone, Debug)]
pub enum MetricQuery {
    /// A number.
    Number(f64),
    /// `vector(n)`
    Vector(f64),
    /// Entries over a range of time.
    Range(Box<RangeAggregation>),
    /// Series that are combined.
    Aggregate {
        /// The function.
        op: AggregateOp,
        /// `k` of `topk`.
        parameter: f64,
        /// The labels that the result keeps; `None` for none.
        grouping: Option<LabelGrouping>,
        /// The series.
        inner: Box<MetricQuery>,
    },
    /// An operator between two.
    Binary(Box<Binary>),
    /// `label_replace`
    LabelReplace {
        /// The series.
        inner: Box<MetricQuery>,
        /// The label to set.
        target: String,
        /// The value, with `$1` for groups.
        replacement: String,
        /// The label to match.
        label: String,
        /// The expression as written.
        source: String,
        /// The expression, anchored.
        regex: Regex,
    },
}

/// A function over the entries of a range of time.
#[derive(Clone, Debug)]
pub struct RangeAggregation {
    /// The function.
    pub op: RangeOp,
    /// The quantile.
    pub parameter: f64,
    /// The entries.
    pub query: LogQuery,
    /// The label whose value is aggregated.
    pub unwrap: Option<Unwrap>,
    /// The length of the range in nanoseconds.
    pub range: i64,
    /// How far the range lies back, in nanoseconds.
    pub offset: i64,
    /// The labels that the result keeps; `None` for all.
    pub grouping: Option<LabelGrouping>,
}

/// `| unwrap`, and the conditions behind it.
#[derive(Clone, Debug)]
pub struct Unwrap {
    /// The label.
    pub label: String,
    /// How its text becomes a number.
    pub conversion: Conversion,
    /// Conditions that follow.
    pub filters: Vec<LabelFilter>,
}

/// How the text of an unwrapped label becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A plain number.
    Number,
    /// A duration, in seconds: `duration(label)`.
    Duration,
    /// The same by its other name: `duration_seconds(label)`.
    DurationSeconds,
    /// A size, in bytes: `bytes(label)`.
    Bytes,
}

/// A function over a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the language")]
pub enum RangeOp {
    CountOverTime,
    Rate,
    RateCounter,
    BytesOverTime,
    BytesRate,
    SumOverTime,
    AvgOverTime,
    MinOverTime,
    MaxOverTime,
    StddevOverTime,
    StdvarOverTime,
    QuantileOverTime,
    FirstOverTime,
    LastOverTime,
    AbsentOverTime,
}

impl RangeOp {
    pub(crate) const ALL: [(&'static str, RangeOp); 15] = [
        ("count_over_time", RangeOp::CountOverTime),
        ("rate", RangeOp::Rate),
        ("rate_counter", RangeOp::RateCounter),
        ("bytes_over_time", RangeOp::BytesOverTime),
        ("bytes_rate", RangeOp::BytesRate),
        ("sum_over_time", RangeOp::SumOverTime),
        ("avg_over_time", RangeOp::AvgOverTime),
        ("min_over_time", RangeOp::MinOverTime),
        ("max_over_time", RangeOp::MaxOverTime),
        ("stddev_over_time", RangeOp::StddevOverTime),
        ("stdvar_over_time", RangeOp::StdvarOverTime),
        ("quantile_over_time", RangeOp::QuantileOverTime),
        ("first_over_time", RangeOp::FirstOverTime),
        ("last_over_time", RangeOp::LastOverTime),
        ("absent_over_time", RangeOp::AbsentOverTime),
    ];

    pub(crate) fn name(self) -> &'static str {
        RangeOp::ALL.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    /// Whether the function may, and whether it must, have an unwrapped label.
    pub(crate) fn unwraps(self) -> (bool, bool) {
        match self {
            RangeOp::CountOverTime | RangeOp::BytesOverTime | RangeOp::BytesRate => (false, false),
            RangeOp::Rate | RangeOp::AbsentOverTime => (true, false),
            _ => (true, true),
        }
    }

    /// Whether the function may have a grouping of its own.
    pub(crate) fn groups(self) -> bool {
        use RangeOp::*;
        matches!(
            self,
            AvgOverTime
                | MinOverTime
                | MaxOverTime
                | StddevOverTime
                | StdvarOverTime
                | QuantileOverTime
                | FirstOverTime
                | LastOverTime
        )
    }
}

/// A function over series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the language")]
pub enum AggregateOp {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Stddev,
    Stdvar,
    Topk,
    Bottomk,
    ApproxTopk,
    Sort,
    SortDesc,
}

impl AggregateOp {
    pub(crate) const ALL: [(&'static str, AggregateOp); 12] = [
        ("sum", AggregateOp::Sum),
        ("avg", AggregateOp::Avg),
        ("min", AggregateOp::Min),
        ("max", AggregateOp::Max),
        ("count", AggregateOp::Count),
        ("stddev", AggregateOp::Stddev),
        ("stdvar", AggregateOp::Stdvar),
        ("topk", AggregateOp::Topk),
        ("bottomk", AggregateOp::Bottomk),
        ("approx_topk", AggregateOp::ApproxTopk),
        ("sort", AggregateOp::Sort),
        ("sort_desc", AggregateOp::SortDesc),
    ];

    pub(crate) fn name(self) -> &'static str {
        AggregateOp::ALL.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn has_parameter(self) -> bool {
        matches!(self, AggregateOp::Topk | AggregateOp::Bottomk | AggregateOp::ApproxTopk)
    }
}

/// Which labels a result keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelGrouping {
    /// Whether the labels are those that the result does not keep.
    pub without: bool,
    /// The labels.
    pub labels: Vec<String>,
}

impl LabelGrouping {
    /// Whether the result keeps this label.
    pub fn keeps(&self, name: &str) -> bool {
        self.labels.iter().any(|label| label == name) != self.without
    }
}

/// An operator between two.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The operator.
    pub op: BinaryOp,
    /// The left side.
    pub left: MetricQuery,
    /// The right side.
    pub right: MetricQuery,
    /// `bool`: a comparison gives 0 or 1, instead of leaving series out.
    pub is_bool: bool,
    /// `on` and `ignoring`.
    pub matching: Option<LabelGrouping>,
    /// `group_left` and `group_right`.
    pub group: Option<GroupSide>,
}

/// `group_left` or `group_right`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSide {
    /// Whether the right side is the one with many series.
    pub right: bool,
    /// The labels that come from the side with one series.
    pub include: Vec<String>,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the signs")]
pub enum BinaryOp {
    Or,
    And,
    Unless,
    Compare(CompareOp),
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

impl BinaryOp {
    /// How strongly the operator binds.
    pub(crate) fn precedence(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And | BinaryOp::Unless => 2,
            BinaryOp::Compare(_) => 3,
            BinaryOp::Add | BinaryOp::Subtract => 4,
            BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => 5,
            BinaryOp::Power => 6,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            BinaryOp::Or => "or",
            BinaryOp::And => "and",
            BinaryOp::Unless => "unless",
            BinaryOp::Compare(op) => op.sign(),
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::Power => "^",
        }
    }

    /// Whether the operator works on whole series, not on their numbers.
    pub(crate) fn is_set(self) -> bool {
        self.precedence() < 3
    }

    /// The result for two numbers. A comparison gives 0 or 1. NaN for a division or modulo by 0, and for an operator on
    /// series.
    pub(crate) fn number(self, left: f64, right: f64) -> f64 {
        match self {
            BinaryOp::Compare(op) => f64::from(u8::from(op.holds(left, right))),
            BinaryOp::Add => left + right,
            BinaryOp::Subtract => left - right,
            BinaryOp::Multiply => left * right,
            // Loki gives no infinity here.
            BinaryOp::Divide | BinaryOp::Modulo if right == 0.0 => f64::NAN,
            BinaryOp::Divide => left / right,
            BinaryOp::Modulo => left % right,
            BinaryOp::Power => left.powf(right),
            BinaryOp::Or | BinaryOp::And | BinaryOp::Unless => f64::NAN,
        }
    }
}
