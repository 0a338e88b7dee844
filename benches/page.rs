//! The cost of a page: bytes per record, column by column, and the time to build and to read a page.
//!
//! The records look like the benchmark corpus: a service's request log with twelve fields, of which about 27 bytes per
//! record are random. A partition is the part of one instance out of 26 in a shared file.
//!
//! `cargo bench --bench page`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::needle::Needle;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_store::page::{EncodedPage, Page, PageBuilder};
use std::hint::black_box;
use std::time::Duration;

const RECORDS: usize = 50_000;
/// Each instance has every 26th record of the file.
const INSTANCES: u64 = 26;
const TICKS_BETWEEN: u64 = 172_790;
const LINE_BYTES: u64 = 280;

/// Sebastiano Vigna's SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }
}

const COMPONENTS: [(&str, &str); 9] = [
    ("http.server", "request handled"),
    ("db.pool", "query finished"),
    ("cache.redis", "cache lookup done"),
    ("auth.session", "session validated"),
    ("queue.consumer", "message consumed"),
    ("billing.invoice", "invoice line written"),
    ("scheduler", "job tick completed"),
    ("http.client", "upstream call returned"),
    ("storage.blob", "blob chunk stored"),
];
const METHODS: [&str; 16] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "POST", "POST", "POST", "POST", "PUT",
    "DELETE",
];
const RESOURCES: [&str; 8] = ["items", "users", "orders", "carts", "invoices", "sessions", "products", "search"];
const RARE_STATUSES: [i64; 6] = [201, 204, 304, 400, 404, 429];

/// Whether to write a property: all properties, or a single one to measure its share.
type Wanted<'a> = &'a dyn Fn(&str) -> bool;

fn batches(records: usize, wanted: Wanted<'_>) -> Vec<Batch> {
    let name = TableName::new("Log").expect("a name");
    let midnight = Ticks::from_date(2026, 11, 20).expect("a date");
    let table = DayTable::at(&name, Period::Day, midnight);
    let mut random = Random(20_261_120);
    let mut batches: Vec<Batch> = Vec::new();
    let (mut line, mut position) = (0, 0);
    for _ in 0..records {
        let skipped = {
            let mut n = 1;
            while !random.next().is_multiple_of(INSTANCES) {
                n += 1;
            }
            n
        };
        line += skipped;
        position += skipped * LINE_BYTES + random.next() % 40;
        let ticks = line * TICKS_BETWEEN + random.next() % TICKS_BETWEEN / 10 * 10;
        let time = midnight.plus(Duration::from_nanos(100 * (ticks / 10 * 10)));
        if batches.last().is_none_or(|batch| !batch.has_room(1, 400)) {
            batches.push(Batch::new(table.clone(), "worker-07".into()));
        }
        if let Some(batch) = batches.last_mut() {
            append(batch, RowKey::new(time, 0x1f3a_9c2e_77b0_d4a6, position), &mut random, wanted);
        }
    }
    batches
}

fn append(batch: &mut Batch, key: RowKey, random: &mut Random, wanted: Wanted<'_>) {
    let level = match random.next() % 1024 {
        0..10 => Level::Error,
        10..51 => Level::Warn,
        51..256 => Level::Debug,
        _ => Level::Info,
    };
    let component = if random.next().is_multiple_of(2) { COMPONENTS[0] } else { random.pick(&COMPONENTS) };
    let path = format!("/api/v1/{}/{}", random.pick(&RESOURCES), random.next() & 0xfff);
    let mut status = if random.next() % 32 < 26 { 200 } else { random.pick(&RARE_STATUSES) };
    let mut took = (random.next() & 127).cast_signed() + 1;
    if random.next().is_multiple_of(16) {
        took *= 23;
    }
    let r = random.next();
    let client = format!("10.{}.{}.{}", r & 7, r >> 3 & 255, r >> 11 & 255);
    let trace = format!("{:016x}{:016x}", random.next(), random.next());
    let (a, b, c) = (r >> 20 & 255, r >> 28 & 255, (r >> 36 & 3) + 1);
    let error = (level == Level::Error).then(|| match r >> 40 & 3 {
        0 => format!("connection reset by peer while reading response header from upstream 10.3.{a}.{b}:8443, attempt {c} of 5, giving up after backoff"),
        1 => format!("deadlock detected while updating row in table orders_2026 shard 10.{a}.{b}, transaction aborted and will be retried (try {c})"),
        2 => format!("timeout of 30000ms exceeded waiting for lock held by session 10.{a}/{b}, queue depth {c}, request rejected with overload status"),
        _ => format!("failed to decode payload: invalid utf-8 sequence of 1 bytes from index {a} near field customer.{b}.address, schema version {c}"),
    });
    let mut message = component.1;
    if error.is_some() {
        status = 500 + (r >> 42 & 3).cast_signed();
        message = "request failed";
    }
    let mut row = batch.begin(key, level.into());
    let mut add = |name: &str, value: Property<'_>| {
        if wanted(name) {
            row.add_field(name, value);
        }
    };
    add("Source_", Property::String("/var/log/app.ndjson"));
    add("Message_", Property::String(message));
    add("component", Property::String(component.0));
    add("method", Property::String(random.pick(&METHODS)));
    add("path", Property::String(&path));
    add("status", Property::Int64(status));
    add("duration_ms", Property::Int64(took));
    add("bytes", Property::Int64((random.next() & 0x7fff).cast_signed()));
    add("client", Property::String(&client));
    add("trace_id", Property::String(&trace));
    if let Some(error) = &error {
        add("error", Property::String(error));
    }
    row.finish();
}

fn build(batches: &[Batch]) -> Vec<EncodedPage> {
    let mut builder = PageBuilder::new();
    batches.iter().for_each(|batch| builder.push_batch(batch));
    builder.build().pages
}

fn bytes(pages: &[EncodedPage]) -> (f64, f64) {
    let body: usize = pages.iter().map(|page| page.body.len()).sum();
    let levels: usize = pages.iter().map(|page| page.header.levels.len()).sum();
    let records: u32 = pages.iter().map(|page| page.header.records).sum();
    (body as f64 / f64::from(records), levels as f64 / f64::from(records))
}

fn sizes() {
    let all = build(&batches(RECORDS, &|_| true));
    let (body, levels) = bytes(&all);
    println!("{RECORDS} records in {} pages: {body:.2} B a record, {levels:.2} B of level counts", all.len());
    let rows = |wanted: Wanted<'_>| bytes(&build(&batches(RECORDS, wanted))).0;
    let keys = rows(&|_| false);
    println!("  {keys:6.2} B keys and levels");
    let names = [
        "Source_",
        "Message_",
        "component",
        "method",
        "path",
        "status",
        "duration_ms",
        "bytes",
        "client",
        "trace_id",
        "error",
    ];
    for name in names {
        println!("  {:6.2} B {name}", rows(&|n| n == name) - keys);
    }
    let one = build(&batches(1, &|_| true));
    println!("a page of one record: {} B and {} B of level counts", one[0].body.len(), one[0].header.levels.len());
}

fn page(c: &mut Criterion) {
    sizes();
    let mut group = c.benchmark_group("page");
    let many = batches(RECORDS, &|_| true);
    let pages = build(&many);
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function("walk the rows of batches", |b| {
        b.iter(|| {
            many.iter()
                .flat_map(Batch::rows)
                .map(|row| row.properties().map(|p| usize::from(p.0)).sum::<usize>())
                .sum::<usize>()
        })
    });
    group.bench_function("build", |b| b.iter(|| build(black_box(&many))));
    let decode =
        || pages.iter().map(|page| Page::decode(&page.header, &page.body).expect("a page")).collect::<Vec<_>>();
    group.bench_function("decode", |b| {
        b.iter(|| pages.iter().map(|page| Page::decode(&page.header, &page.body).expect("a page").len()).sum::<usize>())
    });
    let decoded = decode();
    group.bench_function("all properties of decoded pages", |b| {
        b.iter(|| {
            decoded
                .iter()
                .map(|page| (0..page.len()).map(|row| page.properties(row).count()).sum::<usize>())
                .sum::<usize>()
        })
    });
    let needle = Needle::new("deadlock");
    group.bench_function("contains", |b| {
        let hits = |page: &Page| page.any_value_contains(&needle).count();
        b.iter(|| decoded.iter().map(hits).sum::<usize>())
    });
    group.bench_function("merge pages", |b| {
        b.iter_batched(
            PageBuilder::new,
            |mut builder| {
                decoded.iter().for_each(|page| builder.push_page(page));
                builder.build()
            },
            BatchSize::LargeInput,
        )
    });
    group.finish();

    let mut group = c.benchmark_group("one page, its rows in the cache");
    let some = batches(600, &|_| true);
    group.throughput(Throughput::Elements(600));
    group.bench_function("build", |b| b.iter(|| build(black_box(&some))));
    group.finish();

    let mut group = c.benchmark_group("page of one record");
    let one = batches(1, &|_| true);
    let encoded = build(&one);
    group.bench_function("build", |b| b.iter(|| build(black_box(&one))));
    group.bench_function("decode", |b| b.iter(|| Page::decode(&encoded[0].header, &encoded[0].body)));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = page
}
criterion_main!(benches);
