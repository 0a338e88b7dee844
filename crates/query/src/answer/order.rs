//! The order of values.
//!
//! Absent and empty values come first, then numbers by value (also those in texts, with units), then texts. Digits
//! within texts compare as numbers, so `item9` precedes `item10`. Levels compare by severity.

use super::item::severity;
use daytable_logsql::number::Number;
use daytable_logsql::query::SortKey;
use daytable_logsql::{Column, FieldName};
use daytable_model::property::Property;
use std::cmp::Ordering;

/// The order of two values of a column.
pub fn compare_values(column: &FieldName, a: Option<Property<'_>>, b: Option<Property<'_>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if column.column() == Column::Level => match (severity(a), severity(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare(a, b),
        },
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => is_present(a).cmp(&is_present(b)),
    }
}

/// The order of two values of a key of a sort, from above if it is descending.
pub fn compare_by(key: &SortKey, a: Option<Property<'_>>, b: Option<Property<'_>>) -> Ordering {
    let order = compare_values(&key.field, a, b);
    if key.is_descending { order.reverse() } else { order }
}

fn is_present(value: Option<Property<'_>>) -> bool {
    value.is_some_and(|value| !matches!(value, Property::String("")))
}

/// The order of two values.
pub fn compare(a: Property<'_>, b: Property<'_>) -> Ordering {
    match (a, b) {
        (Property::DateTime(a), Property::DateTime(b)) => return a.cmp(&b),
        (Property::Int64(a), Property::Int64(b)) => return a.cmp(&b),
        _ => {}
    }
    match (Number::of(a), Number::of(b)) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (Some(_), None) => {
            if is_present(Some(b)) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (None, Some(_)) => {
            if is_present(Some(a)) {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (None, None) => compare_texts(&a.text(), &b.text()),
    }
}

/// The order of two texts, in which a run of digits compares as a number.
pub fn compare_texts(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let common = a.iter().zip(b).take_while(|(x, y)| x == y && !x.is_ascii_digit()).count();
        (a, b) = (&a[common..], &b[common..]);
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (in_a, in_b) = (digits(a), digits(b));
        if in_a == 0 || in_b == 0 {
            return a.cmp(b);
        }
        let number = |text: &[u8]| text.iter().position(|byte| *byte != b'0').unwrap_or(text.len());
        let (one, other) = (&a[..in_a], &b[..in_b]);
        let (x, y) = (&one[number(one)..], &other[number(other)..]);
        let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y)).then_with(|| in_a.cmp(&in_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (&a[in_a..], &b[in_b..]);
    }
}
