//! The `kedge` executable, built fresh for the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    kedge_cli::main()
}
