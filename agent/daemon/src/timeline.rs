//! The last failover of a VIP from this host's records. No I/O.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use kedge_control::local::{Stamp, Timeline, TimelineItem};
use kedge_core::vip::RouterState;
use kedge_host::wall;

use crate::history::{Record, What};

/// Tells the last move among `records`, which are of one VIP and one boot, oldest first.
pub(crate) fn timeline<'a>(
    host: &str,
    vip: &str,
    sources: Vec<IpAddr>,
    records: impl Iterator<Item = &'a Record>,
) -> Timeline {
    let mut timeline = Timeline {
        host: host.to_owned(),
        vip: vip.to_owned(),
        sources,
        clocks: vec![format!("every stamp is of {host}'s own clock")],
        items: Vec::new(),
    };
    let all: Vec<&Record> = records.collect();
    let Some(last) = all.iter().rposition(|record| record.is_move()) else {
        return timeline;
    };
    let all = one_move(&all, last);
    // A record's wall clock is read a little after its stamp, never before.
    let offsets = all
        .iter()
        .map(|record| record.unix_micros.wrapping_sub(record.boottime_micros));
    let offset = offsets.min().unwrap_or_default();
    let mut stamped: Vec<(u64, TimelineItem)> = Vec::new();
    for record in all {
        let mut stamp = |at: u64, stamp: Stamp, peer: Option<IpAddr>, text: String| {
            let wall = SystemTime::UNIX_EPOCH + Duration::from_micros(at.wrapping_add(offset));
            let item = TimelineItem {
                at: wall::rfc3339_micros(wall),
                host: host.to_owned(),
                stamp,
                peer,
                text,
            };
            stamped.push((at, item));
        };
        tell(record, &mut stamp);
    }
    // A timer that fired is why the state changed at the same instant.
    stamped.sort_by_key(|(at, item)| (*at, item.stamp == Stamp::State));
    timeline.items = stamped.into_iter().map(|(_, item)| item).collect();
    timeline
}

/// The records around one of them with no long pause between two.
fn one_move<'a>(all: &'a [&'a Record], around: usize) -> &'a [&'a Record] {
    let near = |pair: &[&Record]| match pair {
        [one, two] => two.boottime_micros.saturating_sub(one.boottime_micros) <= PAUSE,
        _ => false,
    };
    let (before, after) = all.split_at(around);
    let mut begin = before.len();
    while begin > 0 && all.get(begin - 1..=begin).is_some_and(near) {
        begin -= 1;
    }
    let follow = after.windows(2).take_while(|pair| near(pair)).count();
    all.get(begin..=around + follow).unwrap_or_default()
}

fn tell(record: &Record, stamp: &mut impl FnMut(u64, Stamp, Option<IpAddr>, String)) {
    let now = record.boottime_micros;
    match &record.what {
        What::State { from, to, because } => {
            let kind = match to {
                RouterState::Releasing => Stamp::GoodbyeSent,
                RouterState::Initialize
                | RouterState::Backup
                | RouterState::Active
                | RouterState::Fault => Stamp::State,
            };
            stamp(now, kind, None, format!("{from} -> {to}: {because}"));
        }
        What::Ordered { what } => stamp(now, Stamp::Order, None, what.clone()),
        What::Heard {
            peer,
            goodbye: true,
        } => {
            let text = format!("{peer} said that it leaves");
            stamp(now, Stamp::GoodbyeHeard, Some(*peer), text);
        }
        What::Heard {
            peer,
            goodbye: false,
        } => {
            let text = format!("first advertisement received from {peer}");
            stamp(now, Stamp::AdvertHeard, Some(*peer), text);
        }
        What::TakenOver {
            before,
            goodbye,
            interval_micros,
            down_micros,
            due,
            fired,
            advertised,
            held,
            announced,
        } => {
            if let Some((peer, at)) = before {
                let text = format!("last advertisement received from {peer}");
                stamp(*at, Stamp::LastHeard, Some(*peer), text);
            }
            let late = millis(fired.saturating_sub(*due));
            let skew = down_micros.saturating_sub(3 * interval_micros);
            let after = before.map(|(_, at)| due.saturating_sub(at));
            let text = match after {
                _ if goodbye.is_some() => format!(
                    "take-over timer fired (skew {} after the goodbye, +{late} scheduling)",
                    millis(skew)
                ),
                Some(after) if after + 1 >= *down_micros => format!(
                    "Active_Down_Timer fired (3 x {} + skew {} = {}, +{late} scheduling)",
                    millis(*interval_micros),
                    millis(skew),
                    millis(*down_micros),
                ),
                Some(_) => format!("take-over timer fired (+{late} scheduling)"),
                None => format!("nobody was heard, take-over timer fired (+{late} scheduling)"),
            };
            stamp(*fired, Stamp::TimerFired, None, text);
            for (at, kind, text) in [
                (advertised, Stamp::AdvertSent, "first advertisement sent"),
                (held, Stamp::AddressHeld, "the kernel holds every address"),
                (announced, Stamp::Announced, "first announcement sent"),
            ] {
                if let Some(at) = at {
                    stamp(*at, kind, None, text.to_owned());
                }
            }
        }
    }
}

fn millis(micros: u64) -> String {
    let millis = Duration::from_micros(micros).as_secs_f64() * 1_000.0;
    if millis.fract() == 0.0 {
        format!("{millis:.0} ms")
    } else {
        format!("{millis:.1} ms")
    }
}

/// Records with a longer pause between them, in microseconds, are of different moves.
const PAUSE: u64 = 3_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(millis: u64, what: What) -> Record {
        Record {
            vip: "api".to_owned(),
            unix_micros: 1_700_000_000_000_000 + millis * 1_000,
            boottime_micros: 100_000_000 + millis * 1_000,
            boot_id: "boot".to_owned(),
            what,
        }
    }

    #[test]
    fn a_failover_is_told_stamp_by_stamp_with_what_the_timer_waited_for() {
        let peer: IpAddr = "10.20.14.12".parse().unwrap();
        let at = |micros: u64| 100_000_000 + micros;
        let because = "10.20.14.12 has not been heard for 324 ms".to_owned();
        let records = [
            record(
                0,
                What::Heard {
                    peer,
                    goodbye: false,
                },
            ),
            record(
                60_425,
                What::State {
                    from: RouterState::Backup,
                    to: RouterState::Active,
                    because,
                },
            ),
            record(
                60_427,
                What::TakenOver {
                    before: Some((peer, at(60_101_000))),
                    goodbye: None,
                    interval_micros: 100_000,
                    down_micros: 322_000,
                    due: at(60_423_000),
                    fired: at(60_425_000),
                    advertised: Some(at(60_425_100)),
                    held: Some(at(60_426_100)),
                    announced: Some(at(60_426_500)),
                },
            ),
        ];
        let timeline = timeline("edge-a", "api", vec![peer], records.iter());
        let told: Vec<String> = timeline
            .items
            .iter()
            .map(|item| format!("{} {}", item.at.get(17..).unwrap(), item.text))
            .collect();
        assert_eq!(
            told,
            [
                "20.101000Z last advertisement received from 10.20.14.12",
                "20.425000Z Active_Down_Timer fired (3 x 100 ms + skew 22 ms = 322 ms, +2 ms \
                 scheduling)",
                "20.425000Z Backup -> Active: 10.20.14.12 has not been heard for 324 ms",
                "20.425100Z first advertisement sent",
                "20.426100Z the kernel holds every address",
                "20.426500Z first announcement sent",
            ]
        );
    }

    #[test]
    fn without_a_move_there_is_nothing_to_tell() {
        let none = timeline("edge-a", "api", Vec::new(), [].iter());
        assert!(none.items.is_empty());
    }
}
