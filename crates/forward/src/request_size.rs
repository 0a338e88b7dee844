//! How large requests are: smaller after a receiver refused one for its size, and larger again while it accepts them.
//!
//! A receiver refuses a request that needs more memory than pushes may have *at that moment*, or by its configuration. So after
//! a run of accepted requests a larger one is tried. Each refusal doubles the length of that run, so a receiver with little memory
//! refuses few.

use daytable_store::forward::reader::RequestLimits;

/// How much a request has. Rows take several times the memory of their pages at the receiver, and the sender holds the request.
const REQUEST: RequestLimits = RequestLimits { bytes: 1 << 20, raw_bytes: 4 << 20, pages: 1024 };
/// Accepted requests after which a larger one is tried: at first, and at most.
const ACCEPTED_MIN: u32 = 16;
const ACCEPTED_MAX: u32 = 1 << 12;

/// The size of the next request.
#[derive(Debug)]
pub(crate) struct RequestSize {
    limits: RequestLimits,
    /// Requests of this size that were accepted one after the other.
    accepted: u32,
    /// This many before the next one is larger.
    wanted: u32,
    /// Whether the size was raised last, and not lowered.
    has_grown: bool,
}

impl Default for RequestSize {
    fn default() -> RequestSize {
        RequestSize { limits: REQUEST, accepted: 0, wanted: ACCEPTED_MIN, has_grown: false }
    }
}

impl RequestSize {
    pub(crate) fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// A request was accepted.
    pub(crate) fn accepted(&mut self) {
        if self.limits == REQUEST {
            return;
        }
        self.accepted += 1;
        if self.accepted >= self.wanted {
            (self.limits, self.accepted, self.has_grown) = (self.limits.twice(REQUEST), 0, true);
        }
    }

    /// A request was refused for its size. `false` if there is no smaller one.
    pub(crate) fn refused(&mut self) -> bool {
        let Some(half) = self.limits.half() else { return false };
        // The refusals at the beginning look for the size. The others are of attempts.
        if self.has_grown {
            self.wanted = self.wanted.saturating_mul(2).min(ACCEPTED_MAX);
        }
        (self.limits, self.accepted, self.has_grown) = (half, 0, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_grow_again_after_a_receiver_had_no_room() {
        let mut size = RequestSize::default();
        assert!(size.refused());
        assert_ne!(size.limits(), REQUEST);
        (0..ACCEPTED_MIN).for_each(|_| size.accepted());
        assert_eq!(size.limits(), REQUEST);
    }

    #[test]
    fn a_receiver_with_little_memory_refuses_seldom() {
        let (mut size, mut refused, mut smallest) = (RequestSize::default(), 0, REQUEST.pages);
        for _ in 0..100_000 {
            if size.limits().pages > REQUEST.pages / 8 {
                refused += 1;
                assert!(size.refused());
            } else {
                size.accepted();
            }
            smallest = smallest.min(size.limits().pages);
        }
        assert!(refused < 60, "{refused}");
        assert_eq!(smallest, REQUEST.pages / 8, "no smaller than it has to be");
    }

    #[test]
    fn a_request_of_one_page_is_the_smallest() {
        let mut size = RequestSize::default();
        let halves = std::iter::from_fn(|| size.refused().then_some(())).count();
        assert_eq!(halves, 10);
        assert_eq!(size.limits().pages, 1);
    }
}
