//! VIPs that move together: what the leader hears of its members, and they of it.

use kedge_core::{Instant, Machine, Name, vip::RouterState};
use kedge_vip_proto::vrrp::{Input, Lead, Tracked};

use super::{Shell, instance::Instance};

impl Shell {
    /// Tells leaders and followers what they do not know yet of each other; whether there was
    /// anything.
    pub(super) fn tell_groups(&mut self, now: Instant) -> bool {
        let mut told = false;
        for index in 0..self.instances.len() {
            if self.instances.get(index).is_some_and(Instance::leads) {
                told |= self.tell_group(now, index);
            }
        }
        told
    }

    fn tell_group(&mut self, now: Instant, index: usize) -> bool {
        let burden = self.burden(index);
        let Some(leader) = self.instances.get_mut(index) else {
            return false;
        };
        let mut told = false;
        // One that stalled lets go before it leads anybody.
        if leader.router.poll_timeout().is_some_and(|due| due <= now) {
            leader.router.handle_timeout(now);
            told = true;
        }
        if leader.router.tracked() != burden.tracked {
            leader.burden = burden.words;
            leader.give(now, Input::Tracked(burden.tracked));
            told = true;
        }
        let lead = Lead::of(&leader.router);
        let words = leader.lead_in_words();
        let (group, name) = (leader.spec.sync_group.clone(), leader.spec.name.clone());
        let followers = self.instances.iter_mut();
        for follower in followers.filter(|one| one.spec.follows && one.spec.sync_group == group) {
            if follower.router.lead() != Some(lead) {
                follower.led_by = Some((name.clone(), words.clone()));
                follower.give(now, Input::Lead(lead));
                told = true;
            }
        }
        told
    }

    /// What a router is told of what it tracks, and of the members it leads.
    pub(super) fn burden(&self, index: usize) -> Burden {
        let Some(leader) = self.instances.get(index) else {
            return Burden::default();
        };
        let own = leader.tracks.as_ref();
        let mut burden = Burden {
            tracked: own.map(|tracks| tracks.tracked).unwrap_or_default(),
            words: own.map(|tracks| tracks.failing.clone()).unwrap_or_default(),
        };
        if !leader.leads() {
            return burden;
        }
        for member in self.instances.iter().filter(|one| one.is_led_in(leader)) {
            let state = member.router.state();
            let tracks = member.tracks.as_ref();
            let tracked = tracks.map(|tracks| tracks.tracked).unwrap_or_default();
            let before = burden.tracked;
            burden.tracked = before.with_member(tracked, state);
            let why = match tracks {
                _ if state == RouterState::Fault => member.explain(&member.router.view().because),
                Some(tracks) if tracked != Tracked::default() => tracks.failing.clone(),
                _ => continue,
            };
            if !burden.words.is_empty() {
                burden.words.push_str("; ");
            }
            burden
                .words
                .push_str(&format!("{}: {why}", member.spec.name));
        }
        burden
    }

    /// The VIP that decides for `name`: its leader, or itself.
    pub(super) fn decides_for(&self, name: &Name) -> Name {
        let named = |one: &&Instance| one.spec.name == *name;
        let leader = self
            .instances
            .iter()
            .find(named)
            .filter(|one| one.spec.follows)
            .and_then(|one| self.instances.iter().find(|leader| one.is_led_in(leader)));
        leader.map_or_else(|| name.clone(), |leader| leader.spec.name.clone())
    }
}

/// What a leader is told, and in words; empty where nothing fails.
#[derive(Debug, Default)]
pub(super) struct Burden {
    pub(super) tracked: Tracked,
    pub(super) words: String,
}

impl Instance {
    /// Whether others may follow it. One that leaves leads nobody: they leave by themselves, or are
    /// given another leader.
    pub(super) fn leads(&self) -> bool {
        self.spec.sync_group.is_some() && !self.spec.follows && self.next.is_none()
    }

    fn is_led_in(&self, leader: &Self) -> bool {
        self.spec.follows
            && self.next.is_none()
            && leader.leads()
            && self.spec.sync_group == leader.spec.sync_group
    }

    fn lead_in_words(&self) -> String {
        let view = self.router.view();
        format!(
            "{}, which leads its sync group, is {}: {}",
            self.spec.name,
            view.state,
            self.explain(&view.because)
        )
    }
}
