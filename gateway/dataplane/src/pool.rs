//! The members of one listener: who lives, and who is next. No I/O.

use std::collections::BTreeMap;

use kedge_control::{balance::Member, local::MemberStatus};

/// What the tunnel says of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Liveness {
    /// Whether the host answers.
    pub alive: bool,
    /// Why, as a sentence.
    pub because: String,
}

/// What is known of every host.
pub(crate) type Hosts = BTreeMap<String, Liveness>;

/// A listener's members.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    entries: Vec<Entry>,
    /// The open connections of members that are gone: they may come back before these end.
    leaving: Vec<(Member, u64)>,
    turn: usize,
}

#[derive(Debug)]
struct Entry {
    member: Member,
    host: Liveness,
    /// Why the last connect failed; cleared by a connect that works and by a host that returns.
    refused: Option<String>,
    /// Whether it is being left: what is open goes on, nothing new comes.
    draining: bool,
    open: u64,
}

impl Entry {
    fn alive(&self) -> bool {
        self.host.alive && self.refused.is_none()
    }

    /// Whether new connections go there.
    fn is_chosen(&self) -> bool {
        self.alive() && !self.draining
    }

    /// The same, for the only one there is to choose: what its last connect said is no reason to turn
    /// a client away who might be the first to be answered.
    const fn is_chosen_alone(&self) -> bool {
        self.host.alive && !self.draining
    }
}

impl Pool {
    /// Replaces the members. What is known of those that stay is kept.
    pub fn set(&mut self, members: Vec<Member>, hosts: &Hosts) {
        let mut old = std::mem::take(&mut self.entries);
        for mut member in members {
            // Who is being left is the same member: what is open there counts on.
            let draining = std::mem::take(&mut member.draining);
            if self.entries.iter().any(|entry| entry.member == member) {
                continue;
            }
            let known = old.iter().position(|entry| entry.member == member);
            let mut entry = known.map_or_else(
                || Entry {
                    host: hosts.get(&member.host).cloned().unwrap_or_else(unheard),
                    refused: None,
                    draining,
                    open: take(&mut self.leaving, &member),
                    member,
                },
                |at| old.swap_remove(at),
            );
            entry.draining = draining;
            self.entries.push(entry);
        }
        let busy = old.into_iter().filter(|entry| entry.open > 0);
        self.leaving
            .extend(busy.map(|entry| (entry.member, entry.open)));
    }

    /// Takes what the tunnel says of a host. A host that returns gets a new chance.
    pub fn heard(&mut self, host: &str, liveness: &Liveness) {
        for entry in self.entries.iter_mut().filter(|e| e.member.host == host) {
            if liveness.alive && !entry.host.alive {
                entry.refused = None;
            }
            entry.host = liveness.clone();
        }
    }

    /// Takes the live member with the fewest open connections; equals take turns. The only member
    /// is taken whatever its last connect said, unless its host is dead. The connection counts from
    /// here on: give it back with [`closed`](Self::closed).
    pub fn choose(&mut self, tried: &[Member]) -> Option<Member> {
        let count = self.entries.len();
        let turn = self.turn;
        let may = self.rule();
        let (at, entry) = self
            .entries
            .iter_mut()
            .enumerate()
            .filter(|(_, entry)| may(entry) && !tried.contains(&entry.member))
            .min_by_key(|(at, entry)| (entry.open, (at + count - turn % count.max(1)) % count))?;
        entry.open += 1;
        self.turn = at + 1;
        Some(entry.member.clone())
    }

    /// A connection to the member has ended, or never came to be.
    pub fn closed(&mut self, member: &Member) {
        if let Some(entry) = self.find(member) {
            entry.open = entry.open.saturating_sub(1);
            return;
        }
        for (_, open) in self.leaving.iter_mut().filter(|(left, _)| left == member) {
            *open = open.saturating_sub(1);
        }
        self.leaving.retain(|(_, open)| *open > 0);
    }

    /// A connect to the member failed: it gets no connections until one works again, unless there is
    /// no other. Says whether that is news.
    pub fn refused(&mut self, member: &Member, because: String) -> bool {
        let entry = self.find(member);
        entry.is_some_and(|entry| entry.refused.replace(because).is_none())
    }

    /// A connect to the member worked. Says whether that is news.
    pub fn answered(&mut self, member: &Member) -> bool {
        let entry = self.find(member);
        entry.is_some_and(|entry| entry.refused.take().is_some())
    }

    /// The members that only wait for a connect to work.
    pub fn to_probe(&self) -> Vec<Member> {
        let waiting = |entry: &&Entry| {
            let fails = entry.host.alive && entry.refused.is_some();
            fails && !entry.draining
        };
        let members = self.entries.iter().filter(waiting);
        members.map(|entry| entry.member.clone()).collect()
    }

    /// Whether the member takes what belongs to a session it has.
    pub fn takes(&self, member: &Member) -> bool {
        let may = self.rule();
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.member == *member && (entry.alive() || may(entry)))
    }

    /// Whether any member takes connections.
    pub fn any_alive(&self) -> bool {
        self.entries.iter().any(Entry::is_chosen)
    }

    /// The members as people see them.
    pub fn status(&self) -> Vec<MemberStatus> {
        let tell = |entry: &Entry| MemberStatus {
            host: entry.member.host.clone(),
            address: entry.member.address,
            port: entry.member.port,
            alive: entry.alive(),
            because: match &entry.refused {
                Some(because) if entry.host.alive => because.clone(),
                None if entry.draining && entry.host.alive => LEFT.to_owned(),
                Some(_) | None => entry.host.because.clone(),
            },
        };
        self.entries.iter().map(tell).collect()
    }

    /// What makes a member one to choose.
    fn rule(&self) -> fn(&Entry) -> bool {
        let mut staying = self.entries.iter().filter(|entry| !entry.draining);
        let is_alone = staying.next().is_some() && staying.next().is_none();
        if is_alone {
            Entry::is_chosen_alone
        } else {
            Entry::is_chosen
        }
    }

    fn find(&mut self, member: &Member) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.member == *member)
    }
}

/// The connections a member has left open, if it was here before.
fn take(leaving: &mut Vec<(Member, u64)>, member: &Member) -> u64 {
    let at = leaving.iter().position(|(left, _)| left == member);
    at.map_or(0, |at| leaving.swap_remove(at).1)
}

fn unheard() -> Liveness {
    Liveness {
        alive: false,
        because: UNHEARD.to_owned(),
    }
}

/// Why a member that lives gets nothing new.
pub const LEFT: &str = "it is being left: its connections go on, new ones go elsewhere";
/// Why a host is not alive of which nothing is known yet.
pub const UNHEARD: &str = "nothing was heard from the host through the tunnel yet";

#[cfg(test)]
mod tests;
