//! `kedge wg`.

use clap::{Args, ValueEnum};

/// A plain WireGuard device.
#[derive(Clone, Debug, Args)]
pub struct WgArgs {
    /// Stay in the foreground and log there
    #[arg(short, long, env = "WG_PROCESS_FOREGROUND", value_parser = clap::builder::FalseyValueParser::new())]
    pub foreground: bool,
    /// Whose handshakes and sessions its peers have
    #[arg(
        long,
        value_name = "CORE",
        env = "KEDGE_SET_TUNNEL__NOISE_CORE",
        default_value = "boringtun"
    )]
    pub noise_core: NoiseCore,
    /// The interface's name
    #[arg(value_name = "IFNAME")]
    pub ifname: String,
    /// The process behind the one that was called: says on stdout when tools can come
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// A Noise core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NoiseCore {
    /// boringtun's
    Boringtun,
    /// Kedge's own: a preshared key changes without a new session
    Own,
}
