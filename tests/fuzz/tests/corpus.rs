//! Every input that a fuzzer found worth keeping, again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{fs, path::Path};

use kedge_tests_fuzz::TARGETS;

#[test]
fn every_kept_input_keeps_the_laws() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(corpus.join(name)).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&fs::read(path).unwrap());
            count += 1;
        }
        assert!(count >= 5, "{name} has {count} inputs");
    }
}

#[test]
fn truncated_and_flipped_inputs_keep_them_too() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        for entry in fs::read_dir(corpus.join(name)).unwrap() {
            let whole = fs::read(entry.unwrap().path()).unwrap();
            for length in 0..whole.len().min(128) {
                target(&whole[..length]);
                let mut flipped = whole.clone();
                flipped[length] ^= 0x81;
                target(&flipped);
            }
        }
    }
}
