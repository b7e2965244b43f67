//! VIPs.

use kedge_control::local::{ActivePeer, TrackStatus, Transition, Vip, VipExplanation, VipList};
use kedge_core::vip::RouterState;

use super::{Show, View, bgp, hook, pairs};
use crate::{
    style::{Mark, clean, long, short},
    table::Table,
};

impl Show for VipList {
    fn text(&self, view: &View) -> String {
        let mut titles = vec![
            "NAME",
            "ADDRESS",
            "INTERFACE",
            "STATE",
            "SINCE",
            "PRIORITY",
            "VRID",
            "ACTIVE",
        ];
        if view.wide {
            titles.extend(["BASE", "INTERVAL", "SOURCE", "BECAUSE"]);
        }
        let mut table = Table::new(&titles);
        for vip in &self.items {
            let mut cells = vec![
                vip.name.clone(),
                vip.addresses.join(","),
                vip.interface.clone().unwrap_or_default(),
                state(vip),
                long(vip.state_seconds),
                vip.priority.to_string(),
                vip.vrid.to_string(),
                active(vip),
            ];
            if view.wide {
                cells.extend([
                    vip.base_priority.to_string(),
                    short(vip.advert_interval_seconds),
                    vip.source.clone(),
                    vip.because.clone(),
                ]);
            }
            table.row(cells);
            for problem in &vip.problems {
                table.note(hook(problem, view).trim_end().to_owned());
            }
        }
        let anycast = self.anycast.iter().map(|vip| {
            let (_, parts) = bgp::anycast(vip);
            format!("{}\n", clean(&parts.join("  ")))
        });
        let anycast: String = anycast.collect();
        let next = match (self.items.first(), self.anycast.first()) {
            (Some(vip), _) => format!("kedge vip explain {}", clean(&vip.name)),
            (None, Some(_)) => "kedge bgp routes advertised".to_owned(),
            (None, None) => "kedge config default  (no VIP is configured)".to_owned(),
        };
        let elected = match (self.items.is_empty(), self.anycast.is_empty()) {
            (true, false) => String::new(),
            _ => table.render(),
        };
        elected + &anycast + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        let anycast = self.anycast.iter().map(|vip| vip.name.clone());
        let elected = self.items.iter().map(|vip| vip.name.clone());
        elected.chain(anycast).collect()
    }
}

impl Show for Vip {
    fn text(&self, view: &View) -> String {
        let mut text = format!(
            "{} {}\n",
            mark(self, view),
            view.style.bold(&clean(&self.name))
        );
        text.push_str(&pairs(&[
            ("addresses", self.addresses.join(", ")),
            (
                "state",
                format!("{} for {}", self.state, long(self.state_seconds)),
            ),
            ("because", self.because.clone()),
            ("interface", interface(self)),
            ("group", group(self)),
            ("vrid", format!("{} ({})", self.vrid, self.vrid_because)),
            ("priority", explained_priority(self, view)),
            (
                "timing",
                format!(
                    "an advertisement every {}, take-over after {} of silence",
                    short(self.advert_interval_seconds),
                    short(self.active_down_seconds)
                ),
            ),
            (
                "fence",
                self.fence_seconds
                    .map(|lasts| {
                        format!(
                            "the kernel silences this host {} after its last advertisement",
                            short(lasts)
                        )
                    })
                    .unwrap_or_default(),
            ),
            (
                "active",
                self.active.as_ref().map(heard).unwrap_or_default(),
            ),
            ("source", self.source.clone()),
            (
                "frozen",
                self.frozen
                    .as_ref()
                    .map(|frozen| format!("since {}, until {}", frozen.since, frozen.until))
                    .unwrap_or_default(),
            ),
            ("seen twice", self.duplicates.join("; ")),
        ]));
        for track in &self.tracks {
            let mark = view
                .style
                .mark(if track.good { Mark::Good } else { Mark::Bad });
            text.push_str(&format!("  {mark} track {}\n", clean(&tracked(track))));
        }
        for problem in &self.problems {
            text.push_str(&hook(problem, view));
        }
        text + &view.next(&[format!("kedge vip explain {}", clean(&self.name))])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

impl Show for VipExplanation {
    fn text(&self, view: &View) -> String {
        let mut text = format!("{} because:\n", view.style.bold(&clean(&self.conclusion)));
        let rejected = self
            .rejected_interfaces
            .iter()
            .map(|rejected| format!("not on {}: {}", rejected.interface, rejected.because));
        for (index, reason) in self.because.iter().cloned().chain(rejected).enumerate() {
            text.push_str(&format!("  {}. {}\n", index + 1, clean(&reason)));
        }
        if !self.would_move_if.is_empty() {
            let separator = format!(" {} ", view.style.dot());
            text.push_str(&format!(
                "Would move if: {}\n",
                clean(&self.would_move_if.join(&separator))
            ));
        }
        let twice = if self.vip.duplicates.is_empty() {
            "never".to_owned()
        } else {
            self.vip.duplicates.join("; ")
        };
        text.push_str(&format!("Seen twice on the wire: {}.\n", clean(&twice)));
        let name = clean(&self.vip.name).into_owned();
        let moved = self.transitions.iter().rev().find(|change| moves(change));
        if let Some(moved) = moved {
            text.push_str(&format!(
                "Last moved: {} {} -> {} (kedge vip timeline {name})\n",
                clean(&moved.at),
                moved.from,
                moved.to
            ));
        }
        if !self.transitions.is_empty() {
            text.push_str("Last changes:\n");
            for change in self.transitions.iter().rev().take(LAST_CHANGES).rev() {
                text.push_str(&format!(
                    "  {}  {} -> {}  {}\n",
                    clean(&change.at),
                    change.from,
                    change.to,
                    clean(&change.because)
                ));
            }
        }
        if view.wide && !self.counters.is_empty() {
            text.push_str("Counters:\n");
            for (name, count) in &self.counters {
                text.push_str(&format!("  {name}: {count}\n"));
            }
        }
        for problem in &self.vip.problems {
            text.push_str(&hook(problem, view));
        }
        let next = if self.vip.frozen.is_some() {
            format!("kedge vip thaw {name}")
        } else if moved.is_some() {
            format!("kedge vip timeline {name}")
        } else {
            format!("kedge vip show {name}")
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        vec![self.vip.name.clone()]
    }
}

fn state(vip: &Vip) -> String {
    match vip.frozen {
        Some(_) => format!("{} FROZEN", vip.state),
        None => vip.state.to_string(),
    }
}

/// Whether the VIP came here or left by it.
fn moves(change: &Transition) -> bool {
    let holds = |state| matches!(state, RouterState::Active | RouterState::Releasing);
    holds(change.from) != holds(change.to)
}

/// The mark in front of a VIP.
pub(super) fn mark(vip: &Vip, view: &View) -> String {
    let state = match vip.state {
        RouterState::Active => Mark::Good,
        RouterState::Backup => Mark::Idle,
        RouterState::Initialize | RouterState::Releasing => Mark::Warning,
        RouterState::Fault => Mark::Bad,
    };
    view.style.mark(Mark::of(&vip.problems, state))
}

/// A priority; where it is not the configured one, from which it moved there and why.
pub(super) fn priority(vip: &Vip, view: &View) -> String {
    let (base, now) = (vip.base_priority, vip.priority);
    if now == base {
        return now.to_string();
    }
    // The agent's own words begin with the same numbers.
    let told = format!("{base} → {now} because ");
    let because = vip.priority_because.as_str();
    let because = because.strip_prefix(&told).unwrap_or(because);
    let arrow = if view.style.ascii { "->" } else { "→" };
    match because {
        "" => format!("{base} {arrow} {now}"),
        because => format!("{base} {arrow} {now} because {because}"),
    }
}

/// What is tracked, what its failure means, and how it is.
pub(super) fn tracked(track: &TrackStatus) -> String {
    let TrackStatus {
        name,
        what,
        because,
        weight,
        ..
    } = track;
    let failure = match weight {
        Some(weight) => format!("weight {weight}"),
        None => "critical".to_owned(),
    };
    format!("{name} ({what}, {failure}): {because}")
}

fn group(vip: &Vip) -> String {
    match (&vip.sync_group, &vip.leader) {
        (Some(group), Some(leader)) => format!("{group} (led by {leader})"),
        (Some(group), None) => format!("{group} (leads it)"),
        (None, _) => String::new(),
    }
}

fn explained_priority(vip: &Vip, view: &View) -> String {
    let priority = priority(vip, view);
    if vip.priority != vip.base_priority || vip.priority_because.is_empty() {
        priority
    } else {
        format!("{priority} ({})", vip.priority_because)
    }
}

fn interface(vip: &Vip) -> String {
    let name = vip.interface.as_deref().unwrap_or("none");
    let because = vip.interface_because.as_str();
    let because = because
        .strip_prefix(&format!("{name}: "))
        .unwrap_or(because);
    if because.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({because})")
    }
}

fn active(vip: &Vip) -> String {
    match (&vip.active, vip.state) {
        (_, RouterState::Active) => "this host".to_owned(),
        (Some(peer), _) => peer.address.to_string(),
        (None, _) => String::new(),
    }
}

/// The Active router as it is heard.
pub(super) fn heard(peer: &ActivePeer) -> String {
    let mac = peer
        .mac
        .as_deref()
        .map(|mac| format!(" ({mac})"))
        .unwrap_or_default();
    format!(
        "{}{mac} priority {}, heard {} ago",
        peer.address,
        peer.priority,
        short(peer.last_heard_seconds)
    )
}

const LAST_CHANGES: usize = 5;
