//! Query parameters: each known, each given once, none empty.

use super::api::{ApiError, CountParams, FilterParams, N_DEFAULT, N_MAX, QueryParams};
use axum::extract::Query;
use axum::http::Uri;

const FILTERS: [&str; 5] = ["instance", "since", "until", "level", "contains"];

/// The parameters of one request, taken out one by one.
struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the parameters of `uri`; all of them are among `known`.
    fn read(uri: &Uri, known: &[&str]) -> Result<Params, ApiError> {
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
        Ok(Params(pairs))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn filters(&mut self) -> FilterParams {
        FilterParams {
            instance: self.take("instance"),
            since: self.take("since"),
            until: self.take("until"),
            level: self.take("level"),
            contains: self.take("contains"),
        }
    }
}

/// Parameters of `/api/query`.
pub(super) fn query(uri: &Uri) -> Result<QueryParams, ApiError> {
    let mut params = Params::read(uri, &[&FILTERS[..], &["n"]].concat())?;
    let n = match params.take("n") {
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
    let mut params = Params::read(uri, &[&FILTERS[..], &["by", "every"]].concat())?;
    let by = params.take("by").map(|by| by.split(',').map(str::to_owned).collect()).unwrap_or_default();
    Ok(CountParams { filters: params.filters(), by, every: params.take("every") })
}

/// Parameters of `/api/tail`.
pub(super) fn tail(uri: &Uri) -> Result<FilterParams, ApiError> {
    Ok(Params::read(uri, &FILTERS)?.filters())
}

/// The one parameter of `/ingest`, which may do without.
pub(super) fn instance(uri: &Uri) -> Result<Option<String>, ApiError> {
    Ok(Params::read(uri, &["instance"])?.take("instance"))
}

/// Parameters of a route that has none.
pub(super) fn none(uri: &Uri) -> Result<(), ApiError> {
    Params::read(uri, &[]).map(|_| ())
}

/// The one parameter `table`.
pub(super) fn table(uri: &Uri) -> Result<String, ApiError> {
    let table = Params::read(uri, &["table"])?.take("table");
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
    let mut params = Params::read(uri, &["table", "without_archive"])?;
    let without_archive = match params.take("without_archive").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::parameter("without_archive", "is neither true nor false")),
    };
    let table = params.take("table").ok_or_else(|| ApiError::parameter("table", "is missing"))?;
    Ok(DropParams { table, without_archive })
}

/// A name that a client made up, short enough to be said back.
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
    fn what_is_given_is_decoded_and_the_rest_has_defaults() {
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
    fn what_is_wrong_is_named() {
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
