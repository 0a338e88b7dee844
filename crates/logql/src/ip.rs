//! `ip("…")`: one address, a range (`10.0.0.1-10.0.0.9`) or a network (`10.0.0.0/8`), of either version.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Addresses that are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpFilter {
    source: String,
    range: RangeInclusive<IpAddr>,
}

impl IpFilter {
    /// Reads the text between the quotes.
    pub(crate) fn new(source: &str) -> Result<IpFilter, String> {
        let invalid = || format!("{source:?} is not an address, range of addresses, or network");
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| invalid());
        let range = if let Some((first, last)) = source.split_once('-') {
            address(first)?..=address(last)?
        } else if let Some((base, bits)) = source.split_once('/') {
            let bits: u32 = bits.parse().map_err(|_| invalid())?;
            match address(base)? {
                IpAddr::V4(base) if bits <= 32 => {
                    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
                    let base = base.to_bits();
                    Ipv4Addr::from_bits(base & !hosts).into()..=Ipv4Addr::from_bits(base | hosts).into()
                }
                IpAddr::V6(base) if bits <= 128 => {
                    let hosts = u128::MAX.checked_shr(bits).unwrap_or(0);
                    let base = base.to_bits();
                    Ipv6Addr::from_bits(base & !hosts).into()..=Ipv6Addr::from_bits(base | hosts).into()
                }
                _ => return Err(invalid()),
            }
        } else {
            let one = address(source)?;
            one..=one
        };
        if range.start().is_ipv4() != range.end().is_ipv4() || range.is_empty() {
            return Err(invalid());
        }
        Ok(IpFilter { source: source.to_owned(), range })
    }

    /// The text between the quotes.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.range.start().is_ipv4() && self.range.contains(&address)
    }

    /// Whether one of the addresses is in a text. As in Loki, an address ends where its characters end: `10.0.0.1.` is
    /// not one.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let mut at = 0;
        while at < bytes.len() {
            let hexadecimal = (at..at + 4).take_while(|at| byte(*at).is_ascii_hexdigit()).count();
            let is_v4 = byte(at).is_ascii_digit() && at + 3 < bytes.len() && (1..=3).any(|n| byte(at + n) == b'.');
            let is_v6 = (1..=4).any(|n| n <= hexadecimal && byte(at + n) == b':')
                || bytes[at..].starts_with(b"::") && byte(at + 2).is_ascii_hexdigit();
            if is_v4 || is_v6 {
                let part = |byte: &u8| {
                    if is_v4 {
                        byte.is_ascii_digit() || *byte == b'.'
                    } else {
                        byte.is_ascii_hexdigit() || b":.".contains(byte)
                    }
                };
                let length = bytes[at..].iter().take_while(|byte| part(byte)).count();
                if text[at..at + length].parse().is_ok_and(|address| self.holds(address)) {
                    return true;
                }
                at += length;
            }
            at += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ranges_and_networks() {
        for (filter, text, found) in [
            ("10.0.0.1", "from 10.0.0.1: refused", true),
            ("10.0.0.1", "from 10.0.0.12", false),
            ("10.0.0.0/28", "10.0.0.15 - -", true),
            ("10.0.0.0/28", "10.0.0.16 - -", false),
            ("10.0.0.3-10.0.0.5", "x=10.0.0.4, y", true),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("2001:db8::/32", "peer [2001:db8::7]:443", true),
            ("::1", "::1", true),
            ("::1", "1.2.3.4", false),
            ("10.0.0.1", "at 10.0.0.1.", false),
            ("10.0.0.1", "é10.0.0.1é", true),
        ] {
            assert_eq!(IpFilter::new(filter).map(|ip| ip.is_in(text)), Ok(found), "{filter} {text}");
        }
        for wrong in ["", "x", "1.2.3.4/33", "1.2.3.4-::1", "1.2.3.4-1.2.3.3", "::/129"] {
            assert!(IpFilter::new(wrong).is_err(), "{wrong}");
        }
    }
}
