//! Ports for servers that have to be told theirs, and have it again when they are started anew.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that is free. The kernel gives none of this range to a listener without a port or to a client, and each call
/// of this process gets another one, so a port stays free until its server has it.
///
/// # Panics
///
/// All of the range are taken.
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    // Test processes that run at the same time begin at different places.
    let begin = std::process::id().wrapping_mul(331);
    let free = (0..COUNT).find_map(|_| {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + begin.wrapping_add(call) % COUNT).ok()?;
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    });
    free.expect("a port")
}
