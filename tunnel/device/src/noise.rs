//! What a Noise core cannot get by itself: strong randomness, and what the time is.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::rand;
use kedge_net::clock;
use kedge_tunnel_proto::noise::{CoreName, Noise, Seed, Wall};
use zeroize::Zeroizing;

/// The core of this name, with what it needs.
///
/// # Errors
///
/// The system gives no randomness.
pub(crate) fn noise(core: CoreName) -> io::Result<Noise> {
    match core {
        CoreName::Boringtun => Ok(Noise::Boringtun),
        CoreName::Own => {
            let mut seed = Zeroizing::new([0; 32]);
            rand::fill(seed.as_mut_slice())
                .map_err(|_| io::Error::other("the system gives no randomness"))?;
            Ok(Noise::Own {
                seed: Seed::new(seed),
                wall: Wall::new(clock::now(), unix()),
            })
        }
    }
}

/// Time since 1970; zero before that.
pub(crate) fn unix() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_makes_its_core() {
        assert!(matches!(noise(CoreName::Boringtun), Ok(Noise::Boringtun)));
        assert!(matches!(noise(CoreName::Own), Ok(Noise::Own { .. })));
        assert!(unix() > Duration::from_secs(1_700_000_000));
    }
}
