//! (to be written)

pub mod page;
