//! When a record arrived, where its own time does not tell.
//!
//! A record that came over a network has the time of its sender's clock. As long as that clock is right, the record arrives
//! within seconds of its time, and nothing is kept: its time stands for its arrival. A record whose time is further away
//! keeps its arrival as a property. So right clocks cost no byte, and a wrong one can be seen and sorted by.
//!
//! ```text
//! Arrived   2026-11-29T10:00:00.25Z     DateTime; left out where the time is near enough
//! ```
//!
//! Records of files and of the local journal have no arrival: they may be of any age when they are read, and are read again.

use crate::time::{TICKS_PER_SECOND, Ticks};

/// The property with the arrival.
pub const ARRIVED: &str = "Arrived";
/// What queries and answers call the arrival.
pub const ARRIVED_FIELD: &str = "_arrived";
/// Ticks of a microsecond.
const TICKS_PER_MICROSECOND: i64 = TICKS_PER_SECOND / 1_000_000;
/// How far a record's time may be from its arrival, in seconds, and still stand for it. Collectors gather records for some
/// seconds before they send them: Filebeat for up to ten, which is the longest default of those that the guide names. Times of
/// whole seconds, and the way, take their share.
pub const ARRIVAL_TOLD_SECONDS: i64 = 15;

/// The arrival that a record keeps which came at `now`, in whole microseconds as columns of sealed days have them; `None` if
/// its own time tells it, or it has none.
pub fn kept_arrival(time: Option<Ticks>, now: Ticks) -> Option<Ticks> {
    let difference = now.get().abs_diff(time?.get());
    let is_told = difference <= (ARRIVAL_TOLD_SECONDS * TICKS_PER_SECOND).unsigned_abs();
    let micros = now.get() - now.get().rem_euclid(TICKS_PER_MICROSECOND);
    if is_told { None } else { Ticks::new(micros) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_is_kept_where_the_time_is_far_from_it() {
        let at = |seconds: i64| Ticks::from_unix(1_800_000_000 + seconds, 0).expect("a time");
        for near in [-15, -1, 0, 1, 15] {
            assert_eq!(kept_arrival(Some(at(near)), at(0)), None, "{near}");
        }
        for far in [-7200, -16, 16, 7200] {
            assert_eq!(kept_arrival(Some(at(far)), at(0)), Some(at(0)), "{far}");
        }
        assert_eq!(kept_arrival(Some(Ticks::MAX), at(0)), Some(at(0)));
        assert_eq!(kept_arrival(None, at(0)), None);
        let with_ticks = Ticks::new(at(0).get() + 1_234_567).expect("a time");
        assert_eq!(kept_arrival(Some(at(60)), with_ticks).map(|kept| kept.get() - at(0).get()), Some(1_234_560));
    }
}
