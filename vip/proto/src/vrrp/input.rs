//! What can happen to a virtual router.

use std::{fmt, net::IpAddr};

use super::{Config, ConfigError, Evidence, Lead, Tracked, Verdict};
use crate::{
    auth,
    wire::{Mac, Neighbor, vrrp::Received},
};

/// What can happen to a virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An advertisement for this VRID arrived and passed [`Received::parse`].
    Advert(Received),
    /// An advertisement for this VRID arrived whose trailer proves nothing. It is told, and its
    /// sender is asked before the address is claimed after silence; it moves nothing else.
    Unverified {
        /// Where it says it comes from.
        src: IpAddr,
        /// The station that sent it.
        mac: Mac,
        /// What is wrong with its trailer.
        why: auth::Reject,
    },
    /// An ARP or Neighbor Discovery packet arrived that is about one of our addresses.
    Neighbor(Neighbor),
    /// The kernel answered an [`Output::Own`](super::Output::Own) with `hold: true`.
    Owned {
        /// The ticket of that output.
        ticket: Ticket,
        /// Whether the kernel holds all addresses.
        result: Result<(), AddressRefused>,
    },
    /// The link changed. The first one comes before [`Command::Start`].
    Link(Link),
    /// A frame from another station arrived (not 01:80:c2:00:00:*, which switches send to
    /// everybody). Needed once after each [`Link::Up`]; adverts and claims count by themselves.
    Heard,
    /// The health gate's verdict changed.
    Health(Verdict),
    /// What is tracked beside the link and the service changed. The first one comes before
    /// [`Command::Start`].
    Tracked(Tracked),
    /// What the leader of its group does. Needed whenever [`Router::lead`](super::Router::lead) says
    /// something else.
    Lead(Lead),
    /// The fresh probe asked for by [`Output::ProbeHealth`](super::Output::ProbeHealth) ended.
    Probed {
        /// Whether this one probe succeeded.
        healthy: bool,
    },
    /// What came of looking for packets, as [`Output::Prove`](super::Output::Prove) asked for.
    Evidence(Evidence),
    /// The connection to the router at that address broke without a word: its process ended. It may
    /// only shorten the wait for its adverts; one that arrives later counts as ever.
    PeerGone {
        /// The source of its adverts.
        address: IpAddr,
    },
    /// The operator or the agent wants something.
    Command(Command),
    /// A new configuration of the same virtual router.
    Config(Config),
}

/// Identifies one request to hold the addresses: answers to older requests are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// The kernel did not take an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the kernel refused {address} (errno {errno})")]
pub struct AddressRefused {
    /// The address.
    pub address: IpAddr,
    /// The kernel's error number.
    pub errno: i32,
}

/// The state of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// There is carrier and an address to advertise from.
    Up {
        /// The interface's primary address of the family, the source of adverts; for IPv6 the
        /// link-local one.
        source: IpAddr,
        /// The interface's hardware address.
        mac: Mac,
    },
    /// The interface cannot be used.
    Down(LinkLoss),
}

/// Why an interface cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLoss {
    /// Nothing was reported so far.
    Unknown,
    /// No carrier, or administratively down.
    Carrier,
    /// The interface is gone.
    Gone,
    /// No address on the interface to advertise from.
    NoAddress,
}

impl fmt::Display for LinkLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the link's state is not known yet",
            Self::Carrier => "the link is down",
            Self::Gone => "the interface is gone",
            Self::NoAddress => "the interface has no address to advertise from",
        })
    }
}

/// What the operator or the agent wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Take part.
    Start,
    /// Take part as Active, because a process before this one was until now and the addresses still
    /// stand; as [`Start`](Self::Start) if something speaks against it.
    Resume,
    /// Leave for good: an Active says goodbye, keeps answering until a successor is heard and
    /// ends in Initialize. A second one does not wait.
    Stop,
    /// Give the VIP to another host and stay as Backup; taken back when nobody wants it.
    HandOver,
    /// Take the VIP from an Active of lower priority, once, whatever `preempt` says.
    Take,
    /// Be the next: the Active will say goodbye within [`SUCCESSION`](super::SUCCESSION), and nobody
    /// else is waited for then.
    Succeed,
}

/// Why an input was refused; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// The router is not started or has no link.
    #[error("the router is not listening")]
    NotListening,
    /// The advertisement is for another VRID.
    #[error("the advertisement is for another virtual router")]
    OtherVrid,
    /// Our own packet came back.
    #[error("our own packet was looped back")]
    OwnPacket,
    /// The claim is about none of our addresses.
    #[error("the claim is about none of our addresses")]
    OtherAddress,
    /// An answer to a request that was superseded.
    #[error("the kernel's answer is to an older request")]
    OldTicket,
    /// A probe's result that nobody waits for, or proof of what is not in question.
    #[error("nobody waits for this answer")]
    NotAsked,
    /// A router that elects itself is told what a leader does.
    #[error("the router follows nobody")]
    NotFollowing,
    /// The command makes no sense in this state.
    #[error("the command makes no sense in this state")]
    WrongState,
    /// The VIP is frozen.
    #[error("the VIP is frozen")]
    Frozen,
    /// The VIP cannot be taken from an Active that is as good or better.
    #[error("the Active's priority is not below ours")]
    NotBetter,
    /// The configuration contradicts itself.
    #[error("the configuration was refused")]
    Config(#[source] ConfigError),
}

impl Reject {
    /// The `reason` label of the counter of refused inputs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotListening => "not_listening",
            Self::OtherVrid => "other_vrid",
            Self::OwnPacket => "own_packet",
            Self::OtherAddress => "other_address",
            Self::OldTicket => "old_ticket",
            Self::NotAsked => "not_asked",
            Self::NotFollowing => "not_following",
            Self::WrongState => "wrong_state",
            Self::Frozen => "frozen",
            Self::NotBetter => "not_better",
            Self::Config(_) => "config",
        }
    }
}
