//! Sockets and their certificates: what listeners of every kind need.
//!
//! * [`inherited`]: sockets that the service manager bound, and sockets that one listener leaves to the next.
//! * [`tls`]: certificates, read again when their files change.
//! * `drops`: datagrams that the kernel dropped. `socket_file`: the file of a unix socket.

pub mod drops;
pub mod inherited;
mod socket_file;
pub mod tls;

pub use drops::Drops;
pub use socket_file::SocketFile;
