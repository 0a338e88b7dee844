#![no_main]

// The reader catches panics of Parquet. Only a panic that leaves the property counts, so the panic hook is silent.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| daytable_properties::holds("sealed", bytes)
);
