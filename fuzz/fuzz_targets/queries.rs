#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daytable::trial::holds("queries", bytes));
