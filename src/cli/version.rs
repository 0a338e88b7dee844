//! What `daytable --version` says: the release, the commit it was built from, the features and the target.

/// The release, and below it what the build noted (see `build.rs`).
pub(super) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("BUILT_COMMIT"),
    "\nfeatures: ",
    env!("BUILT_FEATURES"),
    "\ntarget: ",
    env!("BUILT_TARGET"),
);
