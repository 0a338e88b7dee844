//! The expiry of certificates, which TLS itself reports only when it is too late.
//!
//! This reads just the fields on the way to the expiry
//! ([RFC 5280, 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)) and verifies nothing. A malformed certificate has no
//! expiry.
//!
//! ```text
//! Certificate SEQUENCE
//!   TBSCertificate SEQUENCE
//!     [0] version        optional
//!     serialNumber, signature, issuer
//!     validity SEQUENCE { notBefore, notAfter }      UTCTime `YYMMDDHHMMSSZ` or GeneralizedTime `YYYYMMDDHHMMSSZ`
//! ```

use super::der::{SEQUENCE, element, fields_after, inside};
use daytable_model::time::Ticks;
use daytable_platform::small_file;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The earliest expiry of the certificates in a PEM file. `None` if the file has no readable certificate.
pub fn expiry(path: &Path) -> Option<Ticks> {
    let certificates = CertificateDer::pem_reader_iter(BufReader::new(small_file::open(path).ok()?));
    certificates.filter_map(|certificate| not_after(&certificate.ok()?)).min()
}

fn not_after(certificate: &[u8]) -> Option<Ticks> {
    // After serialNumber, signature and issuer.
    let (validity, _) = inside(fields_after(certificate, 3)?, SEQUENCE)?;
    let (_, _, after) = element(validity)?;
    let (tag, text, _) = element(after)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

fn time(tag: u8, text: &str) -> Option<Ticks> {
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<u32>().ok();
    let (hour, minute, second) = (two(4)?, two(6)?, two(8)?);
    let is_time = rest.len() == 10 && hour < 24 && minute < 60 && second <= 60;
    let seconds = u64::from(hour * 3600 + minute * 60 + second);
    Ticks::from_date(year, two(0)?, two(2)?).filter(|_| is_time).map(|day| day.plus(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pem(name: &str, year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec![name.into()]).expect("parameters");
        params.not_after = rcgen::date_time_ymd(year, 3, 4);
        params.self_signed(&rcgen::KeyPair::generate().expect("a key")).expect("signed").pem()
    }

    #[test]
    fn the_earliest_expiry_of_a_chain_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chain.pem");
        let at = |year| Ticks::from_date(year, 3, 4);
        // From 2050 on a time has the other form.
        for (chain, expected) in [
            (vec![pem("a", 2031)], at(2031)),
            (vec![pem("a", 2071)], at(2071)),
            (vec![pem("a", 2031), pem("b", 2029)], at(2029)),
            (vec!["no certificate".to_owned()], None),
        ] {
            std::fs::write(&path, chain.concat()).expect("written");
            assert_eq!(expiry(&path), expected);
        }
        assert_eq!(expiry(&folder.path().join("none")), None);
    }

    #[test]
    fn times() {
        let at = |year, second| Ticks::from_date(year, 2, 28).map(|day| day.plus(Duration::from_secs(second)));
        for (tag, text, expected) in [
            (UTC_TIME, "490228000001Z", at(2049, 1)),
            (UTC_TIME, "500228000000Z", at(1950, 0)),
            (GENERALIZED_TIME, "20500228235959Z", at(2050, 86_399)),
            (UTC_TIME, "490229000000Z", None),
            (UTC_TIME, "490228240000Z", None),
            (UTC_TIME, "4902280000Z", None),
            (UTC_TIME, "490228000001+0100", None),
            (SEQUENCE, "490228000001Z", None),
        ] {
            assert_eq!(time(tag, text), expected, "{text}");
        }
    }

    proptest! {
        /// No bytes panic.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,20}") {
            let _ = not_after(&bytes);
            let _ = time(UTC_TIME, &text);
        }
    }
}
