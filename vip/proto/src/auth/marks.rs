//! The newest sequence each sender was heard with.

use std::net::IpAddr;

use super::Stamp;

/// Who may send signed adverts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// Whoever holds a key: multicast. The marks of the four heard last are kept.
    Group,
    /// These addresses and nobody else: unicast. Each keeps its mark.
    Peers(Vec<IpAddr>),
}

/// The newest sequence of a sender. What is not newer is a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The sender's address.
    pub sender: IpAddr,
    /// Its newest sequence.
    pub stamp: Stamp,
}

/// The marks of one virtual router.
#[derive(Clone, Debug)]
pub(super) enum Marks {
    /// The sender heard last comes first.
    Group([Option<Mark>; GROUP_SENDERS]),
    Peers(Vec<(IpAddr, Option<Stamp>)>),
}

/// The sender is none of the configured peers.
pub(super) struct UnknownSender;

impl Marks {
    pub(super) fn new(senders: Senders) -> Self {
        match senders {
            Senders::Group => Self::Group([None; GROUP_SENDERS]),
            Senders::Peers(peers) => Self::Peers(peers.into_iter().map(|at| (at, None)).collect()),
        }
    }

    /// The newest sequence of `sender`, if one is known.
    pub(super) fn of(&self, sender: IpAddr) -> Result<Option<Stamp>, UnknownSender> {
        match self {
            Self::Group(slots) => Ok(slots
                .iter()
                .flatten()
                .find(|mark| mark.sender == sender)
                .map(|mark| mark.stamp)),
            Self::Peers(peers) => peers
                .iter()
                .find(|(peer, _)| *peer == sender)
                .map(|(_, stamp)| *stamp)
                .ok_or(UnknownSender),
        }
    }

    /// Moves the mark of `mark.sender`, a peer or any member of the group.
    pub(super) fn set(&mut self, mark: Mark) {
        match self {
            Self::Group(slots) => {
                let known = slots
                    .iter()
                    .position(|slot| slot.is_some_and(|known| known.sender == mark.sender));
                // The last slot is empty or belongs to the sender heard the longest time ago.
                let slot = known.unwrap_or(GROUP_SENDERS - 1);
                if let Some(moved) = slots.get_mut(..=slot) {
                    moved.rotate_right(1);
                }
                if let Some(first) = slots.first_mut() {
                    *first = Some(mark);
                }
            }
            Self::Peers(peers) => {
                if let Some((_, stamp)) = peers.iter_mut().find(|(peer, _)| *peer == mark.sender) {
                    *stamp = Some(mark.stamp);
                }
            }
        }
    }

    /// Every mark, the sender heard last comes last.
    pub(super) fn iter(&self) -> impl Iterator<Item = Mark> {
        let (group, peers): (&[Option<Mark>], &[_]) = match self {
            Self::Group(slots) => (slots, &[]),
            Self::Peers(peers) => (&[], peers),
        };
        let of_peers = peers
            .iter()
            .filter_map(|(sender, stamp)| stamp.map(|stamp| (*sender, stamp)))
            .map(|(sender, stamp)| Mark { sender, stamp });
        group.iter().rev().flatten().copied().chain(of_peers)
    }
}

/// How many senders of a group have a mark.
const GROUP_SENDERS: usize = 4;
