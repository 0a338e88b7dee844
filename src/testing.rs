//! The private parts of the program that properties and fuzzers need. Only tests compile this module.

use crate::config::{ConfigError, CredentialConfig, credentials};
use crate::http::FilterParams;
use daytable_query::Filter;

/// Parses `text` as a file of credentials.
///
/// # Errors
///
/// The text is not such a file.
pub fn credentials(text: &str) -> Result<Vec<CredentialConfig>, ConfigError> {
    credentials::parse_text(text)
}

/// Reads `text` as the parameters of each route that has some. Refused parameters are left out.
pub fn query_filters(text: &str) -> Vec<Filter> {
    let routes = crate::http::filters_of_each_route(text);
    routes.iter().filter_map(|filters: &FilterParams| crate::daemon::filter(filters, None).ok()).collect()
}
