//! What the agent wants: the desired set, and commands.

use std::sync::Arc;

use kedge_core::{Instant, Name};
use kedge_vip_proto::vrrp::{Input, Reject};

use super::{Command, Shell, instance::Instance};
use crate::Tracks;

impl Shell {
    /// Takes what the agent wants.
    pub(super) fn obey(&mut self, now: Instant) {
        // Commands first out of their queue, then the desired set: whoever applied a VIP and then
        // spoke about it has stored the set before his command came.
        let mut commands = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            commands.push(command);
        }
        let postponed = || self.postponed.as_ref().map(|it| Arc::clone(&it.desired));
        if let Some(desired) = self.shared.desired.swap(None).or_else(postponed) {
            self.apply(now, &desired);
        }
        self.speed_up(now);
        self.tell_guardian(now);
        for command in commands {
            self.news = true;
            match *command {
                Command::Health {
                    name,
                    verdict,
                    because,
                } => {
                    if self.position(&name).is_none() && self.postponed.is_some() {
                        self.early.entry(name).or_default().health = Some((verdict, because));
                        continue;
                    }
                    let _ = self.with(now, &name, |instance| {
                        instance.health = Some((verdict, because));
                        Input::Health(verdict)
                    });
                }
                Command::Tracks { name, tracks } => self.heed(now, &name, tracks),
                Command::Probed { name, healthy } => {
                    let _ = self.with(now, &name, |_| Input::Probed { healthy });
                }
                Command::Order { name, order, done } => {
                    // Of a group its leader is asked.
                    let name = self.decides_for(&name);
                    let taken = self.with(now, &name, |_| Input::Command(order));
                    // Whoever asked may have left.
                    let _ = done.map(|done| done.send(taken));
                }
                Command::PeerGone { ifindex, address } => {
                    for index in 0..self.instances.len() {
                        let here = self.instances.get(index).and_then(Instance::ifindex);
                        if here == Some(ifindex) {
                            self.give(now, index, Input::PeerGone { address });
                        }
                    }
                }
                Command::Shutdown { timeout, done } => self.leave(now, timeout, done),
                Command::Show { done } => self.readers.push(done),
                Command::StandAside { done } => {
                    let kept = self.stand_aside(now);
                    self.stands_aside |= kept;
                    // Whoever asked may have left.
                    let _ = done.send(kept);
                }
            }
        }
    }

    fn with(
        &mut self,
        now: Instant,
        name: &Name,
        input: impl FnOnce(&mut Instance) -> Input,
    ) -> Result<(), Reject> {
        let index = self.position(name).ok_or(Reject::WrongState)?;
        let instance = self.instances.get_mut(index).ok_or(Reject::WrongState)?;
        let input = input(instance);
        self.ask(now, index, input)
    }

    /// Takes what is tracked for a VIP. The first time it may begin to take part.
    fn heed(&mut self, now: Instant, name: &Name, tracks: Tracks) {
        let Some(index) = self.position(name) else {
            // It is wanted, and waits for a fence: it would wait for this word as well.
            if self.postponed.is_some() {
                self.early.entry(name.clone()).or_default().tracks = Some(tracks);
            }
            return;
        };
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        // Nobody may have told yet that a VIP is no longer tracked.
        if !instance.spec.tracked {
            return;
        }
        instance.tracks = Some(tracks);
        let burden = self.burden(index);
        if let Some(instance) = self.instances.get_mut(index) {
            instance.burden = burden.words;
        }
        self.give(now, index, Input::Tracked(burden.tracked));
        self.start(now, index);
    }
}
