//! The `kedge` executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    kedge_cli::main()
}
