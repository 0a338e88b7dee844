//! The tree of a query.

use crate::field_name::FieldName;
use crate::moment::Moment;
use daytable_model::clock::ZoneClock;

/// A query: a filter, and pipes that work on the matching records.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedQuery {
    /// The records.
    pub filter: Expression,
    /// The pipes, in their order.
    pub pipes: Vec<Pipe>,
}

/// A condition on a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `*`: every record.
    All,
    /// All of at least two conditions.
    And(Vec<Expression>),
    /// One of at least two conditions.
    Or(Vec<Expression>),
    /// Not the condition.
    Not(Box<Expression>),
    /// `_time:…`
    Time(TimeTest),
    /// `field:…`. A bare word tests the field `line`.
    Field(FieldName, Test),
}

/// A test of the value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `*`: the field is present and not empty.
    Present,
    /// `""`: the field is absent or empty.
    Empty,
    /// `word`, `"a phrase"`, `i(word)`: a word or a phrase with word borders at both ends.
    Phrase {
        /// The text.
        text: String,
        /// Whether case does not matter.
        any_case: bool,
    },
    /// `word*`, `i(word*)`: a word that begins so.
    Prefix {
        /// The text.
        text: String,
        /// Whether case does not matter.
        any_case: bool,
    },
    /// `*part*`: a text, also within a word.
    Part(String),
    /// `="value"`: the whole value.
    Exact(String),
    /// `="value"*`: the value begins so.
    ExactPrefix(String),
    /// `in(a,b)`: one of the values.
    In(Vec<String>),
    /// `contains_all(a,b)`: each of the phrases.
    ContainsAll(Vec<String>),
    /// `contains_any(a,b)`: one of the phrases.
    ContainsAny(Vec<String>),
    /// `seq(a,b)`: the phrases in this order.
    Sequence(Vec<String>),
    /// `~"regular expression"`: a match anywhere in the value.
    Regexp(String),
    /// `>=5`, `<1.5s`, `>=warn`: by number where the text is one, else by text.
    Order(Operator, String),
    /// `range[1,10)`: between two numbers.
    Range {
        /// The lower bound as written.
        low: String,
        /// Whether the lower bound belongs to the range.
        low_included: bool,
        /// The upper bound as written.
        high: String,
        /// Whether the upper bound belongs to the range.
        high_included: bool,
    },
    /// `string_range(a,b)`: at least the first, and less than the second.
    StringRange(String, String),
    /// `pattern("order <_> done")`: the text has this [pattern](crate::line_pattern).
    Pattern(String),
    /// `len_range(5,10)`: this many characters.
    LengthRange(u64, u64),
    /// `ipv4_range(10.0.0.0/8)`: between two addresses, both included.
    AddressRange(u32, u32),
    /// The times of `_arrived:…`, which are written as those of `_time:…` are.
    Times(TimeTest),
    /// `eq_field(other)`, `le_field(other)`, `lt_field(other)`: compared with another field.
    Other(FieldOperator, FieldName),
}

impl Test {
    /// The test of a whole value, in which `*` stands for any text.
    pub fn glob(pattern: &str) -> Test {
        match pattern.split_once('*') {
            None => Test::Exact(pattern.to_owned()),
            Some((prefix, "")) => Test::ExactPrefix(prefix.to_owned()),
            Some(_) => {
                Test::Regexp(format!("^{}$", pattern.split('*').map(regex::escape).collect::<Vec<_>>().join(".*")))
            }
        }
    }
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl Operator {
    /// The operator as a query writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
        }
    }

    /// Whether two values in this order satisfy the operator.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
        }
    }
}

/// How a field compares with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `eq_field`
    Equal,
    /// `le_field`
    LessOrEqual,
    /// `lt_field`
    Less,
}

/// `_time:…`, or `_arrived:…`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeTest {
    /// The times.
    pub times: Times,
    /// `offset 1h`: so much earlier.
    pub offset: Option<Span>,
}

/// A duration as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text in the query.
    pub text: String,
    /// The length in nanoseconds.
    pub nanos: i64,
}

/// The times that such a filter takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// Everything until now; only with an offset.
    Any,
    /// `5m`: the time from so long ago until now.
    Last(Span),
    /// `<5m`, `>=5m`: an age.
    Age(Operator, Span),
    /// `2026-11-21T08`: a period.
    Period(Moment),
    /// `>=2026-11-21`: before or after a moment.
    Order(Operator, Moment),
    /// `[a,b)`: between two moments.
    Between {
        /// The start.
        from: Moment,
        /// Whether the start belongs to the range.
        from_included: bool,
        /// The end.
        to: Moment,
        /// Whether the end belongs to the range.
        to_included: bool,
    },
    /// `day_range[08:00, 18:00)`: minutes of each day, UTC.
    Daily {
        /// The first minute.
        from: u32,
        /// Whether the first minute belongs to the range.
        from_included: bool,
        /// The last minute.
        to: u32,
        /// Whether the last minute belongs to the range.
        to_included: bool,
    },
    /// `week_range[Mon, Fri]`: days of each week, UTC; 0 is Sunday.
    Weekly {
        /// The first day.
        from: u32,
        /// Whether the first day belongs to the range.
        from_included: bool,
        /// The last day.
        to: u32,
        /// Whether the last day belongs to the range.
        to_included: bool,
    },
}

/// A step of a query after its filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Pipe {
    /// `stats by (…) count() n, …`
    Stats {
        /// The groups.
        by: Vec<GroupField>,
        /// The functions over a group; each makes a column.
        aggregates: Vec<Aggregate>,
    },
    /// `top 10 by (…)`
    Top {
        /// Maximum number of rows.
        limit: u64,
        /// The groups.
        by: Vec<FieldName>,
        /// The name of the column with the numbers.
        hits: String,
        /// The name of the column with the ranks, if wanted.
        rank: Option<String>,
    },
    /// `uniq by (…) with hits limit 5`
    Uniq {
        /// The groups.
        by: Vec<FieldName>,
        /// The name of the column with the numbers, if wanted.
        hits: Option<String>,
        /// Maximum number of rows, if limited.
        limit: Option<u64>,
    },
    /// `sort by (a desc, b) offset 5 limit 10 rank as r`, `first 5 by (a)`, `last 5 by (a)`
    Sort {
        /// The keys. Without any, all columns in their order.
        by: Vec<SortKey>,
        /// The number of rows that are skipped.
        offset: u64,
        /// Maximum number of rows, if limited.
        limit: Option<u64>,
        /// The name of the column with the ranks, if wanted.
        rank: Option<String>,
    },
    /// `limit 10`
    Limit(u64),
    /// `offset 10`
    Offset(u64),
    /// `fields a, b.*`
    Fields(Vec<FieldPattern>),
    /// `delete a, b.*`
    Delete(Vec<FieldPattern>),
    /// `copy a as b`
    Copy(Vec<(FieldName, FieldName)>),
    /// `rename a as b`
    Rename(Vec<(FieldName, FieldName)>),
    /// `filter status:>=500`
    Filter(Expression),
    /// `extract "pattern <name>" from field`
    Extract(Extraction),
    /// `extract_regexp "(?P<name>…)" from field`
    ExtractRegexp(Extraction),
    /// `format "<a> of <b>" as c`
    Format {
        /// The pattern.
        pattern: String,
        /// The column.
        name: FieldName,
        /// The rows to format, if not all.
        condition: Option<Expression>,
        /// Whether a present value is kept.
        keep_original: bool,
        /// Whether an empty result is not written.
        skip_empty: bool,
    },
    /// `replace ("a", "b") at field`, `replace_regexp ("a", "b") at field`
    Replace {
        /// Whether `from` is a regular expression.
        is_regexp: bool,
        /// The replaced text.
        from: String,
        /// The text in its place.
        to: String,
        /// The column.
        at: FieldName,
        /// Maximum number of replacements, if limited.
        limit: Option<u64>,
        /// The rows to change, if not all.
        condition: Option<Expression>,
    },
    /// `math a / b as c`
    Math(Vec<(Arithmetic, FieldName)>),
    /// `len(field) as n`
    Length {
        /// The measured column.
        of: FieldName,
        /// The column of the length in bytes.
        name: FieldName,
    },
    /// `facets 5`
    Facets {
        /// Maximum number of values a field.
        limit: u64,
        /// A field with more values is left out.
        values_max: u64,
        /// A field with a longer value is left out.
        length_max: u64,
        /// Whether a field with one value in all records is shown.
        keep_constant: bool,
    },
    /// `field_names`
    FieldNames {
        /// The name of the column with the names.
        name: String,
    },
    /// `field_values path`
    FieldValues {
        /// The field.
        field: FieldName,
        /// Maximum number of values, if limited.
        limit: Option<u64>,
    },
    /// `sample 10`: one record of this many.
    Sample(u64),
    /// `join by (a, b) (query) inner prefix x.`
    Join(Box<JoinPipe>),
    /// `sessions by (user) pause 30m`
    Sessions {
        /// The groups.
        by: Vec<FieldName>,
        /// A session ends where no record of its group comes for longer than this.
        pause: Span,
    },
    /// `gaps over 10m by (instance)`
    Gaps {
        /// The groups.
        by: Vec<FieldName>,
        /// A gap is longer than this.
        over: Span,
    },
    /// `pivot status`
    Pivot(Pivot),
    /// `pattern(message) as p`
    Pattern {
        /// The text.
        of: FieldName,
        /// The column of its pattern.
        name: FieldName,
    },
}

/// The rows of another query beside those that have the same values.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinPipe {
    /// The columns whose values are the same.
    pub by: Vec<FieldName>,
    /// The other query.
    pub query: ParsedQuery,
    /// Whether rows without another one are left out.
    pub is_inner: bool,
    /// What the names of the other columns begin with.
    pub prefix: String,
    /// The columns of the other query beside those of `by`, where its pipes name all of them.
    pub columns: Option<Vec<FieldName>>,
}

/// The values of a field as columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Pivot {
    /// The field.
    pub field: FieldName,
    /// The other groups of the pipes before it.
    pub groups: Vec<FieldName>,
}

/// A field, or all whose names begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    /// The name, or its beginning.
    pub name: FieldName,
    /// Whether `*` follows.
    pub is_prefix: bool,
}

impl FieldPattern {
    /// Whether a field belongs to the pattern. A beginning may be that of the name in the line or of the stored one: `http.` and
    /// `http_`.
    pub fn matches(&self, field: &str) -> bool {
        let (written, stored) = (self.name.written(), self.name.property());
        match self.is_prefix {
            true => field.starts_with(written) || field.starts_with(stored),
            false => field == written,
        }
    }
}

/// A key of `sort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub field: FieldName,
    /// Whether the greatest value is first.
    pub is_descending: bool,
}

/// A field of `stats by (…)`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupField {
    /// The field.
    pub field: FieldName,
    /// `:1h`, `:100`, `:/24`: values of one step are one group.
    pub step: Option<ValueStep>,
}

/// A step of values or times.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueStep {
    /// The text in the query.
    pub text: String,
    /// The size.
    pub size: ValueStepSize,
    /// `offset 30m`: where steps begin.
    pub offset: Option<Span>,
    /// The clocks by which days, weeks and hours begin; never of the language, whose steps are of UTC.
    pub clock: Option<ZoneClock>,
}

/// The size of a [`ValueStep`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueStepSize {
    /// A number; nanoseconds for times.
    Number(f64),
    /// The first bits of an IPv4 address.
    AddressBits(u32),
    /// A week that begins on Monday.
    Week,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
}

/// A function of `stats`.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub function: Function,
    /// The fields; without any, the records themselves.
    pub fields: Vec<FieldName>,
    /// Maximum number of values that the function keeps, if limited.
    pub limit: Option<u64>,
    /// `if (filter)`: the records that count.
    pub condition: Option<Expression>,
    /// The name of the column.
    pub name: String,
}

/// What a function computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// Records, or those with a value in one of the fields.
    Count,
    /// Records with an empty field.
    CountEmpty,
    /// Different values.
    CountUniq,
    /// The sum of numbers.
    Sum,
    /// The mean of numbers.
    Avg,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// A quantile of numbers; 0.5 for `median`.
    Quantile(f64),
    /// Records a second.
    Rate,
    /// The sum of numbers a second.
    RateSum,
    /// All values, in their order.
    Values,
    /// The different values, sorted.
    UniqValues,
    /// The bytes of the values.
    SumLength,
    /// A value.
    Any,
    /// The value of the oldest record.
    First,
    /// The value of the newest record.
    Last,
    /// Some record, as JSON.
    RowAny,
    /// The record with the least value of the first field, as JSON.
    RowMin,
    /// The record with the greatest value of the first field, as JSON.
    RowMax,
}

/// The names of the functions of `stats`, each with the least number of fields.
pub const FUNCTIONS: [(&str, Function, usize); 21] = [
    ("count", Function::Count, 0),
    ("count_empty", Function::CountEmpty, 1),
    ("count_uniq", Function::CountUniq, 1),
    ("count_uniq_hash", Function::CountUniq, 1),
    ("sum", Function::Sum, 1),
    ("avg", Function::Avg, 1),
    ("min", Function::Min, 1),
    ("max", Function::Max, 1),
    ("median", Function::Quantile(0.5), 1),
    ("quantile", Function::Quantile(-1.0), 1),
    ("rate", Function::Rate, 0),
    ("rate_sum", Function::RateSum, 1),
    ("values", Function::Values, 1),
    ("uniq_values", Function::UniqValues, 1),
    ("sum_len", Function::SumLength, 1),
    ("any", Function::Any, 1),
    ("first", Function::First, 1),
    ("last", Function::Last, 1),
    ("row_any", Function::RowAny, 0),
    ("row_min", Function::RowMin, 1),
    ("row_max", Function::RowMax, 1),
];

impl Function {
    /// The name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Function::Quantile(phi) if phi != 0.5 => "quantile",
            function => FUNCTIONS.iter().find(|(_, known, _)| *known == function).map_or("count", |(name, ..)| name),
        }
    }
}

/// The parts of `extract` and `extract_regexp`.
#[derive(Clone, Debug, PartialEq)]
pub struct Extraction {
    /// The pattern.
    pub pattern: String,
    /// The field that is searched.
    pub from: FieldName,
    /// The rows to search, if not all.
    pub condition: Option<Expression>,
    /// Whether a present value is kept.
    pub keep_original: bool,
    /// Whether an empty value is not written.
    pub skip_empty: bool,
}

/// An expression of `math`.
#[derive(Clone, Debug, PartialEq)]
pub enum Arithmetic {
    /// A number as written.
    Number(String, f64),
    /// The number of a field.
    Field(FieldName),
    /// `-x`
    Negate(Box<Arithmetic>),
    /// `a + b`
    Binary(ArithmeticOperator, Box<Arithmetic>, Box<Arithmetic>),
    /// `round(a)`
    Call(MathFunction, Vec<Arithmetic>),
}

/// An operator of `math`, the one that binds least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArithmeticOperator {
    /// `a default b`: b where a is not a number.
    Default,
    /// `a or b`: the bits of both whole numbers.
    Or,
    /// `a xor b`: the bits that one of both whole numbers has.
    Xor,
    /// `a & b`: the bits that both whole numbers have.
    And,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `^`
    Power,
}

impl ArithmeticOperator {
    /// Each operator with its text and how strongly it binds.
    pub const ALL: [(ArithmeticOperator, &'static str, u8); 10] = [
        (ArithmeticOperator::Default, "default", 1),
        (ArithmeticOperator::Or, "or", 2),
        (ArithmeticOperator::Xor, "xor", 3),
        (ArithmeticOperator::And, "&", 4),
        (ArithmeticOperator::Add, "+", 5),
        (ArithmeticOperator::Subtract, "-", 5),
        (ArithmeticOperator::Multiply, "*", 6),
        (ArithmeticOperator::Divide, "/", 6),
        (ArithmeticOperator::Remainder, "%", 6),
        (ArithmeticOperator::Power, "^", 7),
    ];
}

/// A function of `math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathFunction {
    /// Without the sign.
    Abs,
    /// Rounded up.
    Ceil,
    /// e to the power.
    Exp,
    /// Rounded down.
    Floor,
    /// The natural logarithm.
    Ln,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// Nanoseconds since the Unix epoch, when the query began.
    Now,
    /// Rounded to the nearest whole number, or multiple of the second argument.
    Round,
}

impl MathFunction {
    /// Each function with its name and its least and greatest number of arguments.
    pub const ALL: [(MathFunction, &'static str, usize, usize); 9] = [
        (MathFunction::Abs, "abs", 1, 1),
        (MathFunction::Ceil, "ceil", 1, 2),
        (MathFunction::Exp, "exp", 1, 1),
        (MathFunction::Floor, "floor", 1, 2),
        (MathFunction::Ln, "ln", 1, 1),
        (MathFunction::Max, "max", 1, 64),
        (MathFunction::Min, "min", 1, 64),
        (MathFunction::Now, "now", 0, 0),
        (MathFunction::Round, "round", 1, 2),
    ];
}
