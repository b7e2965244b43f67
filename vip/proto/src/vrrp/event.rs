//! What a virtual router tells people, and why.

use std::{fmt, net::IpAddr, time::Duration};

use kedge_core::{
    Instant,
    vip::{Priority, RouterState},
};

use super::{LinkLoss, Notice, Peer, Verdict, input::AddressRefused};
use crate::wire::Mac;

/// Something people care about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    State {
        /// The state before.
        from: RouterState,
        /// The state after.
        to: RouterState,
        /// Why.
        because: Because,
    },
    /// The effective priority changed.
    Priority {
        /// The priority before.
        from: Priority,
        /// The priority after.
        to: Priority,
        /// Why.
        because: Because,
    },
    /// Something is wrong or unusual on the LAN; repeated at most once a minute.
    Notice(Notice),
}

/// Why a virtual router did something: renders to a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// The agent started the router.
    Started,
    /// The agent stopped the router while it held nothing.
    Stopped,
    /// The address is the interface's own, so no election is needed.
    OwnsAddress,
    /// The Active was not heard for its whole down interval.
    Silence {
        /// The Active that fell silent.
        peer: Peer,
        /// How long it has not been heard.
        since: Duration,
    },
    /// Nobody was heard at all since this router began to listen.
    NobodyHeard {
        /// How long it listened.
        since: Duration,
    },
    /// The Active said that it leaves.
    Goodbye {
        /// The Active that leaves.
        peer: Peer,
    },
    /// The Active said that it leaves, and that this host is the next.
    HandedOver {
        /// The Active that leaves.
        peer: Peer,
    },
    /// The Active's process ended without a word, which broke its connection.
    ProcessEnded {
        /// The Active that is gone.
        peer: Peer,
    },
    /// The Active advertises a lower priority and preemption is on.
    Preempted {
        /// The Active that was overruled.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// The Active is not healthy, and this host's service has just answered.
    Unhealthy {
        /// The Active that was overruled.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// The process that was Active here died.
    Orphaned,
    /// The agent is being replaced, and its guardian keeps the VIP meanwhile.
    Kept,
    /// An agent that was replaced had it.
    Resumed,
    /// Another Active has a better claim.
    Better {
        /// The other Active.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// This host was not scheduled for so long that another one may have taken over.
    Stalled {
        /// Time since our last advert.
        gap: Duration,
    },
    /// This host was not scheduled, or slept, when it would have taken over: whether the Active is silent is not
    /// known.
    Overslept {
        /// By how much it was late.
        gap: Duration,
    },
    /// The link cannot be used.
    LinkDown(LinkLoss),
    /// The link can be used again.
    LinkUp,
    /// Another host answers for an address of ours, and it is no VRRP router.
    AddressInUse {
        /// The address.
        address: IpAddr,
        /// Who answers.
        mac: Mac,
    },
    /// Nobody answers for the addresses any more.
    AddressFree,
    /// The host that answered for an address is served by an Active that is heard.
    Served {
        /// The Active.
        peer: Peer,
    },
    /// The kernel did not take an address.
    Refused(AddressRefused),
    /// Time to try again after a refusal by the kernel.
    Retry,
    /// The agent was told to leave.
    Leaving,
    /// The agent was told to give the VIP away.
    HandingOver,
    /// A successor holds the VIP.
    Succeeded {
        /// The successor.
        peer: Peer,
    },
    /// Nobody took the VIP within the time any Backup needs.
    NoSuccessor,
    /// The operator asked to have the VIP here.
    Ordered {
        /// The Active it is taken from.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// The Active holds the VIP only because nobody else did.
    Relieved {
        /// The Active that is drained.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// The operator drained this host.
    Drained,
    /// The operator lets this host take part again.
    Undrained,
    /// The VIP is not frozen, or not Active here any more.
    Thawed,
    /// The health gate said so.
    Health(Verdict),
    /// What is tracked costs more or less than before.
    Tracked,
    /// Something failed without which the VIP must not be here.
    TrackLost,
    /// Everything is back without which the VIP must not be here.
    TracksBack,
    /// The leader of its group is in this state.
    Led(RouterState),
    /// The configuration changed.
    Configured,
}

/// What a Backup waits for beside the Active's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first-claim probes of the address.
    FirstClaim {
        /// When they end.
        until: Instant,
    },
    /// The answer of somebody who advertises for the VRID without proof.
    Holder {
        /// Who is asked whether he has the address.
        mac: Mac,
        /// When the wait ends anyway.
        until: Instant,
    },
    /// A frame from another station.
    Frame {
        /// When the wait ends anyway.
        until: Instant,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the agent started"),
            Self::Stopped => f.write_str("the agent stopped taking part"),
            Self::OwnsAddress => f.write_str("the address is the interface's own"),
            Self::Silence { peer, since } => {
                write!(f, "{peer} has not been heard for {}", Seconds(*since))
            }
            Self::NobodyHeard { since } => {
                write!(f, "no other router was heard for {}", Seconds(*since))
            }
            Self::Goodbye { peer } => write!(f, "{} said that it leaves", peer.address),
            Self::HandedOver { peer } => {
                write!(f, "{} handed it over to this host", peer.address)
            }
            Self::ProcessEnded { peer } => write!(
                f,
                "the process of {peer} ended, which broke its connection, and nothing was heard since"
            ),
            Self::Preempted { peer, own } => {
                write!(f, "{peer} is below our priority {own} and preemption is on")
            }
            Self::Unhealthy { peer, own } => write!(
                f,
                "{peer} is not healthy, and this host (priority {own}) has just answered its probe"
            ),
            Self::Orphaned => f.write_str("the agent died"),
            Self::Kept => f.write_str("the agent is being replaced"),
            Self::Resumed => f.write_str("the agent before this one had it"),
            Self::Better { peer, own } => write!(f, "{peer} beats our priority {own}"),
            Self::Stalled { gap } => {
                write!(
                    f,
                    "this host sent no advert for {}, so another may hold it",
                    Seconds(*gap)
                )
            }
            Self::Overslept { gap } => write!(
                f,
                "this host woke up {} late, and hears first who holds it",
                Seconds(*gap)
            ),
            Self::LinkDown(loss) => loss.fmt(f),
            Self::LinkUp => f.write_str("the link is up"),
            Self::AddressInUse { address, mac } => {
                write!(f, "{mac} answers for {address} and is no VRRP router")
            }
            Self::AddressFree => f.write_str("nobody else answers for the address any more"),
            Self::Served { peer } => {
                write!(
                    f,
                    "{peer} is the Active, so its answer for the address was no conflict"
                )
            }
            Self::Refused(refused) => refused.fmt(f),
            Self::Retry => f.write_str("it is time to try again"),
            Self::Leaving => f.write_str("the agent was told to leave"),
            Self::HandingOver => f.write_str("the VIP is being handed over"),
            Self::Succeeded { peer } => write!(f, "{peer} took over"),
            Self::NoSuccessor => f.write_str("no other router took over"),
            Self::Ordered { peer, own } => write!(
                f,
                "the operator asked to have it here, and {peer} is below our priority {own}"
            ),
            Self::Relieved { peer, own } => write!(
                f,
                "{peer} is drained and stood in, and this host (priority {own}) is not"
            ),
            Self::Drained => f.write_str("this host is drained"),
            Self::Undrained => f.write_str("this host is not drained any more"),
            Self::Thawed => f.write_str("what lowers the priority counts again"),
            Self::Health(verdict) => verdict.fmt(f),
            Self::Tracked => f.write_str("what is tracked changed"),
            Self::TrackLost => f.write_str("a critical track failed"),
            Self::TracksBack => f.write_str("no critical track fails any more"),
            Self::Led(state) => write!(f, "the leader of its group is {state}"),
            Self::Configured => f.write_str("the configuration changed"),
        }
    }
}

/// A duration in milliseconds or seconds, as sentences have it.
pub(super) struct Seconds(pub(super) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{}.{} s", self.0.as_secs(), self.0.subsec_millis() / 100)
        }
    }
}
