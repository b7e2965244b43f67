//! Everything a VIP tracks as one, for its router and in words. No I/O.

use kedge_core::Name;
use kedge_vip_speaker::{Tracked as Sum, Tracks as Told};

use super::{Of, Seen};
use crate::config::{Failure, TrackConfig, Tracked};

/// Adds up what a VIP tracks. What nobody has seen yet is well. `changed` says what is news.
pub(super) fn sum<'a>(
    of: &Of,
    seen: impl Fn(&Tracked) -> Option<&'a Seen>,
    changed: impl Fn(&TrackConfig) -> bool,
) -> Told {
    let mut tracked = Sum::default();
    let (mut critical, mut costly, mut news) = (Vec::new(), Vec::new(), Vec::new());
    for (name, track) in of {
        let Some(seen) = seen(&track.what) else {
            continue;
        };
        let words = words(name, seen);
        if changed(track) {
            news.push(words.clone());
        }
        match track.failure {
            _ if seen.good => {}
            Failure::Costs(cost) => {
                tracked.cost = tracked.cost.saturating_add(cost);
                costly.push(words);
            }
            Failure::Bars => {
                tracked.critical = true;
                critical.push(words);
            }
        }
    }
    critical.append(&mut costly);
    let failing = critical.join("; ");
    let because = match (news.is_empty(), failing.is_empty()) {
        (false, _) => news.join("; "),
        (true, false) => failing.clone(),
        (true, true) => "nothing that is tracked fails".to_owned(),
    };
    Told {
        tracked,
        because,
        failing,
    }
}

fn words(name: &Name, seen: &Seen) -> String {
    format!("track {name}: {}", seen.because)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn tracks(all: &[(&str, &str, Failure)]) -> Of {
        let track = |(name, interface, failure): &(&str, &str, Failure)| {
            let what = Tracked::Interface((*interface).to_owned());
            let failure = *failure;
            (name.parse().unwrap(), TrackConfig { what, failure })
        };
        all.iter().map(track).collect()
    }

    #[test]
    fn costs_add_up_and_critical_failures_are_told_first() {
        let of = tracks(&[
            ("a", "eth1", Failure::Costs(20)),
            ("b", "eth2", Failure::Costs(253)),
            ("c", "eth3", Failure::Bars),
            ("d", "eth4", Failure::Costs(7)),
            ("e", "eth5", Failure::Bars),
        ]);
        let down = |good: bool| Seen {
            good,
            because: "it is so".to_owned(),
        };
        let seen: BTreeMap<String, Seen> = [("eth1", false), ("eth2", false), ("eth3", false)]
            .into_iter()
            .chain([("eth4", true)])
            .map(|(name, good)| (name.to_owned(), down(good)))
            .collect();
        let find = |what: &Tracked| match what {
            Tracked::Interface(name) => seen.get(name),
            _ => None,
        };
        let told = sum(&of, find, |_| false);
        let (cost, critical) = (273, true);
        assert_eq!(told.tracked, Sum { cost, critical });
        let failing = "track c: it is so; track a: it is so; track b: it is so";
        assert_eq!(
            (told.failing.as_str(), told.because.as_str()),
            (failing, failing)
        );
        let eth4 = Tracked::Interface("eth4".to_owned());
        let told = sum(&of, find, |track| track.what == eth4);
        assert_eq!(told.because, "track d: it is so");
    }

    #[test]
    fn nothing_that_fails_costs_nothing() {
        let told = sum(&tracks(&[("a", "eth1", Failure::Bars)]), |_| None, |_| true);
        assert_eq!(told.tracked, Sum::default());
        assert_eq!(told.because, "nothing that is tracked fails");
        assert_eq!(told.failing, "");
    }
}
