//! What one sender may send, so that a noisy one does not starve the rest.
//!
//! Rates are kept by when what was sent is *paid for*: a record moves that time on by `1 / records_per_s`, and whoever is
//! paid for beyond now is over his rate until then. A sender may be ahead by [`BURST`]; one that was quiet gains no more
//! than that. What is charged is what came, so one large request is taken and waited for, never refused for its size.
//! A quota is what was sent since midnight UTC; it is kept in memory and begins anew with the process.
//!
//! What comes of being over is the caller's: a stream is not read from, a push is answered 429, a datagram is dropped.
//!
//! Memory is bounded whatever addresses are made up: beyond [`SENDERS_MAX`] senders that owe something the next ones share
//! one account, so that they are held to one sender's limits together and the known ones keep theirs.

use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far ahead of its rate a sender may be.
pub const BURST: Duration = Duration::from_secs(1);
/// Senders with an account of their own at most. One takes some 100 bytes.
pub const SENDERS_MAX: usize = 16_384;
/// How often it is looked for accounts that owe nothing, when there are too many.
const SWEEP: Duration = Duration::from_secs(1);
/// How far ahead anything is paid for at most: what is charged beyond is forgotten.
const AHEAD_MAX: Duration = Duration::from_secs(86_400);
const TICKS_PER_DAY: i64 = 864_000_000_000;

/// What one sender may send; none of a kind is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Records a second.
    pub records_per_s: Option<NonZeroU32>,
    /// Bytes a second.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Bytes a day, which begins at midnight UTC.
    pub bytes_per_day: Option<NonZeroU64>,
    /// Connections at one time.
    pub connections: Option<NonZeroU32>,
}

impl Allowance {
    /// Whether a sender may send as much as it likes.
    fn is_unlimited(&self) -> bool {
        self.records_per_s.is_none() && self.bytes_per_s.is_none() && self.bytes_per_day.is_none()
    }
}

/// Why a sender has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// He sent more than his rate.
    Rate,
    /// He sent his day's bytes.
    Quota,
}

impl Reason {
    /// Both, in the order of [`Reason::number`].
    pub const ALL: [Reason; 2] = [Reason::Rate, Reason::Quota];

    /// What metrics call it.
    pub fn label(self) -> &'static str {
        match self {
            Reason::Rate => "rate_limited",
            Reason::Quota => "quota",
        }
    }

    /// Its place in [`Reason::ALL`].
    pub fn number(self) -> usize {
        usize::from(self == Reason::Quota)
    }
}

/// A sender has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// Why.
    pub reason: Reason,
    /// How long.
    pub wait: Duration,
}

/// Both clocks at one moment: rates go by the one that never jumps, days by the other.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What rates go by.
    pub instant: Instant,
    /// What days go by.
    pub ticks: Ticks,
}

impl Now {
    /// This moment.
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

/// What one sender has sent.
#[derive(Clone, Copy, Debug)]
struct Account {
    records_paid: Instant,
    bytes_paid: Instant,
    day: i64,
    bytes_today: u64,
}

impl Account {
    fn new(now: Now) -> Account {
        Account { records_paid: now.instant, bytes_paid: now.instant, day: now.day(), bytes_today: 0 }
    }

    fn over(&self, limits: &Allowance, now: Now) -> Result<(), Over> {
        if limits.bytes_per_day.is_some_and(|most| self.day == now.day() && self.bytes_today >= most.get()) {
            return Err(Over { reason: Reason::Quota, wait: now.until_tomorrow() });
        }
        // Ahead by the burst is within the rate.
        let ahead = self.records_paid.max(self.bytes_paid).saturating_duration_since(now.instant);
        match ahead.checked_sub(BURST) {
            Some(wait) if !wait.is_zero() => Err(Over { reason: Reason::Rate, wait }),
            _ => Ok(()),
        }
    }

    fn charge(&mut self, limits: &Allowance, records: u64, bytes: u64, now: Now) {
        if let Some(rate) = limits.records_per_s {
            self.records_paid = pay(self.records_paid, records, rate.get().into(), now.instant);
        }
        if let Some(rate) = limits.bytes_per_s {
            self.bytes_paid = pay(self.bytes_paid, bytes, rate.get(), now.instant);
        }
        if self.day != now.day() {
            (self.day, self.bytes_today) = (now.day(), 0);
        }
        self.bytes_today = self.bytes_today.saturating_add(bytes);
    }

    /// Whether it is as a new one would be.
    fn owes_nothing(&self, limits: &Allowance, now: Now) -> bool {
        let has_sent_today = limits.bytes_per_day.is_some() && self.day == now.day() && self.bytes_today > 0;
        !has_sent_today && self.records_paid.max(self.bytes_paid) <= now.instant
    }
}

/// When what was paid for until `paid` is paid for with so many more at `rate` a second.
fn pay(paid: Instant, count: u64, rate: u64, now: Instant) -> Instant {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1));
    let more = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(AHEAD_MAX);
    (paid.max(now) + more).min(now + AHEAD_MAX)
}

/// The accounts of senders, by whatever tells one from another.
pub struct Accounts<K> {
    limits: Allowance,
    accounts: HashMap<K, Account, foldhash::quality::RandomState>,
    /// What those have sent that have no account of their own.
    others: Option<Account>,
    swept: Option<Instant>,
    senders_max: usize,
}

impl<K: Hash + Eq> Accounts<K> {
    /// None yet, held to `limits` each.
    pub fn new(limits: Allowance) -> Accounts<K> {
        Accounts { limits, accounts: HashMap::default(), others: None, swept: None, senders_max: SENDERS_MAX }
    }

    /// Whether `sender` may send now.
    ///
    /// # Errors
    ///
    /// How long he has to wait, and why.
    pub fn admit(&mut self, sender: &K, now: Now) -> Result<(), Over> {
        if self.limits.is_unlimited() {
            return Ok(());
        }
        if let Some(account) = self.accounts.get(sender) {
            return account.over(&self.limits, now);
        }
        let others = self.others.filter(|_| !self.has_room(now));
        others.map_or(Ok(()), |others| others.over(&self.limits, now))
    }

    /// Notes what `sender` has sent.
    pub fn charge(&mut self, sender: K, records: u64, bytes: u64, now: Now) {
        if self.limits.is_unlimited() {
            return;
        }
        let has_room = self.accounts.contains_key(&sender) || self.has_room(now);
        let account = match has_room {
            true => self.accounts.entry(sender).or_insert_with(|| Account::new(now)),
            false => self.others.get_or_insert_with(|| Account::new(now)),
        };
        account.charge(&self.limits, records, bytes, now);
    }

    /// Whether there is room for one more account; accounts that owe nothing make room.
    fn has_room(&mut self, now: Now) -> bool {
        if self.accounts.len() < self.senders_max {
            return true;
        }
        if self.swept.is_none_or(|swept| now.instant.saturating_duration_since(swept) >= SWEEP) {
            self.swept = Some(now.instant);
            let limits = self.limits;
            self.accounts.retain(|_, account| !account.owes_nothing(&limits, now));
        }
        self.accounts.len() < self.senders_max
    }
}

/// How many connections each peer has. Cheap to clone; there are as many peers in it as have one at least.
#[derive(Clone, Debug)]
pub struct Present {
    most: Option<NonZeroU32>,
    peers: Arc<Mutex<HashMap<IpAddr, u32, foldhash::quality::RandomState>>>,
    refused: Arc<AtomicU64>,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub struct Counted {
    present: Present,
    peer: IpAddr,
}

impl Present {
    /// Nobody yet, each of whom may have what the allowance says.
    pub fn new(allowance: Allowance) -> Present {
        Present { most: allowance.connections, peers: Arc::default(), refused: Arc::default() }
    }

    /// The same where each may have what another allowance says: who is counted stays counted.
    pub fn changed(&self, allowance: Allowance) -> Present {
        Present { most: allowance.connections, ..self.clone() }
    }

    /// Counts a connection of this peer; none where it has as many as it may.
    pub fn enter(&self, peer: IpAddr) -> Option<Counted> {
        let peer = network_of(peer);
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.get(&peer).copied().unwrap_or(0);
        if self.most.is_some_and(|most| count >= most.get()) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        peers.insert(peer, count + 1);
        Some(Counted { present: self.clone(), peer })
    }

    /// How often a peer had as many as it may.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut peers = self.present.peers.lock().unwrap_or_else(PoisonError::into_inner);
        match peers.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(peers.remove(&self.peer)),
        }
    }
}

/// What stands for a peer: its address, or the network that an IPv6 host can draw addresses from as it likes.
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

    const NONE: Allowance =
        Allowance { records_per_s: None, bytes_per_s: None, bytes_per_day: None, connections: NonZeroU32::new(2) };

    fn limits(records: u32, bytes: u64, quota: u64) -> Allowance {
        Allowance {
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
    fn a_rate_holds_one_sender_and_not_the_other() {
        let (mut accounts, start) = (Accounts::new(limits(100, 0, 0)), Instant::now());
        accounts.charge("noisy", 300, 0, at(start, 0));
        let over = accounts.admit(&"noisy", at(start, 0)).expect_err("three seconds of records");
        assert_eq!(over, Over { reason: Reason::Rate, wait: Duration::from_secs(2) });
        assert_eq!(accounts.admit(&"quiet", at(start, 0)), Ok(()));
        assert!(accounts.admit(&"noisy", at(start, 1999)).is_err());
        assert_eq!(accounts.admit(&"noisy", at(start, 2000)), Ok(()));
    }

    #[test]
    fn a_quota_holds_until_midnight() {
        let (mut accounts, start) = (Accounts::new(limits(0, 0, 1000)), Instant::now());
        accounts.charge("a", 1, 999, at(start, 0));
        assert_eq!(accounts.admit(&"a", at(start, 1)), Ok(()));
        accounts.charge("a", 1, 999, at(start, 1));
        let over = accounts.admit(&"a", at(start, 80_000_000)).expect_err("the day's bytes");
        assert_eq!(over, Over { reason: Reason::Quota, wait: Duration::from_secs(6400) });
        assert_eq!(accounts.admit(&"a", at(start, 86_400_000)), Ok(()));
        accounts.charge("a", 1, 1, at(start, 86_400_000));
        assert_eq!(accounts.admit(&"a", at(start, 86_400_001)), Ok(()));
    }

    #[test]
    fn made_up_senders_share_an_account_and_make_no_room_for_themselves() {
        let (mut accounts, start) = (Accounts::new(limits(100, 0, 0)), Instant::now());
        accounts.senders_max = 10;
        accounts.charge(0, 500, 0, at(start, 0));
        for sender in 1..1000 {
            accounts.charge(sender, 100, 0, at(start, 1));
        }
        assert_eq!(accounts.accounts.len(), 10);
        assert!(accounts.admit(&5000, at(start, 2)).is_err(), "those without an account are over together");
        assert!(accounts.admit(&0, at(start, 2)).is_err(), "who is known stays known");
        // Nine of ten owe nothing after two seconds.
        assert_eq!(accounts.admit(&5000, at(start, 2500)), Ok(()));
        assert!(accounts.admit(&0, at(start, 2500)).is_err());
        assert_eq!(accounts.accounts.len(), 1);
    }

    #[test]
    fn connections_are_counted_by_peer_and_until_they_end() {
        let (present, address) = (Present::new(NONE), |text: &str| text.parse().expect("an address"));
        let first = present.enter(address("192.0.2.7")).expect("the first");
        let _second = present.enter(address("::ffff:192.0.2.7")).expect("the second");
        assert!(present.enter(address("192.0.2.7")).is_none());
        assert_eq!(present.refused(), 1);
        drop(present.enter(address("192.0.2.8")).expect("another peer"));
        drop(first);
        let _third = present.enter(address("192.0.2.7")).expect("one has ended");
        assert_eq!(present.peers.lock().expect("no panic").len(), 1, "who has none is forgotten");
    }

    #[test]
    fn an_address_stands_for_its_network() {
        let network = |text: &str| network_of(text.parse().expect("an address")).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    proptest! {
        /// Whoever sends only when he is admitted sends no more than his rate, his burst and what one piece is over; and
        /// whoever waits as long as he is told is admitted.
        #[test]
        fn a_rate_is_kept(pieces in prop::collection::vec((1_u64..500, 0_u64..300), 1..60), rate in 1_u32..2000) {
            let (mut accounts, start) = (Accounts::new(limits(rate, 0, 0)), Instant::now());
            let (mut millis, mut sent, mut largest) = (0, 0, 0);
            for (records, pause) in pieces {
                millis += pause;
                if let Err(over) = accounts.admit(&(), at(start, millis)) {
                    millis += u64::try_from(over.wait.as_millis()).expect("short") + 1;
                    prop_assert_eq!(accounts.admit(&(), at(start, millis)), Ok(()));
                }
                accounts.charge((), records, 1, at(start, millis));
                (sent, largest) = (sent + records, largest.max(records));
                let most = f64::from(rate) * (millis as f64 / 1000.0 + BURST.as_secs_f64()) + largest as f64 + 1.0;
                prop_assert!(sent as f64 <= most, "{} in {} ms at {}", sent, millis, rate);
            }
        }

        /// Without limits nobody waits, whatever he sends.
        #[test]
        fn without_limits_nobody_waits(records in any::<u64>(), bytes in any::<u64>()) {
            let (mut accounts, start) = (Accounts::new(NONE), Instant::now());
            accounts.charge("a", records, bytes, at(start, 0));
            prop_assert_eq!(accounts.admit(&"a", at(start, 0)), Ok(()));
            // And with them nothing overflows.
            let mut accounts = Accounts::new(limits(1, 1, u64::MAX));
            accounts.charge("a", records, bytes, at(start, 0));
            accounts.charge("a", records, bytes, at(start, 0));
            let _ = accounts.admit(&"a", at(start, 0));
        }
    }
}
