//! See `tests/fuzz/README.md`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kedge_tests_fuzz::routers(bytes));
