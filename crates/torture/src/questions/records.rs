//! Records of odd shapes: many names, long texts, many labels.

use daytable_crash::random::Random;
use daytable_model::time::now;
use std::fmt::Write;

/// Records of a request.
const RECORDS: u64 = 40;
/// Names of which each record has one: identifiers as names.
const NAMES: u64 = 20_000;
/// Fields of a record with many.
const MANY: u64 = 150;
/// Characters of a long text.
const LONG: u64 = 200_000;

/// A request that pushes records, and how many it has.
pub(super) fn request(random: &mut Random) -> (Vec<u8>, u64) {
    let count = 1 + random.below(RECORDS);
    let body: String = (0..count).map(|_| record(random)).collect();
    let head = format!(
        "POST /ingest?instance=i{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
         Content-Length: {}\r\n\r\n",
        random.below(20),
        body.len()
    );
    ((head + &body).into_bytes(), count)
}

fn record(random: &mut Random) -> String {
    let level = ["debug", "info", "warn", "error"][random.below(4) as usize];
    let user = random.below(100_000);
    let mut more = String::new();
    let mut text = format!("request {} of user {user} ended", random.next());
    match random.below(40) {
        0 => text.push_str(&"le ".repeat(random.below(LONG / 3) as usize)),
        1 | 2 => {
            for number in 0..random.below(MANY) {
                // Writing to a text cannot fail.
                let _ = write!(more, ",\"name{number}\":\"{}\"", random.next());
            }
        }
        3..=12 => {
            let _ = write!(more, ",\"id{}\":{}", random.below(NAMES), random.below(9));
        }
        _ => {}
    }
    let status = 200 + 100 * random.below(4);
    format!(
        "{{\"time\":\"{}\",\"level\":\"{level}\",\"message\":\"{text}\",\"user\":\"u{user}\",\"status\":{status}{more}}}\n",
        now()
    )
}
