//! Builds the programs the tests run, so that the tests do not have to.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool talks to its developer"
)]

use std::{process::ExitCode, time::Instant};

use kedge_tests_kube::assets::{Program, is_required};

fn main() -> ExitCode {
    for program in Program::ALL {
        let begun = Instant::now();
        match program.path() {
            Ok(_) => println!("{}: {:.1} s", program.file(), begun.elapsed().as_secs_f64()),
            Err(why) if is_required() => {
                eprintln!("{}: {why}", program.file());
                return ExitCode::FAILURE;
            }
            Err(why) => {
                println!("skipped: {why}");
                return ExitCode::SUCCESS;
            }
        }
    }
    ExitCode::SUCCESS
}
