//! The parameters of a question.

use crate::http::question::LokiError;
use crate::http::request_params::RequestParams;
use axum::http::HeaderMap;
use daytable_logql::eval::TimeSteps;
use daytable_logql::source::{Direction, TimeSpan};
use daytable_logql::text::{self, SECOND};
use daytable_model::time::{self, UNIX_EPOCH_TICKS};
use daytable_platform::budget::{MemoryBudget, QuestionBudget};
use daytable_query::answer::ANSWER_BYTES_MAX;

/// Asks for structured metadata and extracted labels apart from the labels of the stream.
const ENCODING_FLAGS: &str = "x-loki-response-encoding-flags";
const HOUR: i64 = 3600 * SECOND;

/// The parameters of a question.
pub(super) struct LokiParams {
    pairs: Vec<(String, String)>,
    /// The name in the path.
    pub(super) name: String,
    /// Whether the answer has labels by their origin.
    pub(super) categorizes: bool,
    /// The present in nanoseconds since the epoch.
    pub(super) now: i64,
    /// The memory of all questions.
    memory: MemoryBudget,
}

impl LokiParams {
    pub(super) fn read(RequestParams { pairs, .. }: RequestParams, headers: &HeaderMap) -> LokiParams {
        let flags = headers.get(ENCODING_FLAGS).and_then(|flags| flags.to_str().ok()).unwrap_or_default();
        let categorizes = flags.split(',').any(|flag| flag.trim() == "categorize-labels");
        let now = time::now().unix_nanos();
        let memory = MemoryBudget::unshared(ANSWER_BYTES_MAX);
        LokiParams { pairs, name: String::new(), categorizes, now, memory }
    }

    /// With the memory that all questions share.
    pub(super) fn with_memory(self, memory: MemoryBudget) -> LokiParams {
        LokiParams { memory, ..self }
    }

    /// The memory of an answer.
    pub(super) fn budget(&self) -> QuestionBudget {
        self.memory.question()
    }

    pub(super) fn with_name(self, name: Option<String>) -> LokiParams {
        LokiParams { name: name.unwrap_or_default(), ..self }
    }

    /// The value of a parameter; an empty one counts as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// The values of a parameter that may be repeated.
    pub(super) fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p str> {
        self.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, LokiError> {
        self.get(name).ok_or_else(|| LokiError::wrong(format!("the parameter {name} is missing")))
    }

    /// A number that is at least 1.
    pub(super) fn count(&self, name: &str, default: usize, max: usize) -> Result<usize, LokiError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        match text.parse::<usize>() {
            Ok(0) | Err(_) => Err(LokiError::wrong(format!("{name} must be a positive value"))),
            Ok(number) if number > max => {
                Err(LokiError::wrong(format!("max entries limit per query exceeded, {name} > max ({number} > {max})")))
            }
            Ok(number) => Ok(number),
        }
    }

    /// A point in time.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, LokiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let time = parse_time(text);
        time.map(Some).ok_or_else(|| {
            LokiError::wrong(format!("cannot parse {name} {text:?}: a time is nanoseconds, seconds, or RFC 3339"))
        })
    }

    /// The span of `start`, `end` and `since`; the last hour if nothing else is asked.
    pub(super) fn span(&self) -> Result<TimeSpan, LokiError> {
        let to = self.time("end")?.unwrap_or(self.now);
        let since = self.duration("since")?.unwrap_or(HOUR);
        let from = self.time("start")?.unwrap_or_else(|| to.min(self.now).saturating_sub(since));
        if from > to {
            return Err(LokiError::wrong("end timestamp must not be before or equal to start time"));
        }
        Ok(TimeSpan { from, to })
    }

    /// A duration, or a number of seconds.
    pub(super) fn duration(&self, name: &str) -> Result<Option<i64>, LokiError> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let seconds = given.parse::<f64>().ok().map(|seconds| (seconds * SECOND as f64) as i64);
        let nanos = seconds.or_else(|| text::duration(given, true)).filter(|nanos| *nanos >= 0);
        nanos.map(Some).ok_or_else(|| LokiError::wrong(format!("cannot parse {name} {given:?} to a valid duration")))
    }

    /// The steps of a range query. Without a step, the answer has about 250.
    pub(super) fn steps(&self, span: TimeSpan) -> Result<TimeSteps, LokiError> {
        let default = ((span.to - span.from) / SECOND / 250).max(1) * SECOND;
        let step = self.duration("step")?.unwrap_or(default);
        TimeSteps::over(span, step).ok_or_else(|| {
            LokiError::wrong("zero or negative query resolution step widths are not accepted. Try a positive integer")
        })
    }

    pub(super) fn direction(&self) -> Result<Direction, LokiError> {
        match self.get("direction").map(str::to_ascii_lowercase).as_deref() {
            None | Some("backward") => Ok(Direction::Backward),
            Some("forward") => Ok(Direction::Forward),
            Some(other) => Err(LokiError::wrong(format!("invalid direction {other:?}: forward or backward"))),
        }
    }
}

/// A time as nanoseconds since the epoch, as seconds with or without a fraction, or in RFC 3339.
fn parse_time(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        // Ten digits are seconds until the year 2286.
        return if text.trim_start_matches('-').len() <= 10 { number.checked_mul(SECOND) } else { Some(number) };
    }
    if text.contains('.')
        && let Ok(seconds) = text.parse::<f64>()
    {
        // A number of this size has no exact nanoseconds; as in Loki, the fraction is rounded to milliseconds.
        let millis = (seconds.fract() * 1e3).round() as i64;
        let whole = (seconds.trunc().abs() < 9e9).then_some(seconds.trunc() as i64)?;
        return whole.checked_mul(SECOND)?.checked_add(millis * 1_000_000);
    }
    let ticks = match text.parse().ok()? {
        daytable_query::When::At(ticks) => ticks,
        _ => return None,
    };
    // A tick has 100 ns; the digits behind are written in the text.
    let fraction = text.split_once('.').map(|(_, rest)| rest).unwrap_or_default();
    let below = fraction.get(7..9).and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0);
    (ticks.get() - UNIX_EPOCH_TICKS).checked_mul(100)?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_form() {
        for (text, nanos) in [
            ("1795168800000000001", Some(1_795_168_800_000_000_001)),
            ("1795168800", Some(1_795_168_800_000_000_000)),
            ("1795168800.5", Some(1_795_168_800_500_000_000)),
            ("1795953600.25", Some(1_795_953_600_250_000_000)),
            ("1795953600.0004", Some(1_795_953_600_000_000_000)),
            ("99999999999.5", None),
            ("2026-11-20T10:00:00Z", Some(1_795_168_800_000_000_000)),
            ("2026-11-20T11:00:00.123456789+01:00", Some(1_795_168_800_123_456_789)),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), nanos, "{text}");
        }
    }

    #[tokio::test]
    async fn the_form_of_a_post_is_read_like_the_url() {
        let mut given = RequestParams::of_uri(&"/loki/api/v1/series?start=1".parse().expect("a path")).expect("good");
        given.add_form("match[]=%7Ba%3D%22b%22%7D&match[]=x&end=2".into()).await.expect("a form");
        let params = LokiParams::read(given, &HeaderMap::new());
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["{a=\"b\"}", "x"]);
        assert_eq!(params.span().map(|span| (span.from, span.to)).ok(), Some((SECOND, 2 * SECOND)));
    }
}
