//! The cost of parsing a line, by format. The lines look like the corpus of the end-to-end benchmark.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use daytable_model::time::now;
use daytable_parse::{Format, FormatChoice, ParseOptions, SourceProfile, parse};
use std::fmt::Write;
use std::hint::black_box;

const LINES: u64 = 1000;

/// Marsaglia's xorshift64: the same lines in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }
}

/// Writes a record in one of the formats.
type Writer = fn(&Sample) -> String;

/// One record. The formats differ only in its encoding.
struct Sample {
    time: String,
    level: &'static str,
    message: &'static str,
    /// Name, value, and whether the value is a text.
    fields: Vec<(&'static str, String, bool)>,
}

impl Sample {
    fn new(random: &mut Random) -> Self {
        let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
        let level = random.pick(&["INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"]);
        let path = random.pick(&["orders", "carts", "users", "sessions", "invoices"]);
        let mut fields = vec![
            ("method", random.pick(&["GET", "GET", "GET", "POST", "PUT", "DELETE"]).to_owned(), true),
            ("path", format!("/api/v1/{path}/{}", random.below(4096)), true),
            ("status", random.pick(&["200", "200", "200", "404", "502"]).to_owned(), false),
            ("duration_ms", random.below(500).to_string(), false),
            ("bytes", random.below(32768).to_string(), false),
            ("client", format!("10.{}.{}.{}", random.below(8), random.below(256), random.below(256)), true),
            ("trace_id", format!("{:016x}{:016x}", random.next(), random.next()), true),
        ];
        if level == "ERROR" {
            let error = "connection reset by peer while reading response header from upstream, giving up after backoff";
            fields.push(("error", error.to_owned(), true));
        }
        Sample {
            time: format!("2026-11-20T{hour:02}:{minute:02}:{second:02}.{:06}Z", random.below(1_000_000)),
            level,
            message: random.pick(&[
                "http.server request handled",
                "db.pool query finished",
                "storage.blob chunk stored",
            ]),
            fields,
        }
    }

    fn json(&self) -> String {
        let mut line = format!(r#"{{"time":"{}","level":"{}","message":"{}""#, self.time, self.level, self.message);
        for (name, value, is_text) in &self.fields {
            let quote = if *is_text { "\"" } else { "" };
            write!(line, ",\"{name}\":{quote}{value}{quote}").expect("writing to a string cannot fail");
        }
        line + "}"
    }

    fn pairs(&self) -> String {
        let quoted = |value: &String| if value.contains(' ') { format!("\"{value}\"") } else { value.clone() };
        let pairs: Vec<_> = self.fields.iter().map(|(name, value, _)| format!("{name}={}", quoted(value))).collect();
        pairs.join(" ")
    }

    fn logfmt(&self) -> String {
        format!("time={} level={} msg=\"{}\" {}", self.time, self.level, self.message, self.pairs())
    }

    fn text(&self) -> String {
        format!("{} {} {} {}", self.time, self.level, self.message, self.pairs())
    }

    fn plain(&self) -> String {
        format!("{} without a time, {}", self.message, self.pairs())
    }
}

fn lines(criterion: &mut Criterion) {
    let mut random = Random(20_261_121);
    let samples: Vec<_> = (0..LINES).map(|_| Sample::new(&mut random)).collect();
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(LINES));
    let writers: [(Format, Writer); 4] = [
        (Format::Json, Sample::json),
        (Format::Logfmt, Sample::logfmt),
        (Format::Text, Sample::text),
        (Format::Plain, Sample::plain),
    ];
    for (format, write) in writers {
        let lines: Vec<_> = samples.iter().map(write).collect();
        assert!(
            lines.iter().all(|line| parse(line, FormatChoice::Auto).format == format),
            "no {} line",
            format.label()
        );
        group.bench_function(format.label(), |bencher| {
            bencher.iter(|| {
                for line in &lines {
                    black_box(parse(black_box(line), FormatChoice::Auto));
                }
            });
        });
    }
    group.finish();
}

/// Lines of real programs: the samples of the golden tests.
fn samples(criterion: &mut Criterion) {
    let files = [
        ("bunyan", Format::Json, include_str!("../tests/golden/json/bunyan.log")),
        ("clef", Format::Json, include_str!("../tests/golden/json/serilog_clef.log")),
        ("ecs", Format::Json, include_str!("../tests/golden/json/ecs.log")),
        ("gelf", Format::Json, include_str!("../tests/golden/json/gelf.log")),
        ("journald", Format::Json, include_str!("../tests/golden/json/journald.log")),
        ("mongodb", Format::Json, include_str!("../tests/golden/json/databases.log")),
        ("access", Format::Access, include_str!("../tests/golden/access/combined.log")),
        ("nginx_error", Format::NginxError, include_str!("../tests/golden/nginx_error/requests.log")),
        ("apache_error", Format::ApacheError, include_str!("../tests/golden/apache_error/two_four.log")),
        ("postgresql", Format::Postgresql, include_str!("../tests/golden/postgresql/prefixes.log")),
        ("mysql", Format::Mysql, include_str!("../tests/golden/mysql/eight.log")),
        ("redis", Format::Redis, include_str!("../tests/golden/redis/versions.log")),
    ];
    let mut group = criterion.benchmark_group("samples");
    for (name, format, text) in files {
        let choice = FormatChoice::Only(format);
        let lines: Vec<_> = text.lines().filter(|line| parse(line, choice).format == format).collect();
        assert!(!lines.is_empty(), "no {name} line");
        group.throughput(Throughput::Elements(lines.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for line in &lines {
                    black_box(parse(black_box(line), choice));
                }
            });
        });
    }
    group.finish();
}

/// The same with a source's learned profile: after a header, and in a runtime's envelope. Also the check of each
/// following line for the start of a record.
fn sources(criterion: &mut Criterion) {
    let files = [
        ("w3c", include_str!("../tests/golden/w3c/iis.log")),
        ("csv", include_str!("../tests/golden/csv/windows.log")),
        ("haproxy", include_str!("../tests/golden/haproxy/raw.log")),
        ("ltsv", include_str!("../tests/golden/ltsv/servers.log")),
        ("cri", include_str!("../tests/golden/cri/streams.log")),
        ("docker", include_str!("../tests/golden/docker/streams.log")),
        ("log4j", include_str!("../tests/golden/text/log4j.log")),
        ("hdfs", include_str!("../tests/golden/text/hdfs.log")),
        ("openstack", include_str!("../tests/golden/text/openstack.log")),
        ("supercomputers", include_str!("../tests/golden/text/supercomputers.log")),
        ("columns", include_str!("../tests/golden/text/columns.log")),
        ("python", include_str!("../tests/golden/text/python.log")),
        ("go", include_str!("../tests/golden/text/go.log")),
        ("syslog_files", include_str!("../tests/golden/syslog/files.log")),
        ("syslog_rfc_5424", include_str!("../tests/golden/syslog/rfc_5424.log")),
        ("klog", include_str!("../tests/golden/klog/kubelet.log")),
        ("logcat", include_str!("../tests/golden/logcat/threadtime.log")),
        ("cbs", include_str!("../tests/golden/cbs/servicing.log")),
        ("kernel", include_str!("../tests/golden/kernel/dmesg.log")),
    ];
    let (reading, seen) = (ParseOptions::default(), now());
    let mut group = criterion.benchmark_group("sources");
    for (name, text) in files {
        let lines: Vec<_> = text.lines().collect();
        let mut learned = SourceProfile::default();
        group.throughput(Throughput::Elements(lines.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for line in &lines {
                    let inner = learned.unwrap(black_box(line), &reading);
                    black_box(learned.begins(&inner.text, &reading));
                    black_box(learned.record(&inner.text, inner.envelope, &reading, seen));
                }
            });
        });
    }
    group.finish();
}

/// The golden lists: what software writes by default, each entry with the profile of its source, and what devices send.
fn golden(criterion: &mut Criterion) {
    let (reading, seen) = (ParseOptions::default(), now());
    let outputs = include_str!("../crates/parse/golden/outputs.txt");
    let entries: Vec<Vec<&str>> = outputs.split("\n== ").skip(1).map(written_lines).collect();
    let datagrams = include_str!("../crates/parse/golden/datagrams.txt");
    let datagrams: Vec<&str> = datagrams.split("\n== ").skip(1).flat_map(written_lines).collect();
    let mut group = criterion.benchmark_group("golden");
    let mut profiles: Vec<SourceProfile> = entries.iter().map(|_| SourceProfile::default()).collect();
    group.throughput(Throughput::Elements(entries.iter().map(|lines| lines.len() as u64).sum()));
    group.bench_function("outputs", |bencher| {
        bencher.iter(|| {
            for (lines, learned) in entries.iter().zip(&mut profiles) {
                for line in lines {
                    let inner = learned.unwrap(black_box(line), &reading);
                    black_box(learned.begins(&inner.text, &reading));
                    black_box(learned.record(&inner.text, inner.envelope, &reading, seen));
                }
            }
        });
    });
    group.throughput(Throughput::Elements(datagrams.len() as u64));
    group.bench_function("datagrams", |bencher| {
        let mut learned = SourceProfile::default();
        bencher.iter(|| {
            for line in &datagrams {
                black_box(learned.record(black_box(line), Default::default(), &reading, seen));
            }
        });
    });
    group.finish();
}

/// The lines of an entry of a golden list, without its name and without what they mean.
fn written_lines(entry: &str) -> Vec<&str> {
    entry.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("> ")).collect()
}

criterion_group!(benches, lines, samples, sources, golden);
criterion_main!(benches);
