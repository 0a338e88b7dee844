//! A row as the source of its line.

use super::LineSource;
use crate::key::RowKey;
use crate::level::Level;
use crate::property::Property;
use crate::time::Ticks;

/// A row whose properties are borrowed.
pub struct RowParts<'p> {
    /// The key, which has the time.
    pub key: RowKey,
    /// The level.
    pub level: Option<Level>,
    /// The properties by name.
    pub properties: Vec<(&'p str, Property<'p>)>,
}

impl<'p> RowParts<'p> {
    /// The value of the property with this name, if the value is a text.
    pub fn text(&self, name: &str) -> Option<&'p str> {
        self.properties.iter().find_map(|(known, value)| match value {
            Property::String(text) if *known == name => Some(*text),
            _ => None,
        })
    }
}

impl LineSource for RowParts<'_> {
    fn time(&self) -> Ticks {
        self.key.time()
    }

    fn level(&self) -> Option<Level> {
        self.level
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
