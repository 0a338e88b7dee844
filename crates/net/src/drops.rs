//! What the kernel dropped of a UDP socket: it says so in `/proc/net/udp`, a line a socket, by the socket's inode.
//!
//! It says how many of a socket, and a socket goes from listener to listener, as one of another name succeeds it. So what it
//! says is given once, to whoever of them asks first.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The datagrams that were dropped of one socket.
#[derive(Debug)]
pub struct Drops {
    /// None where the kernel does not say.
    inode: Option<u64>,
    given: AtomicU64,
}

impl Drops {
    /// All of a socket that is new.
    pub fn all(socket: impl AsFd) -> Arc<Drops> {
        let inode = rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino);
        Arc::new(Drops { inode, given: AtomicU64::new(0) })
    }

    /// Those that come, of a socket that another process had before.
    pub(crate) fn from_now_on(socket: impl AsFd) -> Arc<Drops> {
        let drops = Drops::all(socket);
        drops.take();
        drops
    }

    /// Those that nobody was given yet. Blocks for a moment.
    pub fn take(&self) -> u64 {
        let Some(now) = self.inode.and_then(drops) else { return 0 };
        now.saturating_sub(self.given.fetch_max(now, Ordering::Relaxed))
    }
}

/// The datagrams that were dropped of the socket with this inode.
fn drops(inode: u64) -> Option<u64> {
    ["/proc/net/udp", "/proc/net/udp6"].iter().find_map(|path| find(&std::fs::read_to_string(path).ok()?, inode))
}

fn find(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let found: u64 = words.nth(9)?.parse().ok()?;
        if found == inode { words.last()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inherited::Heirloom;
    use std::net::UdpSocket;

    /// What the kernel says of a socket.
    fn said(drops: &Drops) -> u64 {
        drops.inode.and_then(super::drops).expect("a line of its own")
    }

    /// A socket with room for a few datagrams.
    fn small() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("set");
        socket
    }

    /// Has the kernel drop datagrams of a socket, which nobody reads.
    fn flood(socket: &UdpSocket, drops: &Drops) {
        let (sender, to) = (UdpSocket::bind("127.0.0.1:0").expect("bound"), socket.local_addr().expect("an address"));
        let before = said(drops);
        while said(drops) < before + 100 {
            (0..100).for_each(|_| _ = sender.send_to(&[0; 512], to).expect("sent"));
        }
    }

    /// Takes until all that the kernel says was taken: the last ones may be on their way. Gives how many.
    fn take_all(drops: &Drops, mut taken: u64, take: impl Fn() -> u64) -> u64 {
        for _ in 0..10_000 {
            taken += take();
            let said = said(drops);
            assert!(taken <= said, "{taken} were given, and {said} dropped");
            if taken == said {
                return taken;
            }
        }
        panic!("{taken} were given, and {} dropped", said(drops));
    }

    #[test]
    fn each_drop_is_given_once_however_many_ask() {
        let socket = small();
        let all = Drops::all(&socket);
        let taken = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..200).map(|_| all.take()).sum::<u64>())).collect();
            flood(&socket, &all);
            asking.into_iter().map(|asks| asks.join().expect("no panic")).sum()
        });
        take_all(&all, taken, || all.take());
        // What is read makes room, and is no drop.
        socket.recv(&mut [0; 512]).expect("there is one");
        assert_eq!(all.take(), 0);
    }

    #[test]
    fn who_has_the_socket_next_is_given_what_was_not_given_before() {
        let socket = small();
        let first = Drops::all(&socket);
        flood(&socket, &first);
        let taken = first.take();
        let at = socket.local_addr().expect("an address");
        let heirloom = Heirloom::Udp(at, socket.try_clone().expect("cloned"), first.clone());
        let Some(Heirloom::Udp(_, heir, next)) = heirloom.try_clone() else { panic!("an heirloom of a kind") };
        drop((socket, heirloom));
        flood(&heir, &next);
        let taken = take_all(&next, taken, || first.take() + next.take());
        assert_eq!((first.take(), next.take()), (0, 0));
        // Another process had it before, and was given these.
        let from_now_on = Drops::from_now_on(&heir);
        assert_eq!((from_now_on.given.load(Ordering::Relaxed), from_now_on.take()), (taken, 0));
        flood(&heir, &from_now_on);
        take_all(&from_now_on, taken, || from_now_on.take());
    }

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            12: 0100007F:1587 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 23 2 0000000000000000 7\n\
            13: 0100007F:1588 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 24 2 0000000000000000 0\n";
        assert_eq!((find(table, 23), find(table, 24), find(table, 7)), (Some(7), Some(0), None));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let all = Drops::all(&socket);
        assert_eq!(all.inode.and_then(drops), Some(0));
        assert_eq!((all.take(), Drops::from_now_on(&socket).take()), (0, 0));
    }
}
