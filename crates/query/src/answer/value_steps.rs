//! Steps of values and times, which `stats by (…:step)` groups by.

use super::accumulator::number_value;
use super::math::decimal;
use crate::entity::OwnedValue;
use daytable_logsql::number::{Number, ipv4, plain};
use daytable_logsql::query::{ValueStep, ValueStepSize};
use daytable_logsql::unit::{duration_nanos, show_duration, size_bytes};
use daytable_model::property::Property;
use daytable_model::time::{MAX_TICKS, Ticks, UNIX_EPOCH_TICKS};
use std::time::Duration;

/// The start of the step that contains a value; `None` if the value has no steps.
pub(super) fn step_start(value: Property<'_>, step: &ValueStep) -> Option<OwnedValue> {
    if let (Property::DateTime(time), Some(clock), ValueStepSize::Number(nanos)) = (value, step.clock, step.size) {
        return Some(OwnedValue::DateTime(clock.step_start(time, Duration::from_nanos(nanos as u64))));
    }
    let offset = step.offset.as_ref().map_or(0, |offset| offset.nanos);
    match (value, step.size) {
        (Property::DateTime(time), size) => Some(OwnedValue::DateTime(time_step(time, size, offset)?)),
        (Property::String(text), ValueStepSize::AddressBits(bits)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Some(OwnedValue::String(std::net::Ipv4Addr::from(ipv4(text)? & mask).to_string()))
        }
        (Property::Int64(n), ValueStepSize::Number(size)) => number_step(Number::Whole(n), size, offset),
        (Property::Int32(n), ValueStepSize::Number(size)) => number_step(Number::Whole(n.into()), size, offset),
        (Property::Double(n), ValueStepSize::Number(size)) => number_step(Number::Float(n), size, offset),
        (Property::String(text), ValueStepSize::Number(size)) => {
            if let Some(number) = plain(text) {
                return number_step(number, size, offset);
            }
            if let Some(time) = time_of(text) {
                return Some(OwnedValue::DateTime(time_step(time, ValueStepSize::Number(size), offset)?));
            }
            let truncated = |n: i64| Some(floor_to(n, size as i64, offset));
            if let Some(nanos) = duration_nanos(text) {
                return truncated(nanos).map(|nanos| OwnedValue::String(show_duration(nanos)));
            }
            if let Some(bytes) = size_bytes(text) {
                return truncated(bytes).map(OwnedValue::Int64);
            }
            let address = ipv4(text)?;
            let truncated = u32::try_from(floor_to(address.into(), size as i64, offset)).ok()?;
            Some(OwnedValue::String(std::net::Ipv4Addr::from(truncated).to_string()))
        }
        (Property::String(text), size) => Some(OwnedValue::DateTime(time_step(time_of(text)?, size, offset)?)),
        _ => None,
    }
}

/// The end of the step of time that begins at `start`, if all times before it are of that step.
pub(super) fn step_end(start: Ticks, step: &ValueStep) -> Option<Ticks> {
    let ValueStepSize::Number(nanos) = step.size else { return None };
    match step.clock {
        Some(clock) => Some(clock.step_after(start, Duration::from_nanos(nanos as u64))),
        None => Some(Ticks::new(start.get().saturating_add((nanos / 100.0) as i64)).unwrap_or(Ticks::MAX)),
    }
}

/// The time that a text is.
pub(super) fn time_of(text: &str) -> Option<Ticks> {
    // Only a time has four digits and a dash first, and more than a date without a day.
    let is_like = text.len() >= 10 && text.as_bytes().get(4) == Some(&b'-');
    let nanos = if is_like { Number::parse(text)? } else { return None };
    match nanos {
        Number::Whole(nanos) => Ticks::new(nanos.div_euclid(100).checked_add(UNIX_EPOCH_TICKS)?),
        Number::Float(_) => None,
    }
}

fn floor_to(n: i64, size: i64, offset: i64) -> i64 {
    let size = size.max(1);
    n.saturating_sub(n.saturating_sub(offset).rem_euclid(size))
}

fn number_step(number: Number, size: f64, offset: i64) -> Option<OwnedValue> {
    if let (Number::Whole(n), true) = (number, size.fract() == 0.0) {
        return Some(OwnedValue::Int64(floor_to(n, size as i64, offset)));
    }
    let (n, offset) = (number.as_f64(), offset as f64);
    let steps = ((n - offset) / size).floor();
    Some(number_value(decimal(steps * size + offset, size)))
}

fn time_step(time: Ticks, size: ValueStepSize, offset: i64) -> Option<Ticks> {
    let offset = offset / 100;
    let shifted = Ticks::new((time.get() - offset).clamp(0, MAX_TICKS))?;
    let start = match size {
        ValueStepSize::Number(nanos) => {
            let ticks = ((nanos / 100.0) as i64).max(1);
            shifted.get() - (shifted.get() - UNIX_EPOCH_TICKS).rem_euclid(ticks)
        }
        // The Unix epoch was a Thursday; weeks begin on Monday.
        ValueStepSize::Week => {
            let day = daytable_model::time::TICKS_PER_DAY;
            shifted.get() - (shifted.get() - UNIX_EPOCH_TICKS + 3 * day).rem_euclid(7 * day)
        }
        ValueStepSize::Month => Ticks::from_date(shifted.date().year, shifted.date().month, 1)?.get(),
        ValueStepSize::Year => Ticks::from_date(shifted.date().year, 1, 1)?.get(),
        ValueStepSize::AddressBits(_) => return None,
    };
    Ticks::new((start + offset).clamp(0, MAX_TICKS))
}
