#![no_main]

// The reader catches what Parquet's panics at, so a panic is none before it leaves the property.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| daytable_properties::holds("sealed", bytes)
);
