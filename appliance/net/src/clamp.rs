//! The MSS clamp of an interface: TCP that passes it, in either direction, is told at its handshake
//! how much goes into one packet (`tcp option maxseg size set rt mtu`).
//!
//! The kernel takes the smaller of the routes there and back, so that the MTU of each route into the
//! tunnel holds for what comes from it as well, in both families. What this host sends itself is
//! clamped, too: a program or an overlay may have taken another interface's MTU. An MSS is only ever
//! made smaller.

use std::io;

use kedge_core::{Code, Coded, Fix, Problem};

use crate::{
    fence::TableWatch,
    nft::{self, NftError},
};

/// The clamp of one interface, in the namespace of the thread that put it up.
#[derive(Debug)]
pub struct Clamp {
    interface: String,
    watch: Option<TableWatch>,
}

/// Why there is no clamp.
#[derive(Debug, thiserror::Error)]
pub enum ClampError {
    /// A name that cannot be written into a ruleset.
    #[error("the name of the interface {0:?} cannot be written into a ruleset")]
    Name(String),
    /// nftables refused.
    #[error("the MSS clamp of {interface} cannot be put up")]
    Nft {
        /// The interface.
        interface: String,
        /// Why.
        #[source]
        source: NftError,
    },
}

impl Clamp {
    /// Puts it up, in one transaction; one that stands already, of an earlier process, is replaced.
    ///
    /// # Errors
    ///
    /// `nft` is missing or refuses.
    pub fn install(interface: &str) -> Result<Self, ClampError> {
        let clamp = Self {
            interface: interface.to_owned(),
            // Before: what is removed after is noticed. Without one it is only not noticed.
            watch: TableWatch::open().ok(),
        };
        clamp.put_up()?;
        Ok(clamp)
    }

    /// Whether somebody may have taken it down since this was asked last, as a firewall does that clears the
    /// ruleset. Asks no program.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        let removed = |watch: &TableWatch| watch.removed().unwrap_or(true);
        self.watch.as_ref().is_some_and(removed)
    }

    /// Puts it up again if it is down. Whether it was.
    ///
    /// # Errors
    ///
    /// `nft` is missing or refuses.
    pub fn restore(&self) -> Result<bool, ClampError> {
        if self.stands()? {
            return Ok(false);
        }
        self.put_up()?;
        Ok(true)
    }

    /// Takes it down.
    ///
    /// # Errors
    ///
    /// `nft` is missing or refuses.
    pub fn remove(self) -> Result<(), ClampError> {
        take_down(&self.interface)
    }

    fn put_up(&self) -> Result<(), ClampError> {
        let text = ruleset(&self.interface)?;
        nft::apply_text(&text).map_err(|source| self.refused(source))
    }

    fn stands(&self) -> Result<bool, ClampError> {
        let name = table(&self.interface)?;
        let tables = nft::tables("inet").map_err(|source| self.refused(source))?;
        Ok(tables.contains(&name))
    }

    fn refused(&self, source: NftError) -> ClampError {
        ClampError::Nft {
            interface: self.interface.clone(),
            source,
        }
    }
}

/// Takes down the clamp that a killed process left for `interface`; one that is not there is down.
///
/// # Errors
///
/// `nft` is missing or refuses.
pub fn take_down(interface: &str) -> Result<(), ClampError> {
    let table = table(interface)?;
    // Adding what may be there makes deleting it no error.
    let text = format!("add table inet {table}\ndelete table inet {table}\n");
    nft::apply_text(&text).map_err(|source| ClampError::Nft {
        interface: interface.to_owned(),
        source,
    })
}

/// Whether a clamp stands for `interface`, of whichever process.
///
/// # Errors
///
/// `nft` is missing or refuses.
pub fn stands(interface: &str) -> io::Result<bool> {
    let table = table(interface).map_err(io::Error::other)?;
    let tables = nft::tables("inet").map_err(io::Error::other)?;
    Ok(tables.contains(&table))
}

fn ruleset(interface: &str) -> Result<String, ClampError> {
    let table = table(interface)?;
    let clamp = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu";
    Ok(format!(
        "add table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         chain forward {{\n\
         type filter hook forward priority mangle; policy accept;\n\
         oifname \"{interface}\" {clamp}\n\
         iifname \"{interface}\" {clamp}\n\
         }}\n\
         chain output {{\n\
         type filter hook output priority mangle; policy accept;\n\
         oifname \"{interface}\" {clamp}\n\
         }}\n\
         }}\n"
    ))
}

/// The table of an interface, whose name says whose it is.
fn table(interface: &str) -> Result<String, ClampError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    if interface.is_empty() || !interface.chars().all(plain) {
        return Err(ClampError::Name(interface.to_owned()));
    }
    // A table's name takes fewer characters than an interface's.
    let name: String = interface
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    Ok(format!("{TABLE}{name}"))
}

impl Coded for ClampError {
    fn problem(&self) -> Problem {
        let mut problem = Problem::warning(Code::TunNoClamp, self.to_string()).consequence(
            "TCP that is passed on through the tunnel finds its segment size by ICMP alone, and \
             hangs where that is dropped",
        );
        if let Some(source) = std::error::Error::source(self) {
            problem = problem.caused_by(source);
        }
        problem.fix(match self {
            Self::Nft {
                source: NftError::Program(_),
                ..
            } => Fix::text("install nftables").command("apt-get install nftables"),
            Self::Name(_) => Fix::text("give the tunnel's interface a plain name"),
            Self::Nft { .. } => {
                Fix::text("the kernel needs nf_tables for inet, with rt and exthdr")
                    .command("nft list ruleset inet")
            }
        })
    }
}

/// With the interface's name behind it.
const TABLE: &str = "kedge_mss_";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{Lease, Namespace, tests::root};

    #[test]
    fn names_that_would_end_the_rule_are_refused() {
        for name in ["", "a\"b", "a b", "a;b", "a\nb"] {
            assert!(matches!(ruleset(name), Err(ClampError::Name(_))), "{name}");
        }
        assert!(
            ruleset("kedge-0.1")
                .unwrap()
                .contains("kedge_mss_kedge_0_1")
        );
    }

    #[test]
    fn who_takes_it_down_is_followed_and_it_goes_when_it_is_to_go() {
        if !root() {
            return;
        }
        let lease = Lease::take().unwrap();
        let namespace = Namespace::create(&lease.namespace("a")).unwrap();
        namespace
            .run(|| {
                let clamp = Clamp::install("kedge0").unwrap();
                assert!(stands("kedge0").unwrap());
                // Its own transaction may leave it in doubt, which asking ends.
                let was_down = || clamp.is_in_doubt() && clamp.restore().unwrap();
                assert!(!was_down(), "nobody touched it");
                nft::apply_text("add table inet other\ndelete table inet other\n").unwrap();
                assert!(!was_down(), "another one's");
                nft::apply_text("flush ruleset\n").unwrap();
                assert!(was_down());
                assert!(!was_down());
                assert!(stands("kedge0").unwrap());
                // A second one of the same name takes the first one's place.
                let again = Clamp::install("kedge0").unwrap();
                again.remove().unwrap();
                assert!(!stands("kedge0").unwrap());
                take_down("kedge0").unwrap();
            })
            .unwrap();
    }
}
