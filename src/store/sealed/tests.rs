//! Sealing and reading back.
