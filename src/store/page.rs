//! (to be written)
/// A decoded page.
pub struct Page {}
