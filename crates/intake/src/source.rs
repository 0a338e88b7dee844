//! What sources have in common.

/// Where to begin in a file that was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At its first byte.
    #[default]
    Beginning,
    /// At its end as it is then; a file that appears later is read from its first byte.
    End,
}
