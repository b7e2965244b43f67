//! The guardian: a process beside the agent that speaks for it once, when it dies.
//!
//! ```text
//!  agent                                             guardian (the same executable)
//!   VIP thread ── Ward, duplicates of sockets ──►      sleeps on: the agent's pidfd, the channel
//!       │                (channel)                          │ agent died
//!       ▼                                                   ▼
//!   page: who is Active here, last advert at ───────►  drain sockets · goodbye · keep answering
//!         (shared memory, no system call)              until the successor announces · let go
//! ```
//!
//! A process that is killed says no goodbye, and the kernel goes on answering for its addresses:
//! without a guardian the other routers would count three lost adverts first. The guardian is the
//! same machine ([`Router::orphan`](kedge_vip_proto::vrrp::Router::orphan)) in the same shell, so
//! it leaves as an agent does that was told to. If the agent was silent for three intervals before
//! it died, another host may be Active: then it says nothing and only removes the addresses.
//!
//! It holds a duplicate of every packet socket of the agent. That is needed to hear what the agent
//! did not read any more, and it keeps the agent's exit from waiting for the kernel to take a last
//! packet socket down, which costs 7 to 37 ms.
//!
//! An agent that starts again cancels the guardian of the one before through its page, before it
//! touches anything.
//!
//! An agent that another one replaces leaves no goodbye but a word on the page: then the guardian is
//! Active in its stead ([`Router::caretaker`](kedge_vip_proto::vrrp::Router::caretaker)), at the same
//! priority, until the other agent overtakes it and goes on. If none comes within a few seconds it
//! leaves as ever.

mod keeper;
mod link;
mod mastership;
mod message;
mod process;

pub use keeper::Program;
pub(crate) use keeper::{Keeper, unguarded};
pub(crate) use link::{Link, Shared};
pub(crate) use mastership::{Estate, Kept, Mastership, RouterId, Slot};
pub(crate) use message::{Opened, Said, Ward};
pub use process::{GuardianError, run};
