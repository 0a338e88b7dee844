//! The journal of systemd.

pub mod export;
