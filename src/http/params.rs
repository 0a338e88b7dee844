//! The parameters of the routes ([`RequestParams`]). A request must not have an unknown, a repeated or an empty parameter.

use super::error::ApiError;
use super::request_params::RequestParams;
use daytable_query::answer::context::{CONTEXT_MAX, ContextScope};
use daytable_query::export::CsvReader;
use std::ops::RangeInclusive;

/// The filter of a request, as the client wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterParams {
    /// The query.
    pub q: Option<String>,
    /// The instance.
    pub instance: Option<String>,
    /// The oldest time.
    pub since: Option<String>,
    /// The newest time.
    pub until: Option<String>,
    /// The lowest level.
    pub level: Option<String>,
    /// Text that the record contains.
    pub contains: Option<String>,
}

/// Parameters of `/api/query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParams {
    /// The filter.
    pub filters: FilterParams,
    /// The most records of the response: 1 to 1,000,000.
    pub n: u64,
}

/// Parameters of `/api/export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportParams {
    /// Which records.
    pub filters: FilterParams,
    /// The most records of the response.
    pub n: u64,
    /// The form of the response.
    pub form: ExportFormat,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON object a line.
    #[default]
    Ndjson,
    /// A table with a header.
    Csv(CsvReader),
    /// A Parquet file.
    Parquet,
    /// The bytes of each record as its source wrote them, and a newline.
    Raw,
}

/// Parameters of the routes that summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryParams {
    /// The filter.
    pub filters: FilterParams,
    /// The form of the summary.
    pub summary: Summary,
}

/// The form of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The rows of the query's pipes.
    Stats {
        /// The most rows.
        limit: u64,
    },
    /// Records by steps of time.
    Hits {
        /// The length of a step, as the client wrote it.
        step: Option<String>,
        /// `level`, `instance`, or both with a comma.
        by: Vec<String>,
        /// The zone in which days and hours begin.
        zone: Option<String>,
    },
    /// The most frequent values of each field.
    Facets {
        /// The most values of a field.
        limit: u64,
    },
    /// The names of fields.
    Fields,
    /// The most frequent values of one field.
    Values {
        /// The field.
        field: String,
        /// The most values.
        limit: u64,
    },
}

/// Parameters of `/api/context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextParams {
    /// The keys of the record: TABLE/PARTITIONKEY/ROWKEY.
    pub key: String,
    /// The most records before it.
    pub before: usize,
    /// The most records after it.
    pub after: usize,
    /// Which records are its neighbours.
    pub of: ContextScope,
    /// Whether the records are wanted as their sources wrote them, and not as JSON.
    pub is_raw: bool,
}

/// Parameters of `/api/count`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountParams {
    /// The filter.
    pub filters: FilterParams,
    /// The keys to group by; the client separates them by commas.
    pub by: Vec<String>,
    /// The length of an interval, as the client wrote it.
    pub every: Option<String>,
    /// The zone in which days and hours begin.
    pub zone: Option<String>,
}

/// The default of `n` of `/api/query`.
const N_DEFAULT: usize = 100;
/// The largest `n` of `/api/query`.
const N_MAX: usize = 1_000_000;

const FILTERS: [&str; 6] = ["q", "instance", "since", "until", "level", "contains"];

/// The parameters of one request that have not been removed yet.
struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// The parameters of a request, of which only `known` are allowed.
    fn read(RequestParams { pairs, .. }: &RequestParams, known: &[&str]) -> Result<QueryString, ApiError> {
        for (at, (name, value)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(ApiError::parameter(shortened(name), format!("is not known here; known: {known}")));
            }
            if pairs[..at].iter().any(|(before, _)| before == name) {
                return Err(ApiError::parameter(name, "is given twice"));
            }
            if value.is_empty() {
                return Err(ApiError::parameter(name, "is empty"));
            }
        }
        Ok(QueryString(pairs.clone()))
    }

    fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A whole number of a range.
    fn number_in(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.remove(name) else { return Ok(None) };
        match text.parse() {
            Ok(n) if range.contains(&n) => Ok(Some(n)),
            _ => {
                let (least, most) = range.into_inner();
                Err(ApiError::parameter(name, format!("is not a number from {least} to {most}")))
            }
        }
    }

    /// Names with commas between them.
    fn list(&mut self, name: &str) -> Vec<String> {
        self.remove(name).map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn filters(&mut self) -> FilterParams {
        FilterParams {
            q: self.remove("q"),
            instance: self.remove("instance"),
            since: self.remove("since"),
            until: self.remove("until"),
            level: self.remove("level"),
            contains: self.remove("contains"),
        }
    }
}

/// Parameters of `/api/query`.
pub(super) fn query(given: &RequestParams) -> Result<QueryParams, ApiError> {
    let mut params = QueryString::read(given, &[&FILTERS[..], &["n", "limit"]].concat())?;
    let name = if params.0.iter().any(|(name, _)| name == "limit") { "limit" } else { "n" };
    let n = params.number_in(name, 1..=N_MAX as u64)?.unwrap_or(N_DEFAULT as u64);
    Ok(QueryParams { filters: params.filters(), n })
}

/// Parameters of `/api/export`, which has no limit of its own.
pub(super) fn export(given: &RequestParams) -> Result<ExportParams, ApiError> {
    let mut params = QueryString::read(given, &[&FILTERS[..], &["limit", "format"]].concat())?;
    let n = params.number_in("limit", 1..=u64::MAX)?.unwrap_or(u64::MAX);
    let form = match params.remove("format").as_deref() {
        None | Some("ndjson") => ExportFormat::Ndjson,
        Some("csv") => ExportFormat::Csv(CsvReader::Program),
        Some("spreadsheet") => ExportFormat::Csv(CsvReader::Spreadsheet),
        Some("parquet") => ExportFormat::Parquet,
        Some("raw") => ExportFormat::Raw,
        Some(_) => return Err(ApiError::parameter("format", "must be ndjson, csv, spreadsheet, parquet or raw")),
    };
    Ok(ExportParams { filters: params.filters(), n, form })
}

/// Parameters of `/api/stats`, `/api/hits`, `/api/facets`, `/api/fields` and `/api/values`.
pub(super) fn summary(given: &RequestParams) -> Result<SummaryParams, ApiError> {
    let route = given.path.as_str().trim_start_matches("/api/");
    let own: &[&str] = match route {
        "hits" => &["step", "by", "zone"],
        "fields" => &[],
        "values" => &["field", "limit"],
        _ => &["limit"],
    };
    let mut params = QueryString::read(given, &[&FILTERS[..], own].concat())?;
    let limit = params.number_in("limit", 1..=N_MAX as u64)?;
    let summary = match route {
        "hits" => Summary::Hits { step: params.remove("step"), by: params.list("by"), zone: params.remove("zone") },
        "facets" => Summary::Facets { limit: limit.unwrap_or(FACET_VALUES_DEFAULT) },
        "fields" => Summary::Fields,
        "values" => {
            let field = params.remove("field").ok_or_else(|| ApiError::parameter("field", "is missing"))?;
            Summary::Values { field, limit: limit.unwrap_or(N_DEFAULT as u64) }
        }
        _ => Summary::Stats { limit: limit.unwrap_or(N_MAX as u64) },
    };
    Ok(SummaryParams { filters: params.filters(), summary })
}

/// Values of each field in `/api/facets` without a limit.
const FACET_VALUES_DEFAULT: u64 = 10;

/// Parameters of `/api/context`.
pub(super) fn context(given: &RequestParams) -> Result<ContextParams, ApiError> {
    let mut params = QueryString::read(given, &["key", "before", "after", "of", "format"])?;
    let is_raw = match params.remove("format").as_deref() {
        None | Some("ndjson") => false,
        Some("raw") => true,
        Some(_) => return Err(ApiError::parameter("format", "must be ndjson or raw")),
    };
    let key = params.remove("key").ok_or_else(|| ApiError::parameter("key", "is missing"))?;
    let most = CONTEXT_MAX as u64;
    let mut side = |name| {
        let records = params.number_in(name, 0..=most)?.unwrap_or(CONTEXT_DEFAULT);
        Ok::<_, ApiError>(usize::try_from(records).unwrap_or(CONTEXT_MAX))
    };
    let (before, after) = (side("before")?, side("after")?);
    let of = match params.remove("of") {
        None => ContextScope::default(),
        Some(name) => ContextScope::ALL
            .into_iter()
            .find(|scope| scope.name() == name)
            .ok_or_else(|| ApiError::parameter("of", "must be source or instance"))?,
    };
    Ok(ContextParams { key, before, after, of, is_raw })
}

/// Records on each side in `/api/context` without a number.
const CONTEXT_DEFAULT: u64 = 10;

/// Parameters of `/api/count`.
pub(super) fn count(given: &RequestParams) -> Result<CountParams, ApiError> {
    let mut params = QueryString::read(given, &[&FILTERS[..], &["by", "every", "zone"]].concat())?;
    let by = params.list("by");
    let (every, zone) = (params.remove("every"), params.remove("zone"));
    Ok(CountParams { filters: params.filters(), by, every, zone })
}

/// Parameters of `/api/tail`.
pub(super) fn tail(given: &RequestParams) -> Result<FilterParams, ApiError> {
    Ok(QueryString::read(given, &FILTERS)?.filters())
}

/// The optional parameter of `/ingest`.
pub(super) fn instance(given: &RequestParams) -> Result<Option<String>, ApiError> {
    Ok(QueryString::read(given, &["instance"])?.remove("instance"))
}

/// Checks the parameters of a route without any.
pub(super) fn none(given: &RequestParams) -> Result<(), ApiError> {
    QueryString::read(given, &[]).map(|_| ())
}

/// The required parameter `table`.
pub(super) fn table(given: &RequestParams) -> Result<String, ApiError> {
    let table = QueryString::read(given, &["table"])?.remove("table");
    table.ok_or_else(|| ApiError::parameter("table", "is missing"))
}

/// Parameters of `/-/drop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropParams {
    /// The day-table.
    pub table: String,
    /// Whether it is dropped even if its archive is missing.
    pub without_archive: bool,
    /// Whether its archives are removed as well.
    pub archives: bool,
}

/// Parameters of `/-/drop`.
pub(super) fn drop(given: &RequestParams) -> Result<DropParams, ApiError> {
    let mut params = QueryString::read(given, &["table", "without_archive", "archives"])?;
    let without_archive = flag("without_archive", params.remove("without_archive"))?;
    let archives = flag("archives", params.remove("archives"))?;
    let table = params.remove("table").ok_or_else(|| ApiError::parameter("table", "is missing"))?;
    Ok(DropParams { table, without_archive, archives })
}

/// Whether a verification reads archives to the last byte.
pub(super) fn verify(given: &RequestParams) -> Result<bool, ApiError> {
    flag("archives", QueryString::read(given, &["archives"])?.remove("archives"))
}

fn flag(name: &'static str, given: Option<String>) -> Result<bool, ApiError> {
    match given.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(ApiError::parameter(name, "is neither true nor false")),
    }
}

/// A client's parameter name, shortened for an error.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> RequestParams {
        RequestParams::of_uri(&text.parse().expect("a URI")).expect("parameters")
    }

    #[test]
    fn parameters_are_decoded_and_have_defaults() {
        let given = query(&uri("/api/query?instance=web%2017&contains=a%26b%3Dc&n=7")).expect("good");
        assert_eq!(given.filters.instance.as_deref(), Some("web 17"));
        assert_eq!(given.filters.contains.as_deref(), Some("a&b=c"));
        assert_eq!((given.n, given.filters.level), (7, None));
        let bare = query(&uri("/api/query")).expect("good");
        assert_eq!(bare, QueryParams { filters: FilterParams::default(), n: N_DEFAULT as u64 });
        let counted = count(&uri("/api/count?by=level,instance&every=5m&since=1h")).expect("good");
        assert_eq!((counted.by, counted.every.as_deref()), (vec!["level".into(), "instance".into()], Some("5m")));
    }

    #[test]
    fn an_error_names_the_parameter() {
        let cases = [
            ("/api/query?n=0", "parameter n: is not a number from 1 to 1000000"),
            ("/api/query?n=1000001", "parameter n: is not a number from 1 to 1000000"),
            ("/api/query?n=-1", "parameter n: is not a number from 1 to 1000000"),
            ("/api/query?n=ten", "parameter n: is not a number from 1 to 1000000"),
            ("/api/query?n=5&n=6", "parameter n: is given twice"),
            ("/api/query?instance=", "parameter instance: is empty"),
            (
                "/api/query?every",
                "parameter every: is not known here; known: q, instance, since, until, level, contains, n, limit",
            ),
        ];
        for (given, said) in cases {
            assert_eq!(query(&uri(given)).expect_err(given).to_string(), said);
        }
        assert_eq!(
            none(&uri("/api/tables?x=1")).expect_err("x").to_string(),
            "parameter x: is not known here; known: none"
        );
        assert_eq!(table(&uri("/-/drop")).expect_err("no table").to_string(), "parameter table: is missing");
        assert_eq!(drop(&uri("/-/drop")).expect_err("no table").to_string(), "parameter table: is missing");
        let maybe = drop(&uri("/-/drop?table=Log20261121&without_archive=perhaps")).expect_err("perhaps");
        assert_eq!(maybe.to_string(), "parameter without_archive: is neither true nor false");
    }
}
