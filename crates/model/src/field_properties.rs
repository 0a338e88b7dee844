//! The properties of a record's fields, and the names of fields in them.
//!
//! A field's property is [`property_name`] of its name. Where several fields of a record would have one property, the field
//! that is called like the property has it, or the first of them. The others have an *exact* property, which tells the name:
//!
//! ```text
//! user_id, user.id      ──►  user_id, user_u002E_id         _uHHHH_ is a character by its code
//! ip, ip, ip            ──►  ip, ip_u0023_2, ip_u0023_3     a name that comes again: `ip#2`, `ip#3`
//! ```
//!
//! So a name leads to its property in each record without a table of names ([`exact_property`]), and a property of this form
//! leads back to the name ([`shown_name`]).

use crate::property::{PROPERTY_NAME_UNITS_MAX, is_reserved, property_name};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Begins the code of a character, and ends it.
const CODE: (&str, char) = ("_u", '_');
/// Before the number of a field whose name came before: `#`.
const AGAIN: &str = "_u0023_";
/// Room for the number of a name that comes again.
const AGAIN_UNITS: usize = AGAIN.len() + 4;

/// The properties that a row gives to the fields of a record, in their order. All are different.
pub fn field_properties<'n>(names: impl Iterator<Item = &'n str>) -> Vec<Box<str>> {
    let named: Vec<(&str, String)> = names.map(|name| (name, property_name(name))).collect();
    // The name whose first field has the plain property.
    let mut owners: HashMap<&str, &str> = HashMap::with_capacity(named.len());
    for (name, plain) in &named {
        let owner = owners.entry(plain).or_insert(name);
        if *name == plain {
            *owner = name;
        }
    }
    let mut used: HashSet<Box<str>> = owners.keys().map(|plain| Box::from(*plain)).collect();
    // The property of each name, and how often it came.
    let mut known: HashMap<&str, (Box<str>, usize)> = HashMap::with_capacity(named.len());
    let mut properties = Vec::with_capacity(named.len());
    for (name, plain) in &named {
        let property = match known.get_mut(name) {
            Some((first, times)) => {
                *times += 1;
                free(&used, (*times..).map(|n| property_again(first, n)))
            }
            None if owners.get(plain.as_str()) == Some(name) => Box::from(plain.as_str()),
            None => free(&used, exact_property(name).into_iter().chain((2..).map(|n| numbered_name(plain, n)))),
        };
        used.insert(property.clone());
        known.entry(name).or_insert_with(|| (property.clone(), 1));
        properties.push(property);
    }
    properties
}

fn free(used: &HashSet<Box<str>>, mut names: impl Iterator<Item = String>) -> Box<str> {
    names.find(|name| !used.contains(name.as_str())).unwrap_or_default().into()
}

/// The property that tells the name of a field; `None` for a name that is too long for it.
pub fn exact_property(name: &str) -> Option<String> {
    let mut exact = String::with_capacity(name.len() + 8);
    let begins = |c: char| c.is_alphabetic();
    let is_reserved = is_reserved(name);
    for (at, c) in name.char_indices() {
        let fits = c.is_alphabetic() || c.is_ascii_digit();
        match fits && (at > 0 || begins(c) && !is_reserved) {
            true => exact.push(c),
            false => exact.push_str(&format!("{}{:04X}{}", CODE.0, u32::from(c), CODE.1)),
        }
    }
    (!exact.is_empty() && exact.len() + AGAIN_UNITS <= PROPERTY_NAME_UNITS_MAX).then_some(exact)
}

/// The property of the n-th field of a name whose first one has `property`.
pub fn property_again(property: &str, n: usize) -> String {
    let kept = property.floor_char_boundary(PROPERTY_NAME_UNITS_MAX - AGAIN_UNITS);
    format!("{}{AGAIN}{n}", &property[..kept])
}

/// The property that a field has once another field of the same first property stands before it: `ip#2` of `ip`, `ip#3` of
/// `ip#2`. `None` if the property is of another name.
pub fn property_after(first: &str, property: &str) -> Option<String> {
    if property == first {
        return Some(property_again(first, 2));
    }
    let n = property.strip_prefix(first)?.strip_prefix(AGAIN).filter(|n| is_count(n))?.parse::<usize>().ok()?;
    // Other numbers of that form are names that a program chose, and stay as they are.
    (n >= 2 && property == property_again(first, n)).then(|| property_again(first, n + 1))
}

/// The property of the first field of a name, if this is the property of a later one.
pub fn first_property(property: &str) -> Option<&str> {
    // Nearly no name ends with a digit.
    if !property.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (first, n) = property.rsplit_once(AGAIN).or_else(|| property.rsplit_once('#'))?;
    is_count(n).then_some(first)
}

/// A name and a number, if the name asks for a later field of that name: `ip#2`.
pub fn name_again(name: &str) -> Option<(&str, usize)> {
    let (name, n) = name.rsplit_once('#')?;
    n.parse().ok().filter(|_| is_count(n)).map(|n| (name, n))
}

fn is_count(n: &str) -> bool {
    !n.is_empty() && n.len() <= 4 && n.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name of the field that has a property, where the property tells it.
pub fn shown_name(property: &str) -> Cow<'_, str> {
    if !property.contains(CODE.0) {
        return property.into();
    }
    let (mut shown, mut rest) = (String::new(), property);
    while let Some(at) = rest.find(CODE.0) {
        let coded =
            rest[at + CODE.0.len()..].split_once(CODE.1).and_then(|(code, after)| Some((character(code)?, after)));
        match coded {
            Some((c, after)) => {
                shown.push_str(&rest[..at]);
                shown.push(c);
                rest = after;
            }
            None => {
                shown.push_str(&rest[..at + 1]);
                rest = &rest[at + 1..];
            }
        }
    }
    if shown.is_empty() {
        return property.into();
    }
    shown.push_str(rest);
    shown.into()
}

/// The character of a code, as [`exact_property`] writes it.
fn character(code: &str) -> Option<char> {
    let is_code = (4..=6).contains(&code.len()) && code.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    is_code.then(|| u32::from_str_radix(code, 16).ok().and_then(char::from_u32)).flatten()
}

/// A property name with a number, for a row that has the plain name already.
pub(crate) fn numbered_name(name: &str, n: u32) -> String {
    let suffix = format!("_{n}");
    let kept = name.floor_char_boundary(PROPERTY_NAME_UNITS_MAX - suffix.len());
    format!("{}{suffix}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_field_before_it_moves_a_property_on() {
        for (property, after) in [
            ("ip", Some("ip_u0023_2")),
            ("ip_u0023_2", Some("ip_u0023_3")),
            ("ip_u0023_9", Some("ip_u0023_10")),
            ("ip_u0023_1", None),
            ("ip_u0023_02", None),
            ("ip_u0023_", None),
            ("ips", None),
            ("zip", None),
        ] {
            assert_eq!(property_after("ip", property).as_deref(), after, "{property}");
        }
    }

    #[test]
    fn names_that_collide_keep_their_names() {
        let properties = |names: &[&str]| field_properties(names.iter().copied()).join(" ");
        for (names, expected) in [
            (&["user_id", "user.id"][..], "user_id user_u002E_id"),
            (&["user.id", "user_id"], "user_u002E_id user_id"),
            (&["user.id", "user-id"], "user_id user_u002D_id"),
            (&["ip", "ip", "ip_2", "ip"], "ip ip_u0023_2 ip_2 ip_u0023_3"),
            (&["a.b", "a_b", "a.b"], "a_u002E_b a_b a_u002E_b_u0023_2"),
            (&["Message", "Message_", "2xx", "_2xx"], "_u004D_essage Message_ _u0032_xx _2xx"),
            (&["grün 𝄞", "grün__"], "grün_u0020__u1D11E_ grün__"),
        ] {
            assert_eq!(properties(names), expected, "{names:?}");
        }
        for (property, name) in [
            ("user_u002E_id", "user.id"),
            ("a_u002E_b_u0023_2", "a.b#2"),
            ("grün_u0020__u1D11E_", "grün 𝄞"),
            ("_u0032_xx", "2xx"),
            ("a_u002e_b_u12_", "a_u002e_b_u12_"),
            ("plain_use", "plain_use"),
        ] {
            assert_eq!(shown_name(property), name);
        }
        assert_eq!((first_property("ip_u0023_2"), first_property("ip_2")), (Some("ip"), None));
    }

    proptest! {
        /// All properties of a record differ, are valid, and tell the names that the plain ones do not.
        #[test]
        fn all_properties_differ(names in proptest::collection::vec("(a|a[._ #2-]b|Message|é|[0-9]x|a_u002E_b)(_|_2|#2)?|[ab.]{250,260}", 0..12)) {
            let properties = field_properties(names.iter().map(String::as_str));
            prop_assert_eq!(properties.len(), names.len());
            prop_assert_eq!(properties.iter().collect::<HashSet<_>>().len(), names.len(), "{:?}", properties);
            for (name, property) in names.iter().zip(&properties) {
                prop_assert_eq!(&*property_name(property), &**property);
                if exact_property(name).as_deref() == Some(&**property) {
                    prop_assert_eq!(&*shown_name(property), &**name);
                }
            }
        }
    }
}
