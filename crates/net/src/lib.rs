//! What listeners of every protocol need, sockets and certificates; and the client of those who ask other hosts.
//!
//! * [`http_client`]: the HTTP client of every part that asks another host.
//! * [`inherited`]: sockets that the service manager bound, and sockets that one listener leaves to the next.
//! * [`tls`]: certificates, which are read again after their files change.
//! * [`KernelDrops`]: datagrams that the kernel dropped. [`SocketFile`]: the file of a unix socket.

pub mod http_client;
pub mod inherited;
mod kernel_drops;
mod socket_file;
pub mod tls;

pub use kernel_drops::KernelDrops;
pub use socket_file::SocketFile;
