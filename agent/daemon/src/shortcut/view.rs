//! Endpoints as people see them. No I/O.

use std::net::IpAddr;

use kedge_control::{
    agent::ShortcutConfig,
    local::{ShortcutState, ShortcutStatus},
};
use kedge_core::Problem;
use kedge_host::wall;
use kedge_tunnel_proto::shortcut::State;

use super::{Entry, Relay, Shortcuts, places};

impl Shortcuts {
    /// Every endpoint, by name.
    pub fn status(&self) -> Vec<ShortcutStatus> {
        let mut all: Vec<ShortcutStatus> = self.entries.values().map(Entry::status).collect();
        all.extend(self.refused.iter().map(|(wish, why)| ShortcutStatus {
            state: ShortcutState::Refused,
            because: why.clone(),
            ..of(wish)
        }));
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// What does not work, of those that are wanted.
    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        let own = self.problem.iter().filter(|_| !self.entries.is_empty());
        let each = self.entries.values().filter_map(|it| it.problem.as_ref());
        own.chain(each).cloned()
    }
}

impl Entry {
    fn status(&self) -> ShortcutStatus {
        let (state, since) = self.told;
        let relays = self.relay.iter().chain(&self.draining);
        let targets = self.targets.borrow();
        // What answered before the tunnel came back says nothing now.
        let answering: &[IpAddr] = if self.machine.asks() {
            &targets.answering
        } else {
            &[]
        };
        let named = |address: &IpAddr| {
            let mut all = self.wish.targets.iter();
            let target = all.find(|target| target.address == *address)?;
            Some(format!("{} {address}", target.host))
        };
        ShortcutStatus {
            state: match state {
                State::Gateway => ShortcutState::Gateway,
                State::Doubted => ShortcutState::Doubted,
                State::Taking | State::Standing => ShortcutState::Standing,
                State::Returning => ShortcutState::Returning,
            },
            since: wall::rfc3339(since),
            because: self.because(),
            answering: answering.iter().filter_map(named).collect(),
            open: relays.map(Relay::open).sum(),
            taken: self.taken,
            ..of(&self.wish)
        }
    }

    /// Why whoever answers does.
    pub(super) fn because(&self) -> String {
        let (tunnel, endpoint, targets) = self.machine.heard();
        let silent = "no gateway answers through the tunnel, and the endpoint does not either";
        match self.machine.state().0 {
            State::Gateway if tunnel => "a gateway answers through the tunnel".to_owned(),
            State::Gateway => {
                "the endpoint answers, though no gateway does through the tunnel".to_owned()
            }
            State::Doubted if self.problem.is_some() => {
                format!("{silent}, and this host cannot answer for it")
            }
            State::Doubted if targets => format!("{silent}: it is given some seconds"),
            State::Doubted => format!("{silent}, nor does a host of the site"),
            State::Returning => {
                "the endpoint answers by its gateway, and has to for a while".to_owned()
            }
            State::Taking | State::Standing if tunnel && !endpoint => {
                "a gateway answers through the tunnel, and the endpoint does not".to_owned()
            }
            State::Taking | State::Standing => silent.to_owned(),
        }
    }
}

/// Who answers, in a word for the log.
pub(super) const fn word(state: State) -> &'static str {
    match state {
        State::Gateway => "gateway",
        State::Doubted => "gateway, in doubt",
        State::Taking | State::Standing => "this host",
        State::Returning => "this host, going back",
    }
}

fn of(wish: &ShortcutConfig) -> ShortcutStatus {
    let targets = wish.targets.iter();
    ShortcutStatus {
        name: wish.name.clone(),
        endpoints: places(wish).map(|place| place.to_string()).collect(),
        targets: targets
            .map(|target| format!("{} {}", target.host, target.address))
            .collect(),
        ..ShortcutStatus::default()
    }
}
