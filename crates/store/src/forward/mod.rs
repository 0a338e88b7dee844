//! Forwarding: the pages of commits are read in the order of the commits ([`reader`]), cross a wire as they are
//! ([`wire`]), and become rows of another folder ([`receive`]), which stores how far it received the commits
//! ([`position`], [`intervals`]) in the commit that has the rows.
//!
//! | | the sender | the receiver |
//! |---|---|---|
//! | knows | each commit, with a checksum of all commits up to it | the last commit that it has of the sender, with its checksum |
//! | sends or stores | pages of commits that follow the position | the rows and the position after them, in one commit |
//! | repeats | whatever was not answered | nothing: a request that begins elsewhere is refused, one that ends where it is was stored |
//!
//! A sender's commits stand in its pages as they were written as long as a receiver lacks them: compaction and sealing leave
//! such pages alone (`Committer::held`). Where the pages are gone nevertheless, because the receiver was put back, or is
//! new, whole pages and days are sent to be *compared*: the receiver leaves out rows that it has already, by key and content.

pub mod inventory;
pub mod reader;
pub mod receive;
pub mod received_page;
pub mod repeated_keys;
pub mod rows;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod wire;

pub use crate::format::forward_intervals as intervals;
pub use crate::format::forward_position as position;
