//! Query parameters. A request must not have an unknown, a repeated or an empty parameter.

use super::api::{ApiError, CountParams, FilterParams, N_DEFAULT, N_MAX, QueryParams};
use axum::extract::Query;
use axum::http::Uri;

const FILTERS: [&str; 5] = ["instance", "since", "until", "level", "contains"];

/// The parameters of one request that have not been removed yet.
pub(super) struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// Parses the parameters of `uri`, of which only `known` are allowed.
    pub(super) fn read(uri: &Uri, known: &[&str]) -> Result<QueryString, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| ApiError::parameter("text", error.to_string()))?;
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
        Ok(QueryString(pairs))
    }

    /// A number from 1 to `most`, if it is given.
    pub(super) fn number(&mut self, name: &str, most: usize) -> Result<Option<usize>, ApiError> {
        let wrong = || ApiError::parameter(name, format!("is not a number from 1 to {most}"));
        let number = self.remove(name).map(|text| text.parse().map_err(|_| wrong())).transpose()?;
        number.map(|number| if (1..=most).contains(&number) { Ok(number) } else { Err(wrong()) }).transpose()
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn filters(&mut self) -> FilterParams {
        FilterParams {
            instance: self.remove("instance"),
            since: self.remove("since"),
            until: self.remove("until"),
            level: self.remove("level"),
            contains: self.remove("contains"),
        }
    }
}

/// Parameters of `/api/query`.
pub(super) fn query(uri: &Uri) -> Result<QueryParams, ApiError> {
    let mut params = QueryString::read(uri, &[&FILTERS[..], &["n"]].concat())?;
    let n = match params.remove("n") {
        None => N_DEFAULT,
        Some(text) => match text.parse() {
            Ok(n) if (1..=N_MAX).contains(&n) => n,
            _ => return Err(ApiError::parameter("n", format!("is not a number from 1 to {N_MAX}"))),
        },
    };
    Ok(QueryParams { filters: params.filters(), n })
}

/// Parameters of `/api/count`.
pub(super) fn count(uri: &Uri) -> Result<CountParams, ApiError> {
    let mut params = QueryString::read(uri, &[&FILTERS[..], &["by", "every"]].concat())?;
    let by = params.remove("by").map(|by| by.split(',').map(str::to_owned).collect()).unwrap_or_default();
    Ok(CountParams { filters: params.filters(), by, every: params.remove("every") })
}

/// Parameters of `/api/tail`.
pub(super) fn tail(uri: &Uri) -> Result<FilterParams, ApiError> {
    Ok(QueryString::read(uri, &FILTERS)?.filters())
}

/// The optional parameter of `/ingest`.
pub(super) fn instance(uri: &Uri) -> Result<Option<String>, ApiError> {
    Ok(QueryString::read(uri, &["instance"])?.remove("instance"))
}

/// Checks the parameters of a route without any.
pub(super) fn none(uri: &Uri) -> Result<(), ApiError> {
    QueryString::read(uri, &[]).map(|_| ())
}

/// The required parameter `table`.
pub(super) fn table(uri: &Uri) -> Result<String, ApiError> {
    let table = QueryString::read(uri, &["table"])?.remove("table");
    table.ok_or_else(|| ApiError::parameter("table", "is missing"))
}

/// Parameters of `/-/drop`.
#[derive(Debug)]
pub(super) struct DropParams {
    pub(super) table: String,
    pub(super) without_archive: bool,
}

/// Parameters of `/-/drop`.
pub(super) fn drop(uri: &Uri) -> Result<DropParams, ApiError> {
    let mut params = QueryString::read(uri, &["table", "without_archive"])?;
    let without_archive = match params.remove("without_archive").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::parameter("without_archive", "is neither true nor false")),
    };
    let table = params.remove("table").ok_or_else(|| ApiError::parameter("table", "is missing"))?;
    Ok(DropParams { table, without_archive })
}

/// A client's parameter name, shortened for an error.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URI")
    }

    #[test]
    fn parameters_are_decoded_and_have_defaults() {
        let given = query(&uri("/api/query?instance=web%2017&contains=a%26b%3Dc&n=7")).expect("good");
        assert_eq!(given.filters.instance.as_deref(), Some("web 17"));
        assert_eq!(given.filters.contains.as_deref(), Some("a&b=c"));
        assert_eq!((given.n, given.filters.level), (7, None));
        let bare = query(&uri("/api/query")).expect("good");
        assert_eq!(bare, QueryParams { filters: FilterParams::default(), n: N_DEFAULT });
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
                "/api/query?limit",
                "parameter limit: is not known here; known: instance, since, until, level, contains, n",
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
