//! A sealed day: the manifest of its file, and where the bytes of the file come from.

mod bytes;
mod layout;
mod manifest;

pub use bytes::{LocalFile, Ranged};
pub use layout::Column;
pub use manifest::{Manifest, ManifestError};

/// The format of a file and its manifest, and the newest that this program reads.
pub const FORMAT: u32 = 1;
/// The name's end of a sealed file.
pub const EXTENSION: &str = ".parquet";
