//! The layouts of lines of earlier requests. A request is a source of its own, and often has too few lines to find their
//! layout anew: without this, a tenth of the CPU of requests of a hundred lines went into that.

use daytable_parse::SourceProfile;
use daytable_platform::lock;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// Profiles that are kept: as many as bodies are parsed at once, at most.
const KEPT_MAX: usize = 8;

/// Layouts for the next requests. They depend on the settings for lines, so each [`PushSettings`](super::PushSettings) has
/// its own.
#[derive(Default)]
pub(super) struct KnownLayouts {
    kept: Mutex<Vec<SourceProfile>>,
}

/// The profile of a request. When it is dropped, its layouts are kept, and nothing else.
pub(super) struct RequestProfile<'p> {
    profile: SourceProfile,
    known: &'p KnownLayouts,
}

impl KnownLayouts {
    /// A profile for a new request.
    pub(super) fn profile(&self) -> RequestProfile<'_> {
        RequestProfile { profile: lock(&self.kept).pop().unwrap_or_default(), known: self }
    }
}

impl Deref for RequestProfile<'_> {
    type Target = SourceProfile;

    fn deref(&self) -> &SourceProfile {
        &self.profile
    }
}

impl DerefMut for RequestProfile<'_> {
    fn deref_mut(&mut self) -> &mut SourceProfile {
        &mut self.profile
    }
}

impl Drop for RequestProfile<'_> {
    fn drop(&mut self) {
        let layouts = SourceProfile::with_layouts_of(std::mem::take(&mut self.profile));
        let mut kept = lock(&self.known.kept);
        if kept.len() < KEPT_MAX {
            kept.push(layouts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::time::Ticks;
    use daytable_parse::{Envelope, Format, ParseOptions};

    #[test]
    fn a_request_knows_nothing_of_the_ones_before_it() {
        let known = KnownLayouts::default();
        let options = ParseOptions::default();
        let mut profile = known.profile();
        for n in 0..20 {
            profile.record(&format!("a=1 b={n} level=info"), Envelope::default(), &options, Ticks::UNIX_EPOCH);
        }
        assert_eq!(profile.format(), Some(Format::Logfmt));
        drop(profile);
        assert_eq!(*known.profile(), SourceProfile::default());
        // Requests that are parsed at once leave no more profiles than are kept.
        drop((0..2 * KEPT_MAX).map(|_| known.profile()).collect::<Vec<_>>());
        assert_eq!(lock(&known.kept).len(), KEPT_MAX);
    }
}
