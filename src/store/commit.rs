//! (to be written)
pub struct Committer;
