//! Limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of descriptors to what the process may have at most; returns that number,
/// `None` when there is no limit.
///
/// # Errors
///
/// The kernel refused.
pub fn raise_descriptors() -> io::Result<Option<u64>> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )?;
    Ok(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let maximum = raise_descriptors().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
