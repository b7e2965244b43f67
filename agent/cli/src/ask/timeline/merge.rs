//! Timelines of several hosts on one clock. No I/O.
//!
//! An advertisement that A sent at its clock and B received at its own says
//! `heard - sent = offset + way`, and no way takes less than no time: one from A to B bounds the
//! offset from above, one from B to A from below.

use jiff::{SignedDuration, Timestamp};
use kedge_control::local::{Stamp, Timeline, TimelineItem};

/// Puts every timeline on the clock of the first.
///
/// # Errors
///
/// They are not of different hosts and one VIP; the sentence says which.
pub(super) fn merge(timelines: Vec<Timeline>) -> Result<Timeline, String> {
    let mut rest = timelines.into_iter();
    let Some(mut merged) = rest.next() else {
        return Err("there is no timeline to show".to_owned());
    };
    let first = merged.clone();
    let mut hosts = vec![first.host.clone()];
    merged.clocks = vec![format!("{}: its clock is the one that counts", first.host)];
    for other in rest {
        if hosts.contains(&other.host) {
            let host = other.host.escape_debug();
            return Err(format!("two timelines are of the host `{host}`"));
        }
        if other.vip != first.vip {
            let (one, two) = (first.vip.escape_debug(), other.vip.escape_debug());
            return Err(format!("one timeline is of `{one}`, another of `{two}`"));
        }
        let offset = offset(&first, &other);
        merged
            .clocks
            .push(format!("{}: {}", other.host, offset.told()));
        let by = offset.micros();
        hosts.push(other.host);
        merged
            .items
            .extend(other.items.into_iter().map(|item| TimelineItem {
                at: earlier(&item.at, by),
                ..item
            }));
    }
    merged.items.sort_by_key(|item| micros(&item.at));
    Ok(merged)
}

/// How far a clock is ahead of the first one, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    /// From both ways: in the middle, wrong by this much at most.
    Within(i64, i64),
    /// From one way, as if it took no time.
    OneWay(i64),
    /// The two ways cannot both be true.
    Contradiction,
    /// No advertisement was recorded at both ends.
    Unknown,
}

impl Offset {
    const fn micros(self) -> i64 {
        match self {
            Self::Within(by, _) | Self::OneWay(by) => by,
            Self::Contradiction | Self::Unknown => 0,
        }
    }

    fn told(self) -> String {
        match self {
            Self::Within(by, error) => {
                format!("offset corrected ({}, ±{})", signed(by), millis(error))
            }
            Self::OneWay(by) => format!(
                "offset corrected ({}, from one advertisement, whose way is counted as no time)",
                signed(by)
            ),
            Self::Contradiction => {
                "not corrected: what both recorded contradicts itself".to_owned()
            }
            Self::Unknown => "not corrected: no advertisement was recorded by both".to_owned(),
        }
    }
}

fn offset(first: &Timeline, other: &Timeline) -> Offset {
    let above = exchange(first, other);
    let below = exchange(other, first).map(|way| -way);
    match (below, above) {
        (Some(below), Some(above)) if below <= above => {
            Offset::Within(below.midpoint(above), (above - below + 1) / 2)
        }
        (Some(_), Some(_)) => Offset::Contradiction,
        (Some(only), None) | (None, Some(only)) => Offset::OneWay(only),
        (None, None) => Offset::Unknown,
    }
}

/// The shortest `heard - sent` of what one sent and the other heard, in microseconds: of the last of
/// each kind.
fn exchange(from: &Timeline, to: &Timeline) -> Option<i64> {
    let pairs = [
        (Stamp::AdvertSent, Stamp::AdvertHeard),
        (Stamp::GoodbyeSent, Stamp::GoodbyeHeard),
    ];
    let ways = pairs.into_iter().filter_map(|(sent, heard)| {
        let sent = stamps(from, sent).next_back()?;
        let mut heard = stamps(to, heard).rev();
        let heard = heard.find(|item| {
            item.peer.is_some_and(|peer| from.sources.contains(&peer)) && listened_before(to, item)
        })?;
        Some(micros(&heard.at)? - micros(&sent.at)?)
    });
    ways.filter(|way| way.abs() < FURTHEST).min()
}

fn stamps(timeline: &Timeline, stamp: Stamp) -> impl DoubleEndedIterator<Item = &TimelineItem> {
    let items = timeline.items.iter();
    items.filter(move |item| item.stamp == stamp)
}

/// Whether a host was there already when the other may have sent: one that was started in between
/// heard a later advertisement first.
fn listened_before(timeline: &Timeline, item: &TimelineItem) -> bool {
    let mut before = timeline
        .items
        .iter()
        .rev()
        .skip_while(|known| *known != item);
    before.next();
    let started = |known: &&TimelineItem| {
        known.stamp == Stamp::State && known.text.starts_with("Initialize -> ")
    };
    // The last advert that was heard is told by the take-over after it.
    before
        .find(|known| !matches!(known.stamp, Stamp::Order | Stamp::LastHeard))
        .is_none_or(|known| !started(&known))
}

fn micros(at: &str) -> Option<i64> {
    let at: Timestamp = at.parse().ok()?;
    Some(at.as_microsecond())
}

fn earlier(at: &str, micros: i64) -> String {
    let moved = at
        .parse::<Timestamp>()
        .ok()
        .and_then(|at| at.checked_sub(SignedDuration::from_micros(micros)).ok());
    moved.map_or_else(|| at.to_owned(), |at| format!("{at:.6}"))
}

fn signed(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "+" };
    format!("{sign}{}", millis(micros.saturating_abs()))
}

fn millis(micros: i64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "of hours of microseconds nothing is lost"
    )]
    let micros = micros as f64;
    format!("{:.1} ms", micros / 1_000.0)
}

/// Clocks further apart are not compared by advertisements.
const FURTHEST: i64 = 3_600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(host: &str, source: [u8; 4], items: &[(i64, Stamp, Option<[u8; 4]>)]) -> Timeline {
        let at = |micros: i64| {
            let at = Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap();
            format!("{at:.6}")
        };
        let item = |(micros, stamp, peer): &(i64, Stamp, Option<[u8; 4]>)| TimelineItem {
            at: at(*micros),
            host: host.to_owned(),
            stamp: *stamp,
            peer: peer.map(Into::into),
            text: format!("{stamp:?}"),
        };
        Timeline {
            host: host.to_owned(),
            vip: "api".to_owned(),
            sources: vec![source.into()],
            clocks: Vec::new(),
            items: items.iter().map(item).collect(),
        }
    }

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 0, 0, 2];

    /// B gives the VIP to A; its clock is 5 s ahead, each way takes 200 µs.
    fn release() -> (Timeline, Timeline) {
        let a = timeline(
            "a",
            A,
            &[
                (1_200, Stamp::GoodbyeHeard, Some(B)),
                (20_000, Stamp::AdvertSent, None),
            ],
        );
        let b = timeline(
            "b",
            B,
            &[
                (5_001_000, Stamp::GoodbyeSent, None),
                (5_020_200, Stamp::AdvertHeard, Some(A)),
            ],
        );
        (a, b)
    }

    #[test]
    fn a_goodbye_and_its_answer_put_two_clocks_together_within_their_way() {
        let (a, b) = release();
        let merged = merge(vec![a, b]).unwrap();
        assert_eq!(
            merged.clocks[1],
            "b: offset corrected (+5000.0 ms, ±0.2 ms)"
        );
        let order: Vec<_> = merged
            .items
            .iter()
            .map(|item| (item.host.as_str(), item.stamp))
            .collect();
        assert_eq!(
            order,
            [
                ("b", Stamp::GoodbyeSent),
                ("a", Stamp::GoodbyeHeard),
                ("a", Stamp::AdvertSent),
                ("b", Stamp::AdvertHeard),
            ]
        );
    }

    #[test]
    fn one_way_alone_is_said_to_be_one_and_none_is_not_corrected() {
        let (mut a, b) = release();
        a.items.remove(0);
        let merged = merge(vec![a.clone(), b.clone()]).unwrap();
        assert_eq!(
            merged.clocks[1],
            "b: offset corrected (+5000.2 ms, from one advertisement, whose way is counted as no \
             time)"
        );
        a.items.clear();
        let merged = merge(vec![a, b]).unwrap();
        assert!(merged.clocks[1].contains("not corrected"), "{merged:?}");
        assert_eq!(merged.items[0].at, "2023-11-14T22:13:25.001000Z");
    }

    #[test]
    fn what_cannot_both_be_true_corrects_nothing() {
        let (mut a, b) = release();
        // The goodbye was heard before it was sent, whatever the offset.
        a.items[0].at = "2023-11-14T22:13:19.900000Z".to_owned();
        assert_eq!(offset(&a, &b), Offset::Contradiction);
    }

    #[test]
    fn who_was_started_in_between_heard_a_later_advertisement_first() {
        let (a, mut b) = release();
        b.items.remove(0);
        b.items.insert(
            0,
            TimelineItem {
                stamp: Stamp::State,
                text: "Initialize -> Backup: the agent started".to_owned(),
                ..b.items[0].clone()
            },
        );
        assert_eq!(offset(&a, &b), Offset::Unknown);
    }

    #[test]
    fn timelines_that_do_not_belong_together_are_refused() {
        let (a, mut b) = release();
        let twice = merge(vec![a.clone(), a.clone()]).unwrap_err();
        assert_eq!(twice, "two timelines are of the host `a`");
        b.vip = "web".to_owned();
        let other = merge(vec![a, b]).unwrap_err();
        assert_eq!(other, "one timeline is of `api`, another of `web`");
        assert!(merge(Vec::new()).is_err());
    }
}
