//! Why packets take the path they take.

use std::{fmt, time::Duration};

/// Which way packets for a peer go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Through the gateway.
    #[default]
    Gateway,
    /// Straight to it.
    Direct,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// No direct path may be tried.
    Refused(Refusal),
    /// The peer is being called.
    Calling,
    /// None of its candidates answered.
    Unanswered,
    /// The direct path answers, and the gateway's is quicker.
    Slower {
        /// The round trip of the direct path.
        direct: Duration,
        /// That of the gateway's.
        gateway: Duration,
    },
    /// The direct path answers no more.
    Lost,
    /// The direct path is proven.
    Proven {
        /// Its round trip.
        direct: Duration,
        /// The gateway's, where that answers.
        gateway: Option<Duration>,
    },
}

/// Why no direct path may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This host was told not to.
    Ordered,
    /// The peer was told not to.
    PeerOrdered,
    /// This host's data plane cannot have one.
    Unsupported,
    /// No gateway has told of the peer yet.
    Unheard,
    /// No gateway has named the peer for as long as its lease lasts.
    LeaseOver,
    /// There are as many peers as may be called.
    Limit,
    /// No place to call it at is known.
    NoCandidate,
    /// This host's NAT gives it another port for each destination.
    SymmetricHere,
    /// The peer's NAT does.
    SymmetricThere,
}

impl Because {
    /// As the label of a metric.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.label(),
            Self::Calling => "calling",
            Self::Unanswered => "unanswered",
            Self::Slower { .. } => "slower",
            Self::Lost => "lost",
            Self::Proven { .. } => "proven",
        }
    }
}

impl Refusal {
    const fn label(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::PeerOrdered => "peer_ordered",
            Self::Unsupported => "unsupported",
            Self::Unheard => "unheard",
            Self::LeaseOver => "lease_over",
            Self::Limit => "limit",
            Self::NoCandidate => "no_candidate",
            Self::SymmetricHere => "symmetric_here",
            Self::SymmetricThere => "symmetric_there",
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Calling => f.write_str("it is being called on a direct path"),
            Self::Unanswered => f.write_str("it answered at none of its candidates"),
            Self::Slower { direct, gateway } => write!(
                f,
                "the direct path takes {} and the gateway's {}",
                millis(*direct),
                millis(*gateway)
            ),
            Self::Lost => f.write_str("the direct path answers no more"),
            Self::Proven { direct, gateway } => {
                write!(f, "an echo took {} on it", millis(*direct))?;
                match gateway {
                    Some(gateway) => write!(f, ", and {} through the gateway", millis(*gateway)),
                    None => f.write_str(", and none came back through the gateway"),
                }
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordered => "this host was told to have no direct paths",
            Self::PeerOrdered => "the peer was told to have no direct paths",
            Self::Unsupported => "the kernel's data plane has no direct paths",
            Self::Unheard => "no gateway has told of the peer yet",
            Self::LeaseOver => "no gateway has named the peer for ten minutes",
            Self::Limit => "this host has as many direct paths as it may have",
            Self::NoCandidate => "no place to call it at is known",
            Self::SymmetricHere => {
                "the NAT of this host is symmetric: it has another port for each destination"
            }
            Self::SymmetricThere => {
                "the NAT of the peer is symmetric: it has another port for each destination"
            }
        })
    }
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
