//! A file that grows at a steady rate.

use anyhow::Result;
use daytable_model::time::now;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Appends this many records a second, a hundredth of them at once.
pub(crate) fn write_stream(path: &Path, records: u32, is_over: &AtomicBool) -> Result<()> {
    let mut file = File::create(path)?;
    let (began, mut lines, mut turn) = (Instant::now(), String::new(), 0u32);
    while records > 0 && !is_over.load(Ordering::Relaxed) {
        lines.clear();
        let time = now();
        for number in 0..records / 100 {
            let (user, took) = (number * 7919 % 5000, number * 31 % 1000);
            writeln!(
                lines,
                "{{\"time\":\"{time}\",\"level\":\"info\",\"message\":\"answered\",\"user\":\"u{user}\",\"ms\":{took}}}"
            )?;
        }
        file.write_all(lines.as_bytes())?;
        turn += 1;
        std::thread::sleep((began + Duration::from_millis(10) * turn).saturating_duration_since(Instant::now()));
    }
    Ok(())
}
