//! The columns of a sealed day.

use serde::{Deserialize, Serialize};

/// A column of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The column's name in the file.
    pub name: String,
    /// The property that it holds.
    pub property: String,
}
