//! The `kedge` executable.

use std::process::ExitCode;

/// Its options stand in `.cargo/config.toml`: they are compiled in. The build for hosts has nothing to
/// allocate fast, and the system's own allocator takes less while little is asked of it.
#[cfg(feature = "manager")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    #[cfg(panic = "abort")]
    without_backtraces();
    kedge_cli::main()
}

/// Begins anew without the variables that ask for backtraces, as developers have them set. There is nothing
/// in a host's executable that one could be made from, and asking for it would end the process
/// (docs/adr/0059).
#[cfg(panic = "abort")]
fn without_backtraces() {
    use std::{env, os::unix::process::CommandExt as _, process::Command};

    const ASK: [&str; 2] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"];
    if ASK.iter().all(|name| env::var_os(name).is_none()) {
        return;
    }
    let Ok(path) = env::current_exe() else { return };
    let mut again = Command::new(path);
    let mut arguments = env::args_os();
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    for name in ASK {
        again.env_remove(name);
    }
    // It returns where that is refused: then it goes on as it is.
    let _ = again.args(arguments).exec();
}
