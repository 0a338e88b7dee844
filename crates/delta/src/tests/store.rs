//! A store that fails as stores do: answers are lost, late, double or wrong, and its writer is killed between two steps.

use super::*;
use futures_core::Stream;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As it should be.
    Done,
    /// It is written, and the answer says that it failed.
    AnswerLost,
    /// It is not written, and the answer says that it failed.
    RequestLost,
    /// The answer says that it failed, and it is written some time later.
    Late,
    /// The client asks twice by itself: the first request wrote, the second is answered.
    Twice,
    /// The answer says that it was written, and it was not.
    Lie,
    /// It is written, and the next read fails.
    Unreadable,
    /// The condition is ignored: what was there is overwritten.
    Unconditional,
}

/// Decides what becomes of the write with this number.
type Plan = Box<dyn FnMut(usize) -> Fate + Send>;

pub(super) struct TroubledStore {
    inner: Arc<dyn ObjectStore>,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    writes: usize,
    reads_failing: usize,
    /// Requests until the writer is killed: whether the last one still reaches the store, and how many are left.
    life: Option<(usize, bool)>,
}

impl TroubledStore {
    pub(super) fn with_plan(
        inner: &Arc<dyn ObjectStore>,
        plan: impl FnMut(usize) -> Fate + Send + 'static,
    ) -> Arc<dyn ObjectStore> {
        let state = State { plan: Box::new(plan), writes: 0, reads_failing: 0, life: None };
        Arc::new(TroubledStore { inner: Arc::clone(inner), state: Mutex::new(state) })
    }

    /// A store whose caller is killed at its request `requests`: before the store has the request, or after.
    pub(super) fn killed_at(inner: &Arc<dyn ObjectStore>, requests: usize, is_sent: bool) -> Arc<dyn ObjectStore> {
        let life = Some((requests, is_sent));
        let state = State { plan: Box::new(|_| Fate::Done), writes: 0, reads_failing: 0, life };
        Arc::new(TroubledStore { inner: Arc::clone(inner), state: Mutex::new(state) })
    }

    /// Counts a request. `None` if its caller is dead, and else whether this request is the last.
    fn request(&self) -> Option<Last> {
        let mut state = self.state.lock().expect("the state");
        let Some((left, is_sent)) = &mut state.life else { return Some(Last::No) };
        let is_sent = *is_sent;
        match left {
            0 => None,
            1 => {
                *left = 0;
                is_sent.then_some(Last::Yes)
            }
            _ => {
                *left -= 1;
                Some(Last::No)
            }
        }
    }
}

enum Last {
    Yes,
    No,
}

fn failed(what: &'static str) -> Error {
    Error::Generic { store: "trouble", source: what.into() }
}

/// A killed caller never sees the answer.
async fn dead<T>() -> T {
    std::future::pending().await
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl ObjectStore for TroubledStore {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let Some(last) = self.request() else { return dead().await };
            let fate = {
                let mut state = self.state.lock().expect("the state");
                let number = state.writes;
                state.writes += 1;
                let fate = (state.plan)(number);
                state.reads_failing = usize::from(fate == Fate::Unreadable);
                fate
            };
            if opts.mode != PutMode::Create {
                return self.inner.put_opts(location, payload, opts).await;
            }
            let answer = match fate {
                Fate::Done | Fate::Unreadable => self.inner.put_opts(location, payload, opts).await,
                Fate::AnswerLost => {
                    let _ = self.inner.put_opts(location, payload, opts).await;
                    Err(failed("the answer is lost"))
                }
                Fate::RequestLost => Err(failed("the request is lost")),
                Fate::Lie => Ok(PutResult { e_tag: None, version: None, extensions: Default::default() }),
                Fate::Twice => {
                    let _ = self.inner.put_opts(location, payload.clone(), opts.clone()).await;
                    self.inner.put_opts(location, payload, opts).await
                }
                Fate::Unconditional => self.inner.put_opts(location, payload, PutMode::Overwrite.into()).await,
                Fate::Late => {
                    let (inner, location) = (Arc::clone(&self.inner), location.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(7)).await;
                        let _ = inner.put_opts(&location, payload, opts).await;
                    });
                    Err(failed("no answer in time"))
                }
            };
            match last {
                Last::Yes => dead().await,
                Last::No => answer,
            }
        })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        opts: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.put_multipart_opts(location, opts)
    }

    fn get_opts<'a, 'b, 'c>(&'a self, location: &'b Path, options: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let Some(Last::No) = self.request() else { return dead().await };
            {
                let mut state = self.state.lock().expect("the state");
                if state.reads_failing > 0 {
                    state.reads_failing -= 1;
                    return Err(failed("no answer to a read"));
                }
            }
            self.inner.get_opts(location, options).await
        })
    }

    fn delete_stream(
        &self,
        locations: Pin<Box<dyn Stream<Item = Result<Path>> + Send + 'static>>,
    ) -> Pin<Box<dyn Stream<Item = Result<Path>> + Send + 'static>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> Pin<Box<dyn Stream<Item = Result<ObjectMeta>> + Send + 'static>> {
        self.inner.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(&'a self, from: &'b Path, to: &'d Path, options: CopyOptions) -> Answer<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.inner.copy_opts(from, to, options)
    }
}

impl fmt::Display for TroubledStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "troubled {}", self.inner)
    }
}

impl fmt::Debug for TroubledStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
