//! The journal of systemd.

pub mod cursor;
pub mod export;
pub mod record;
