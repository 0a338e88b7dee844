//! What the kernel dropped of a UDP socket: it says so in `/proc/net/udp`, a line a socket, by the socket's inode.

use std::os::fd::AsFd;

/// The inode of a socket; none where the kernel does not say.
pub(super) fn inode(socket: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino)
}

/// The datagrams that were dropped of the socket with this inode. Blocks for a moment.
pub(super) fn drops(inode: u64) -> Option<u64> {
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

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            12: 0100007F:1587 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 23 2 0000000000000000 7\n\
            13: 0100007F:1588 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 24 2 0000000000000000 0\n";
        assert_eq!((find(table, 23), find(table, 24), find(table, 7)), (Some(7), Some(0), None));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        assert_eq!(drops(inode(&socket).expect("an inode")), Some(0));
    }
}
