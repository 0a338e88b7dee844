//! Datagrams that the kernel dropped because the receive buffer of a UDP socket was full.
//!
//! The kernel counts them per socket, in the last column of `/proc/net/udp`, where the inode identifies the socket. A reload
//! can pass a socket on to another listener, so two listeners may read the counter of one socket. [`KernelDrops`] reports
//! each drop once, to the listener that asks first.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The dropped datagrams of one socket.
#[derive(Debug)]
pub struct KernelDrops {
    /// `None` if the socket cannot be identified.
    inode: Option<u64>,
    reported: AtomicU64,
}

impl KernelDrops {
    /// Counts every drop of a new socket.
    pub fn new(socket: impl AsFd) -> Arc<KernelDrops> {
        let inode = rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino);
        Arc::new(KernelDrops { inode, reported: AtomicU64::new(0) })
    }

    /// Counts the drops from now on, of a socket that another process had before.
    pub(crate) fn from_now_on(socket: impl AsFd) -> Arc<KernelDrops> {
        let drops = KernelDrops::new(socket);
        drops.report();
        drops
    }

    /// The number of drops that were not reported yet. Blocks for a moment. Zero if the kernel does not list the socket.
    pub fn report(&self) -> u64 {
        let Some(now) = self.inode.and_then(drops) else { return 0 };
        now.saturating_sub(self.reported.fetch_max(now, Ordering::Relaxed))
    }
}

/// How often the tables are read before a socket counts as not listed. The kernel hands a table out in pieces and finds the
/// next piece by counting lines, so a socket that is closed between two pieces hides the line of another.
const READS: usize = 32;

/// The drops of the socket with this inode since it was opened.
fn drops(inode: u64) -> Option<u64> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    (0..READS).flat_map(|_| tables).find_map(|path| find(&std::fs::read_to_string(path).ok()?, inode))
}

fn find(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let found: u64 = columns.nth(9)?.parse().ok()?;
        if found == inode { columns.last()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inherited::InheritedSocket;
    use std::net::UdpSocket;

    /// The kernel's counter of a socket.
    fn counter(drops: &KernelDrops) -> u64 {
        drops.inode.and_then(super::drops).expect("a line for the socket")
    }

    /// A socket with room for a few datagrams.
    fn small() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("set");
        socket
    }

    /// Sends to a socket without a reader until the kernel drops datagrams.
    fn flood(socket: &UdpSocket, drops: &KernelDrops) {
        let (sender, to) = (UdpSocket::bind("127.0.0.1:0").expect("bound"), socket.local_addr().expect("an address"));
        let before = counter(drops);
        while counter(drops) < before + 100 {
            (0..100).for_each(|_| _ = sender.send_to(&[0; 512], to).expect("sent"));
        }
    }

    /// Asks for reports until they reach the kernel's counter: the last drops may be under way. Returns their sum.
    fn report_all(drops: &KernelDrops, mut reported: u64, report: impl Fn() -> u64) -> u64 {
        for _ in 0..10_000 {
            reported += report();
            let counter = counter(drops);
            assert!(reported <= counter, "{reported} were reported, and {counter} dropped");
            if reported == counter {
                return reported;
            }
        }
        panic!("{reported} were reported, and {} dropped", counter(drops));
    }

    #[test]
    fn each_drop_is_reported_once_to_any_number_of_threads() {
        let socket = small();
        let drops = KernelDrops::new(&socket);
        let reported = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..200).map(|_| drops.report()).sum::<u64>())).collect();
            flood(&socket, &drops);
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        report_all(&drops, reported, || drops.report());
        // A datagram that is read makes room and is not a drop.
        socket.recv(&mut [0; 512]).expect("a datagram");
        assert_eq!(drops.report(), 0);
    }

    #[test]
    fn the_next_listener_reports_what_the_first_did_not() {
        let socket = small();
        let first = KernelDrops::new(&socket);
        flood(&socket, &first);
        let reported = first.report();
        let at = socket.local_addr().expect("an address");
        let left = InheritedSocket::Udp(at, socket.try_clone().expect("cloned"), first.clone());
        let Some(InheritedSocket::Udp(_, heir, next)) = left.try_clone() else { panic!("a socket of another kind") };
        drop((socket, left));
        flood(&heir, &next);
        let reported = report_all(&next, reported, || first.report() + next.report());
        assert_eq!((first.report(), next.report()), (0, 0));
        // As if another process had reported them before.
        let from_now_on = KernelDrops::from_now_on(&heir);
        assert_eq!((from_now_on.reported.load(Ordering::Relaxed), from_now_on.report()), (reported, 0));
        flood(&heir, &from_now_on);
        report_all(&from_now_on, reported, || from_now_on.report());
    }

    #[test]
    fn a_socket_is_found_while_others_are_closed() {
        // Its line is often in another piece of the table than those of the others.
        let others = |_| (0..40).map(|_| UdpSocket::bind("127.0.0.1:0").expect("bound")).collect::<Vec<_>>();
        let socket = small();
        let drops = KernelDrops::new(&socket);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::black_box(others(()));
                }
            });
            let lost = (0..2000).filter(|_| drops.inode.and_then(super::drops).is_none()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            12: 0100007F:1587 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 23 2 0000000000000000 7\n\
            13: 0100007F:1588 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 24 2 0000000000000000 0\n";
        assert_eq!((find(table, 23), find(table, 24), find(table, 7)), (Some(7), Some(0), None));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let drops = KernelDrops::new(&socket);
        assert_eq!(drops.inode.and_then(super::drops), Some(0));
        assert_eq!((drops.report(), KernelDrops::from_now_on(&socket).report()), (0, 0));
    }
}
