//! BFD sessions.

use kedge_control::local::{BfdSession, BfdSessionList};
use kedge_core::bfd::{Liveness, SessionState};

use super::{Show, View, hook};
use crate::{
    style::{Mark, clean, long, short},
    table::Table,
};

impl Show for BfdSessionList {
    fn text(&self, view: &View) -> String {
        if self.items.is_empty() {
            return format!(
                "no BFD session is configured\n{}",
                view.next(&["kedge config default  (bfd.sessions)".to_owned()])
            );
        }
        let mut titles = vec![
            "NAME",
            "PEER",
            "INTERFACE",
            "STATE",
            "SINCE",
            "INTERVAL",
            "DETECTS",
            "LOST",
        ];
        if view.wide {
            titles.extend([
                "LOCAL",
                "REMOTE",
                "PEER-STATE",
                "SENT",
                "RECEIVED",
                "REFUSED",
                "BECAUSE",
            ]);
        }
        let mut table = Table::new(&titles);
        for session in &self.items {
            let mut cells = vec![
                session.name.clone(),
                session.peer.to_string(),
                session.interface.clone().unwrap_or_default(),
                session.state.to_string(),
                long(session.state_seconds),
                short(session.transmit_interval_seconds),
                session.detection_seconds.map(short).unwrap_or_default(),
                session.losses.to_string(),
            ];
            if view.wide {
                let remote = session.remote.as_ref();
                cells.extend([
                    number(session.local_discriminator),
                    remote
                        .map(|it| number(it.discriminator))
                        .unwrap_or_default(),
                    remote.map(|it| it.state.to_string()).unwrap_or_default(),
                    session.packets_sent.to_string(),
                    session.packets_received.to_string(),
                    session.packets_refused.values().sum::<u64>().to_string(),
                    session.because.clone(),
                ]);
            }
            table.row(cells);
            if session.state != SessionState::Up && !view.wide {
                let because = clean(&session.because);
                table.note(format!("  {} because {because}", view.style.hook()));
            }
            for problem in &session.problems {
                table.note(hook(problem, view).trim_end().to_owned());
            }
        }
        let mut problems = self.items.iter().flat_map(|session| &session.problems);
        let next = match problems.next() {
            Some(problem) => format!("kedge explain {}", problem.code),
            None => "kedge status".to_owned(),
        };
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|it| it.name.clone()).collect()
    }
}

/// The mark in front of a session.
pub(super) const fn mark(session: &BfdSession) -> Mark {
    match (session.liveness, session.state) {
        (Liveness::Alive, _) => Mark::Good,
        (Liveness::Lost, _) => Mark::Bad,
        // As somebody wants it.
        (Liveness::Unknown, SessionState::AdminDown) => Mark::Good,
        (Liveness::Unknown, _) => Mark::Warning,
    }
}

/// A session in the parts of a line.
pub(super) fn parts(session: &BfdSession) -> Vec<String> {
    let place = match &session.interface {
        Some(interface) => format!("{}  {} {interface}", session.name, session.peer),
        None => format!("{}  {}", session.name, session.peer),
    };
    let detects = session.detection_seconds.map(short);
    vec![
        place,
        format!(
            "{} for {}",
            session.state.to_string().to_uppercase(),
            long(session.state_seconds)
        ),
        match (session.state, detects) {
            (SessionState::Up, Some(time)) => format!("notices silence after {time}"),
            _ => format!("because {}", session.because),
        },
    ]
}

fn number(discriminator: u32) -> String {
    format!("{discriminator:#010x}")
}
