//! SharedKey signatures for tables:
//!
//! ```text
//! VERB \n Content-MD5 \n Content-Type \n x-ms-date \n /account/path
//! ```
//!
//! The path is percent-encoded as in the request. Of the query only `comp` counts, which this client does not use. In
//! the emulator's form the account appears twice: again as the first part of the path.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `Authorization`.
pub(super) fn shared_key(account: &str, key: &[u8], verb: &str, content_type: &str, date: &str, path: &str) -> String {
    let text = format!("{verb}\n\n{content_type}\n{date}\n/{account}{path}");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC may have any length");
    mac.update(text.as_bytes());
    format!("SharedKey {account}:{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed with Python's hmac.
    #[test]
    fn a_signature_of_another_program() {
        let date = "Sat, 21 Nov 2026 15:00:00 GMT";
        let text = format!("POST\n\nmultipart/mixed; boundary=b\n{date}\n/acme/$batch");
        let python = "import hmac,hashlib,base64,sys;print(base64.b64encode(hmac.new(b'secret',sys.argv[1].encode(),hashlib.sha256).digest()).decode(),end='')";
        let said = std::process::Command::new("python3").args(["-c", python, &text]).output().expect("Python is there");
        let expected = format!("SharedKey acme:{}", String::from_utf8(said.stdout).expect("text"));
        assert_eq!(shared_key("acme", b"secret", "POST", "multipart/mixed; boundary=b", date, "/$batch"), expected);
    }
}
