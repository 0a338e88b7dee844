//! Errors for damaged bytes of a sealed file.

use crate::StoreError;
use parquet::errors::ParquetError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs the Parquet reader over bytes of `path`. A failure or a panic becomes an error.
pub(crate) fn guard<T>(
    path: &Path,
    place: &str,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(error))) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged(path, place, error.to_string())),
            Ok(error) => Err(StoreError::io(path)(*error)),
            Err(error) => Err(damaged(path, place, error.to_string())),
        },
        Ok(Err(error)) => Err(damaged(path, place, error.to_string())),
        Err(_) => Err(damaged(path, place, "the Parquet reader cannot parse its bytes".into())),
    }
}

/// The error for damaged bytes at `place`.
pub(crate) fn damaged(path: &Path, place: &str, what: String) -> StoreError {
    StoreError::SealedDamaged { path: path.into(), place: place.into(), what }
}
