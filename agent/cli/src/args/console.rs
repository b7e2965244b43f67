//! The flags of `kedge console`.

use clap::Args;

/// How the console is drawn.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConsoleArgs {
    /// Draw it once
    #[arg(long)]
    pub once: bool,
}
