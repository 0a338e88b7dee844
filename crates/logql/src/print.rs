//! A query in one form: what the button "format" of an editor gives.

use crate::ast::*;
use crate::text::{number, quoted, shown_duration};
use std::fmt::{self, Display, Formatter};

impl Display for LogqlQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LogqlQuery::Log(query) => query.fmt(f),
            LogqlQuery::Metric(metric) => metric.fmt(f),
        }
    }
}

impl Display for LogQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.selector.fmt(f)?;
        self.stages.iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

/// Writes `items` with commas between.
fn list<T: Display>(f: &mut Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    for (at, item) in items.into_iter().enumerate() {
        write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
    }
    Ok(())
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        list(f, &self.0)?;
        f.write_str("}")
    }
}

impl Display for LabelMatcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.op {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Regex => "=~",
            MatchOp::NotRegex => "!~",
        };
        write!(f, "{}{sign}{}", self.name, literal(&self.value))
    }
}

/// A string literal, in backquotes if that saves escapes.
fn literal(text: &str) -> String {
    let is_plain = !text.contains('`') && !text.chars().any(char::is_control);
    if is_plain && text.contains(['"', '\\']) { format!("`{text}`") } else { quoted(text) }
}

impl Display for PipelineStage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PipelineStage::Line(filter) => return filter.fmt(f),
            PipelineStage::Labels(filter) if filter.is_named_as_parser() => return write!(f, "| ({filter})"),
            PipelineStage::Labels(filter) => return write!(f, "| {filter}"),
            _ => f.write_str("| ")?,
        }
        match self {
            PipelineStage::Json(keys) => {
                f.write_str(if keys.is_empty() { "json" } else { "json " })?;
                list(f, keys)
            }
            PipelineStage::Logfmt { strict, keep_empty, keys } => {
                f.write_str("logfmt")?;
                f.write_str(if *strict { " --strict" } else { "" })?;
                f.write_str(if *keep_empty { " --keep-empty" } else { "" })?;
                f.write_str(if keys.is_empty() { "" } else { " " })?;
                list(f, keys)
            }
            PipelineStage::Pattern(pattern) => write!(f, "pattern {}", literal(pattern.source())),
            PipelineStage::Regexp { source, .. } => write!(f, "regexp {}", literal(source)),
            PipelineStage::Unpack => f.write_str("unpack"),
            PipelineStage::Decolorize => f.write_str("decolorize"),
            PipelineStage::LineFormat(template) | PipelineStage::UnreadFormat(template) => {
                write!(f, "line_format {}", literal(template.source()))
            }
            PipelineStage::LabelFormat(formats) => {
                f.write_str("label_format ")?;
                list(
                    f,
                    formats.iter().map(|(name, value)| match value {
                        LabelValue::Renamed(from) => format!("{name}={from}"),
                        LabelValue::Template(template) => format!("{name}={}", literal(template.source())),
                    }),
                )
            }
            PipelineStage::Drop(picks) => {
                f.write_str("drop ")?;
                list(f, picks)
            }
            PipelineStage::Keep(picks) => {
                f.write_str("keep ")?;
                list(f, picks)
            }
            PipelineStage::Line(_) | PipelineStage::Labels(_) => Ok(()),
        }
    }
}

impl Display for LabelExtraction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.label == self.source {
            f.write_str(&self.label)
        } else {
            write!(f, "{}={}", self.label, literal(&self.source))
        }
    }
}

impl Display for LabelPick {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LabelPick::Name(name) => f.write_str(name),
            LabelPick::If(matcher) => matcher.fmt(f),
        }
    }
}

impl Display for LineFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.op {
            LineOp::Contains => "|= ",
            LineOp::NotContains => "!= ",
            LineOp::Regex => "|~ ",
            LineOp::NotRegex => "!~ ",
            LineOp::Pattern => "|> ",
            LineOp::NotPattern => "!> ",
        })?;
        for (at, test) in self.tests.iter().enumerate() {
            f.write_str(if at > 0 { " or " } else { "" })?;
            match test {
                LineTest::Text(text) | LineTest::Regex(text, _) => f.write_str(&literal(text))?,
                LineTest::Pattern(pattern) => f.write_str(&literal(pattern.source()))?,
                LineTest::Ip(filter) => write!(f, "ip({})", literal(filter.source()))?,
            }
        }
        Ok(())
    }
}

impl LabelFilter {
    /// Whether the text of the filter begins with a word that would be a parser behind `|`.
    fn is_named_as_parser(&self) -> bool {
        let name = match self {
            LabelFilter::And(..) | LabelFilter::Or(..) => return false,
            LabelFilter::Text(matcher) => &matcher.name,
            LabelFilter::Quantity { name, .. } | LabelFilter::Ip { name, .. } => name,
        };
        ["json", "logfmt"].iter().any(|parser| name.eq_ignore_ascii_case(parser))
    }
}

impl Display for LabelFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LabelFilter::And(left, right) => write!(f, "({left} and {right})"),
            LabelFilter::Or(left, right) => write!(f, "({left} or {right})"),
            LabelFilter::Text(matcher) => matcher.fmt(f),
            LabelFilter::Quantity { name, op, value, unit } => {
                let value = match unit {
                    Unit::Number => number(*value),
                    Unit::Duration => shown_duration(*value as i64),
                    Unit::Size => format!("{}B", number(*value)),
                };
                write!(f, "{name}{}{value}", op.sign())
            }
            LabelFilter::Ip { name, negative, filter } => {
                write!(f, "{name}{}ip({})", if *negative { "!=" } else { "=" }, literal(filter.source()))
            }
        }
    }
}

impl Display for LabelGrouping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.without { "without (" } else { "by (" })?;
        list(f, &self.labels)?;
        f.write_str(")")
    }
}

impl Display for MetricQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            MetricQuery::Number(value) => f.write_str(&number(*value)),
            MetricQuery::Vector(value) => write!(f, "vector({})", number(*value)),
            MetricQuery::Range(range) => range.fmt(f),
            MetricQuery::Aggregate { op, parameter, grouping, inner } => {
                f.write_str(op.name())?;
                if let Some(grouping) = grouping {
                    write!(f, " {grouping} ")?;
                }
                f.write_str("(")?;
                if op.has_parameter() {
                    write!(f, "{}, ", number(*parameter))?;
                }
                write!(f, "{inner})")
            }
            MetricQuery::Binary(binary) => binary.fmt(f),
            MetricQuery::LabelReplace { inner, target, replacement, label, source, .. } => {
                let [target, replacement, label, source] =
                    [target, replacement, label, source].map(|text| literal(text));
                write!(f, "label_replace({inner}, {target}, {replacement}, {label}, {source})")
            }
        }
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({} {}", self.left, self.op.sign())?;
        f.write_str(if self.is_bool { " bool" } else { "" })?;
        if let Some(LabelGrouping { without, labels }) = &self.matching {
            f.write_str(if *without { " ignoring (" } else { " on (" })?;
            list(f, labels)?;
            f.write_str(")")?;
        }
        if let Some(GroupSide { right, include }) = &self.group {
            f.write_str(if *right { " group_right (" } else { " group_left (" })?;
            list(f, include)?;
            f.write_str(")")?;
        }
        write!(f, " {})", self.right)
    }
}

impl Display for RangeAggregation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op.name())?;
        if self.op == RangeOp::QuantileOverTime {
            write!(f, "{}, ", number(self.parameter))?;
        }
        self.query.fmt(f)?;
        if let Some(Unwrap { label, conversion, filters }) = &self.unwrap {
            match conversion {
                Conversion::Number => write!(f, " | unwrap {label}")?,
                Conversion::Duration => write!(f, " | unwrap duration({label})")?,
                Conversion::DurationSeconds => write!(f, " | unwrap duration_seconds({label})")?,
                Conversion::Bytes => write!(f, " | unwrap bytes({label})")?,
            }
            filters.iter().try_for_each(|filter| write!(f, " | {filter}"))?;
        }
        write!(f, " [{}]", shown_duration(self.range))?;
        if self.offset != 0 {
            write!(f, " offset {}", shown_duration(self.offset))?;
        }
        f.write_str(")")?;
        self.grouping.iter().try_for_each(|grouping| write!(f, " {grouping}"))
    }
}
