//! The name of a certificate's owner.
//!
//! ```text
//! TBSCertificate SEQUENCE
//!   [0] version, serialNumber, signature, issuer, validity
//!   subject SEQUENCE OF SET OF SEQUENCE { type OID, value }
//! ```
//!
//! TLS has verified who signed the certificate; this only reads the name.

use super::der::{SEQUENCE, element, fields_after, inside};

const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
/// 2.5.4.3: commonName.
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];

/// The common name of the subject. `None` if there is none, or more than one.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    // After serialNumber, signature, issuer and validity.
    let (mut names, _) = inside(fields_after(certificate, 4)?, SEQUENCE)?;
    let mut found = None;
    while !names.is_empty() {
        let (mut set, rest) = inside(names, SET)?;
        names = rest;
        while !set.is_empty() {
            let (attribute, rest) = inside(set, SEQUENCE)?;
            set = rest;
            let Some(value) = attribute.strip_prefix(COMMON_NAME) else { continue };
            let (tag, text, _) = element(value)?;
            let text = std::str::from_utf8(text).ok().filter(|_| matches!(tag, UTF8_STRING | PRINTABLE_STRING))?;
            if found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certificate(names: &[&str]) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["other.example".into()]).expect("parameters");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "web-9");
        names.iter().for_each(|name| params.distinguished_name.push(rcgen::DnType::CommonName, *name));
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn the_common_name_and_no_other_one() {
        assert_eq!(common_name(&certificate(&["web-1"])).as_deref(), Some("web-1"));
        assert_eq!(common_name(&certificate(&[])), None);
        assert_eq!(common_name(b""), None);
    }

    proptest! {
        /// A certificate that was cut or changed has a name or none, and nothing panics.
        #[test]
        fn any_bytes_have_a_name_or_none(at in 0usize..400, byte: u8, cut in 0usize..400) {
            let mut bytes = certificate(&["web-1"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            common_name(&bytes);
            bytes.truncate(cut);
            common_name(&bytes);
        }
    }
}
