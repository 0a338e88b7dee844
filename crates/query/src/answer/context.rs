//! The records before and after one, in the order of its source.
