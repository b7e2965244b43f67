//! `kedge wg`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use kedge_tunnel_device::Workers;

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
    /// How many threads move its packets: 1 to 4, or auto, one for each processor up to 4
    #[arg(
        long,
        value_name = "NUMBER",
        env = "KEDGE_SET_TUNNEL__WORKERS",
        default_value = "1"
    )]
    pub workers: Threads,
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
    /// Kedge's own
    Own,
}

/// How many threads; none says one for each processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(pub Option<u8>);

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self(None));
        }
        let number = text.parse().ok();
        let number = number.filter(|number| (1..=Workers::MOST).contains(number));
        let wanted = || format!("1 to {}, or auto", Workers::MOST);
        number.map(|number| Self(Some(number))).ok_or_else(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_a_few_or_as_many_as_there_are_processors() {
        for (text, meant) in [
            ("1", Some(Threads(Some(1)))),
            ("4", Some(Threads(Some(4)))),
            ("auto", Some(Threads(None))),
            ("0", None),
            ("5", None),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(text.parse().ok(), meant, "{text}");
        }
    }
}
