//! Limits of one sender, so that a noisy sender does not starve the others.
//!
//! The [generic cell rate algorithm](https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm) enforces a rate. Each
//! record advances the sender's *theoretical arrival time* by `1 / records_per_s`. A sender must wait if this time is
//! more than [`BURST`] ahead of the clock. A quiet sender gains at most that burst. Records are charged after they
//! arrive, so a large request is accepted and paid for afterwards. The size of a request is never a reason to refuse
//! it.
//!
//! A quota counts bytes since midnight UTC. It is kept in memory and starts again with the process.
//!
//! The caller decides the effect of a limit: a stream is not read, a push is answered with 429, a datagram is dropped.
//!
//! Invented sender addresses cannot use up memory. Beyond [`SENDERS_MAX`] senders in debt, further senders share one
//! entry, and so the limits of one sender. Senders with their own entry keep it.

use daytable_model::time::Ticks;
use daytable_platform::lock;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How far a sender may be ahead of its rate.
pub const BURST: Duration = Duration::from_secs(1);
/// The number of senders with their own entry. An entry needs about 100 bytes.
pub const SENDERS_MAX: usize = 16_384;
/// The least time between two searches for entries without debt.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest debt of a sender. A charge beyond that is forgotten.
const DEBT_MAX: Duration = Duration::from_secs(86_400);
const TICKS_PER_DAY: i64 = 864_000_000_000;

/// The limits of one sender. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderLimits {
    /// Records a second.
    pub records_per_s: Option<NonZeroU32>,
    /// Bytes a second.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Bytes a day, which begins at midnight UTC.
    pub bytes_per_day: Option<NonZeroU64>,
    /// Concurrent connections.
    pub connections: Option<NonZeroU32>,
}

impl SenderLimits {
    fn are_unlimited(&self) -> bool {
        self.records_per_s.is_none() && self.bytes_per_s.is_none() && self.bytes_per_day.is_none()
    }
}

/// The limit that a sender exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Records or bytes a second.
    Rate,
    /// Bytes a day.
    Quota,
}

impl LimitKind {
    /// Both limits, in the order of [`LimitKind::index`].
    pub const ALL: [LimitKind; 2] = [LimitKind::Rate, LimitKind::Quota];

    /// The value of the label `reason` in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            LimitKind::Rate => "rate_limited",
            LimitKind::Quota => "quota",
        }
    }

    /// The index in [`LimitKind::ALL`].
    pub fn index(self) -> usize {
        usize::from(self == LimitKind::Quota)
    }
}

/// The sender exceeded a limit and must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit.
    pub kind: LimitKind,
    /// How long the sender must wait.
    pub wait: Duration,
}

/// One moment by two clocks: rates need the clock that never jumps, days need the calendar.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock.
    pub instant: Instant,
    /// The wall clock.
    pub ticks: Ticks,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Now {
        Now { instant: Instant::now(), ticks: daytable_model::time::now() }
    }

    fn day(&self) -> i64 {
        self.ticks.get().div_euclid(TICKS_PER_DAY)
    }

    fn until_tomorrow(&self) -> Duration {
        let left = TICKS_PER_DAY - self.ticks.get().rem_euclid(TICKS_PER_DAY);
        Duration::from_nanos(left.unsigned_abs() * 100)
    }
}

/// The usage of one sender.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// The theoretical arrival time by records.
    records_arrival: Instant,
    /// The theoretical arrival time by bytes.
    bytes_arrival: Instant,
    day: i64,
    bytes_today: u64,
}

impl Usage {
    fn new(now: Now) -> Usage {
        Usage { records_arrival: now.instant, bytes_arrival: now.instant, day: now.day(), bytes_today: 0 }
    }

    fn check(&self, limits: &SenderLimits, now: Now) -> Result<(), Limited> {
        if limits.bytes_per_day.is_some_and(|most| self.day == now.day() && self.bytes_today >= most.get()) {
            return Err(Limited { kind: LimitKind::Quota, wait: now.until_tomorrow() });
        }
        let ahead = self.records_arrival.max(self.bytes_arrival).saturating_duration_since(now.instant);
        match ahead.checked_sub(BURST) {
            Some(wait) if !wait.is_zero() => Err(Limited { kind: LimitKind::Rate, wait }),
            _ => Ok(()),
        }
    }

    fn charge(&mut self, limits: &SenderLimits, records: u64, bytes: u64, now: Now) {
        if let Some(rate) = limits.records_per_s {
            self.records_arrival = advance(self.records_arrival, records, rate.get().into(), now.instant);
        }
        if let Some(rate) = limits.bytes_per_s {
            self.bytes_arrival = advance(self.bytes_arrival, bytes, rate.get(), now.instant);
        }
        if self.day != now.day() {
            (self.day, self.bytes_today) = (now.day(), 0);
        }
        self.bytes_today = self.bytes_today.saturating_add(bytes);
    }

    /// Whether a new entry would be the same.
    fn has_no_debt(&self, limits: &SenderLimits, now: Now) -> bool {
        let has_sent_today = limits.bytes_per_day.is_some() && self.day == now.day() && self.bytes_today > 0;
        !has_sent_today && self.records_arrival.max(self.bytes_arrival) <= now.instant
    }
}

/// The theoretical arrival time after `count` more at `rate` a second.
fn advance(arrival: Instant, count: u64, rate: u64, now: Instant) -> Instant {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1));
    let more = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(DEBT_MAX);
    (arrival.max(now) + more).min(now + DEBT_MAX)
}

/// Holds each sender to the same limits. `K` identifies a sender.
pub struct RateLimiter<K> {
    limits: SenderLimits,
    senders: HashMap<K, Usage, foldhash::quality::RandomState>,
    /// The common entry of all senders without an entry of their own.
    others: Option<Usage>,
    swept: Option<Instant>,
    senders_max: usize,
}

impl<K: Hash + Eq> RateLimiter<K> {
    /// Knows no sender yet.
    pub fn new(limits: SenderLimits) -> RateLimiter<K> {
        RateLimiter { limits, senders: HashMap::default(), others: None, swept: None, senders_max: SENDERS_MAX }
    }

    /// Checks whether `sender` may send now.
    ///
    /// # Errors
    ///
    /// The limit that the sender exceeded, and how long it must wait.
    pub fn check(&mut self, sender: &K, now: Now) -> Result<(), Limited> {
        if self.limits.are_unlimited() {
            return Ok(());
        }
        if let Some(usage) = self.senders.get(sender) {
            return usage.check(&self.limits, now);
        }
        let others = self.others.filter(|_| !self.has_room(now));
        others.map_or(Ok(()), |others| others.check(&self.limits, now))
    }

    /// Charges `sender` for records that it has sent.
    pub fn charge(&mut self, sender: K, records: u64, bytes: u64, now: Now) {
        if self.limits.are_unlimited() {
            return;
        }
        let has_room = self.senders.contains_key(&sender) || self.has_room(now);
        let usage = match has_room {
            true => self.senders.entry(sender).or_insert_with(|| Usage::new(now)),
            false => self.others.get_or_insert_with(|| Usage::new(now)),
        };
        usage.charge(&self.limits, records, bytes, now);
    }

    /// Whether one more sender can have an entry. Removes entries without debt if there are too many.
    fn has_room(&mut self, now: Now) -> bool {
        if self.senders.len() < self.senders_max {
            return true;
        }
        if self.swept.is_none_or(|swept| now.instant.saturating_duration_since(swept) >= SWEEP_INTERVAL) {
            self.swept = Some(now.instant);
            let limits = self.limits;
            self.senders.retain(|_, usage| !usage.has_no_debt(&limits, now));
        }
        self.senders.len() < self.senders_max
    }
}

/// Limits the connections of each peer. Cheap to clone. Only peers with a connection take memory.
#[derive(Clone, Debug)]
pub struct ConnectionLimiter {
    most: Option<NonZeroU32>,
    peers: Arc<Mutex<HashMap<IpAddr, u32, foldhash::quality::RandomState>>>,
    refused: Arc<AtomicU64>,
}

/// A connection that counts until this value is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    peer: IpAddr,
}

impl ConnectionLimiter {
    /// Counts no connection yet.
    pub fn new(limits: SenderLimits) -> ConnectionLimiter {
        ConnectionLimiter { most: limits.connections, peers: Arc::default(), refused: Arc::default() }
    }

    /// A limiter with other limits that shares the count of present connections.
    pub fn with_limits(&self, limits: SenderLimits) -> ConnectionLimiter {
        ConnectionLimiter { most: limits.connections, ..self.clone() }
    }

    /// Counts a connection of `peer`. `None` if the peer has as many connections as it may have.
    pub fn try_acquire(&self, peer: IpAddr) -> Option<ConnectionPermit> {
        let peer = network_of(peer);
        let mut peers = lock(&self.peers);
        let count = peers.get(&peer).copied().unwrap_or(0);
        if self.most.is_some_and(|most| count >= most.get()) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        peers.insert(peer, count + 1);
        Some(ConnectionPermit { limiter: self.clone(), peer })
    }

    /// The number of connections that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut peers = lock(&self.limiter.peers);
        match peers.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(peers.remove(&self.peer)),
        }
    }
}

/// The network that identifies a peer. It is the address itself for IPv4. For IPv6 it is the /64, because a host can choose
/// any address in its own network.
pub fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: SenderLimits =
        SenderLimits { records_per_s: None, bytes_per_s: None, bytes_per_day: None, connections: NonZeroU32::new(2) };

    fn limits(records: u32, bytes: u64, quota: u64) -> SenderLimits {
        SenderLimits {
            records_per_s: NonZeroU32::new(records),
            bytes_per_s: NonZeroU64::new(bytes),
            bytes_per_day: NonZeroU64::new(quota),
            connections: None,
        }
    }

    fn at(start: Instant, millis: u64) -> Now {
        let ticks = Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_millis(millis));
        Now { instant: start + Duration::from_millis(millis), ticks }
    }

    #[test]
    fn a_rate_limits_one_sender_and_not_the_other() {
        let (mut limiter, start) = (RateLimiter::new(limits(100, 0, 0)), Instant::now());
        limiter.charge("noisy", 300, 0, at(start, 0));
        let over = limiter.check(&"noisy", at(start, 0)).expect_err("three seconds of records");
        assert_eq!(over, Limited { kind: LimitKind::Rate, wait: Duration::from_secs(2) });
        assert_eq!(limiter.check(&"quiet", at(start, 0)), Ok(()));
        assert!(limiter.check(&"noisy", at(start, 1999)).is_err());
        assert_eq!(limiter.check(&"noisy", at(start, 2000)), Ok(()));
    }

    #[test]
    fn a_quota_lasts_until_midnight() {
        let (mut limiter, start) = (RateLimiter::new(limits(0, 0, 1000)), Instant::now());
        limiter.charge("a", 1, 999, at(start, 0));
        assert_eq!(limiter.check(&"a", at(start, 1)), Ok(()));
        limiter.charge("a", 1, 999, at(start, 1));
        let over = limiter.check(&"a", at(start, 80_000_000)).expect_err("the day's bytes");
        assert_eq!(over, Limited { kind: LimitKind::Quota, wait: Duration::from_secs(6400) });
        assert_eq!(limiter.check(&"a", at(start, 86_400_000)), Ok(()));
        limiter.charge("a", 1, 1, at(start, 86_400_000));
        assert_eq!(limiter.check(&"a", at(start, 86_400_001)), Ok(()));
    }

    #[test]
    fn invented_senders_share_one_entry() {
        let (mut limiter, start) = (RateLimiter::new(limits(100, 0, 0)), Instant::now());
        limiter.senders_max = 10;
        limiter.charge(0, 500, 0, at(start, 0));
        for sender in 1..1000 {
            limiter.charge(sender, 100, 0, at(start, 1));
        }
        assert_eq!(limiter.senders.len(), 10);
        assert!(limiter.check(&5000, at(start, 2)).is_err(), "senders without an entry are limited together");
        assert!(limiter.check(&0, at(start, 2)).is_err(), "a known sender keeps its entry");
        // Nine of ten senders have no debt after two seconds.
        assert_eq!(limiter.check(&5000, at(start, 2500)), Ok(()));
        assert!(limiter.check(&0, at(start, 2500)).is_err());
        assert_eq!(limiter.senders.len(), 1);
    }

    #[test]
    fn a_peer_s_connections_count_until_they_end() {
        let (limiter, address) = (ConnectionLimiter::new(NONE), |text: &str| text.parse().expect("an address"));
        let first = limiter.try_acquire(address("192.0.2.7")).expect("the first");
        let _second = limiter.try_acquire(address("::ffff:192.0.2.7")).expect("the second");
        assert!(limiter.try_acquire(address("192.0.2.7")).is_none());
        assert_eq!(limiter.refused(), 1);
        drop(limiter.try_acquire(address("192.0.2.8")).expect("another peer"));
        drop(first);
        let _third = limiter.try_acquire(address("192.0.2.7")).expect("one connection has ended");
        assert_eq!(limiter.peers.lock().expect("no panic").len(), 1, "a peer without connections takes no memory");
    }

    #[test]
    fn a_peer_is_identified_by_its_network() {
        let network = |text: &str| network_of(text.parse().expect("an address")).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    proptest! {
        /// A sender that obeys the limiter sends no more than its rate, its burst and one piece. A sender that waits as long
        /// as the limiter says may send.
        #[test]
        fn a_sender_keeps_its_rate(pieces in prop::collection::vec((1_u64..500, 0_u64..300), 1..60), rate in 1_u32..2000) {
            let (mut limiter, start) = (RateLimiter::new(limits(rate, 0, 0)), Instant::now());
            let (mut millis, mut sent, mut largest) = (0, 0, 0);
            for (records, pause) in pieces {
                millis += pause;
                if let Err(over) = limiter.check(&(), at(start, millis)) {
                    millis += u64::try_from(over.wait.as_millis()).expect("short") + 1;
                    prop_assert_eq!(limiter.check(&(), at(start, millis)), Ok(()));
                }
                limiter.charge((), records, 1, at(start, millis));
                (sent, largest) = (sent + records, largest.max(records));
                let most = f64::from(rate) * (millis as f64 / 1000.0 + BURST.as_secs_f64()) + largest as f64 + 1.0;
                prop_assert!(sent as f64 <= most, "{} in {} ms at {}", sent, millis, rate);
            }
        }

        /// Without limits no sender waits.
        #[test]
        fn without_limits_no_sender_waits(records in any::<u64>(), bytes in any::<u64>()) {
            let (mut limiter, start) = (RateLimiter::new(NONE), Instant::now());
            limiter.charge("a", records, bytes, at(start, 0));
            prop_assert_eq!(limiter.check(&"a", at(start, 0)), Ok(()));
            // With limits the arithmetic does not overflow.
            let mut limiter = RateLimiter::new(limits(1, 1, u64::MAX));
            limiter.charge("a", records, bytes, at(start, 0));
            limiter.charge("a", records, bytes, at(start, 0));
            let _ = limiter.check(&"a", at(start, 0));
        }
    }
}
