//! The `kedge` executable.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Its options stand in `.cargo/config.toml`: they are compiled in.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    kedge_cli::main()
}
