//! The `kedge` executable.

use std::process::ExitCode;

/// Its options stand in `.cargo/config.toml`: they are compiled in. The build for hosts has nothing to
/// allocate fast, and the system's own allocator takes less while little is asked of it.
#[cfg(feature = "manager")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    kedge_cli::main()
}
