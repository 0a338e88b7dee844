//! What `daytable --version` says: the release, the commit it was built from, the features and the target.

/// The release, and below it what the build noted (see `build.rs`).
pub(super) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("DAYTABLE_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("DAYTABLE_BUILD_FEATURES"),
    "\ntarget: ",
    env!("DAYTABLE_BUILD_TARGET"),
);
