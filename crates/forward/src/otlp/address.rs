//! The address of a backend: `otlp+https://HOST:PORT`, with a path where the backend has one.

use crate::options::receiver_address;

/// What begins the address of a backend.
const PREFIX: &str = "otlp+";
/// The path of logs.
const LOGS: &str = "/v1/logs";

/// The address without its prefix. `None` if it is that of a daytable.
pub fn backend(to: &str) -> Option<&str> {
    to.strip_prefix(PREFIX)
}

/// Where a block forwards to: the address of a daytable, or of a backend.
///
/// # Errors
///
/// The reason, without the address.
pub fn forward_address(text: &str) -> Result<String, &'static str> {
    match backend(text) {
        None => receiver_address(text),
        Some(address) => Ok(format!("{PREFIX}{}", receiver_address(address)?)),
    }
}

/// Where logs are sent.
pub(super) fn logs_url(backend: &str) -> String {
    if backend.ends_with(LOGS) { backend.to_owned() } else { format!("{backend}{LOGS}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(forward_address("otlp+https://otlp.example/otlp/").as_deref(), Ok("otlp+https://otlp.example/otlp"));
        assert_eq!(forward_address("https://logs.example:7878/").as_deref(), Ok("https://logs.example:7878"));
        for wrong in
            ["otlp+otlp+https://a", "otlp+grpc://a", "otlp+a", "otlp://a", "otlp+https://u:p@a", "otlp+https://a?q"]
        {
            assert!(forward_address(wrong).is_err(), "{wrong}");
        }
        assert_eq!(logs_url("https://a"), "https://a/v1/logs");
        assert_eq!(logs_url("https://a/otlp/v1/logs"), "https://a/otlp/v1/logs");
    }
}
