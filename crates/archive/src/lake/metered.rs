//! Counts the requests to a store, and the bytes that come back.

use futures_core::Stream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of the store of a lake, and of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LakeTraffic {
    /// Requests to the store; of a folder, readings of parts of files that were not read before.
    pub requests: u64,
    /// Bytes that these requests brought. Lists are not counted.
    pub bytes: u64,
    /// Bytes that were read from the cache on disk instead.
    pub cached_bytes: u64,
}

impl Sub for LakeTraffic {
    type Output = LakeTraffic;

    fn sub(self, before: LakeTraffic) -> LakeTraffic {
        LakeTraffic {
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            cached_bytes: self.cached_bytes.saturating_sub(before.cached_bytes),
        }
    }
}

impl Add for LakeTraffic {
    type Output = LakeTraffic;

    fn add(self, other: LakeTraffic) -> LakeTraffic {
        LakeTraffic {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            cached_bytes: self.cached_bytes + other.cached_bytes,
        }
    }
}

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct TrafficMeter {
    requests: AtomicU64,
    bytes: AtomicU64,
    cached_bytes: AtomicU64,
}

impl TrafficMeter {
    pub(super) fn traffic(&self) -> LakeTraffic {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        LakeTraffic { requests: read(&self.requests), bytes: read(&self.bytes), cached_bytes: read(&self.cached_bytes) }
    }

    pub(super) fn add_request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_cached(&self, bytes: u64) {
        self.cached_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The same store, whose requests are counted.
    pub(super) fn through(self: Arc<TrafficMeter>, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(MeteredStore { store, meter: self })
    }
}

#[derive(Debug)]
struct MeteredStore {
    store: Arc<dyn ObjectStore>,
    meter: Arc<TrafficMeter>,
}

impl fmt::Display for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Listed<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'static>>;

impl ObjectStore for MeteredStore {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.meter.add_request(0);
        self.store.put_opts(location, payload, options)
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        options: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.meter.add_request(0);
        self.store.put_multipart_opts(location, options)
    }

    fn get_opts<'a, 'b, 'c>(&'a self, location: &'b Path, options: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let found = self.store.get_opts(location, options).await;
            let bytes = found.as_ref().map_or(0, |found| found.range.end.saturating_sub(found.range.start));
            self.meter.add_request(bytes);
            found
        })
    }

    fn delete_stream(&self, locations: Listed<Path>) -> Listed<Path> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> Listed<ObjectMeta> {
        self.meter.add_request(0);
        self.store.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> Listed<ObjectMeta> {
        self.meter.add_request(0);
        self.store.list_with_offset(prefix, offset)
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.meter.add_request(0);
        self.store.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(&'a self, from: &'b Path, to: &'d Path, options: CopyOptions) -> Answer<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.meter.add_request(0);
        self.store.copy_opts(from, to, options)
    }
}
