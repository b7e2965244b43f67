//! Programs of distributions, which read what was built.

use std::process::{Command, Output};

/// Runs one; `None` where it is not installed, which fails where CI requires it.
pub fn asked(command: &mut Command) -> Option<Output> {
    let asked = command.output();
    if asked.is_err() {
        let program = command.get_program().display();
        let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
        assert!(!required.contains("boot"), "{program} is missing");
        eprintln!("skipped: {program} is missing");
    }
    asked.ok()
}

/// What it said.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}
