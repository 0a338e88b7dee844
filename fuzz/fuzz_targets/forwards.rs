#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daytable_properties::holds("forwards", bytes));
