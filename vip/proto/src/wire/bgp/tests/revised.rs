//! RFC 7606: every attribute, every way to be wrong, from every kind of peer.

use super::builder::{EXTERNAL, HOST, INTERNAL, Raw, body, mandatory, raw, read};
use crate::wire::bgp::{Action, AttributeCode, Context, Flaw, codes};

/// What each is done about. `.`: nothing; D: the attribute is discarded; W: the routes count as
/// taken back; R: the session ends; `-`: there is no such way. Two letters are for a peer of
/// another autonomous system and for one of ours.
///
/// * right: nothing is wrong with it
/// * optional, transitive: the flag is not what it must be
/// * empty, short, long: of its value nothing is left, the last byte is missing, one is too many
/// * twice: it comes again; gone: it is not there
/// * over: it is the last one, and claims one byte more than there are
/// * value: of the right length, and nonsense
const TABLE: &str = "
attribute                  right optional transitive empty short long twice gone over value
ORIGIN                     .     W        W          W     W     W    D     W    W    W
AS_PATH                    .     W        W          .     W     W    D     W    W    W
NEXT_HOP                   .     W        W          W     W     W    D     W    W    W
MULTI_EXIT_DISC            .     W        W          W     W     W    D     .    W    -
LOCAL_PREF                 D.    W        W          W     DW    DW   D     .W   W    -
ATOMIC_AGGREGATE           .     W        W          .     -     D    D     .    W    -
AGGREGATOR                 .     W        W          W     D     D    D     .    W    D
COMMUNITIES                .     W        W          W     W     W    D     .    W    -
ORIGINATOR_ID              D.    W        W          W     DW    DW   D     .    W    -
CLUSTER_LIST               D.    W        W          W     DW    DW   D     .    W    -
MP_REACH_NLRI              .     R        R          R     R     R    R     .    R    R
MP_UNREACH_NLRI            .     R        R          R     R     R    R     .    R    R
EXTENDED COMMUNITIES       .     W        W          W     W     W    D     .    W    -
AS4_PATH                   D     W        W          W     D     D    D     .    W    D
AS4_AGGREGATOR             D     W        W          W     D     D    D     .    W    D
IPV6 EXTENDED COMMUNITIES  .     W        W          W     W     W    D     .    W    -
LARGE_COMMUNITY            .     W        W          W     W     W    D     .    W    -
attribute 99               .     R        .          .     .     .    D     .    W    -
";

/// The same from a peer that speaks AS numbers of two bytes, where that changes something.
const TWO_BYTES: &str = "
attribute                  right optional transitive empty short long twice gone over value
AS_PATH                    .     W        W          .     W     W    D     W    W    W
AGGREGATOR                 .     W        W          W     D     D    D     .    W    D
AS4_PATH                   .     W        W          W     D     D    D     .    W    D
AS4_AGGREGATOR             .     W        W          W     D     D    D     .    W    D
";

/// A right one, and a value that is nonsense.
fn sample(code: u8, context: &Context) -> (Raw, Option<Vec<u8>>) {
    let wide = |long: &[u8], short: &[u8]| {
        if context.four_octet {
            long.to_vec()
        } else {
            short.to_vec()
        }
    };
    let host = [192, 0, 2, 9];
    let (flags, value, nonsense) = match code {
        1 => (0x40, vec![2], Some(vec![3])),
        2 => {
            let right = wide(
                &[2, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 7],
                &[2, 1, 0, 9, 1, 1, 0, 7],
            );
            let nonsense = wide(&[3, 1, 0, 0, 0, 9], &[3, 1, 0, 9]);
            (0x40, right, Some(nonsense))
        }
        3 => (0x40, host.to_vec(), Some(vec![0; 4])),
        4 => (0x80, vec![0, 0, 0, 9], None),
        5 => (0x40, vec![0, 0, 0, 200], None),
        6 => (0x40, vec![], None),
        7 | 18 => {
            let long = [&[0, 1, 0, 0], host.as_slice()].concat();
            let short = [&[0x5b, 0xa0], host.as_slice()].concat();
            let right = if code == 18 {
                long
            } else {
                wide(&long, &short)
            };
            let mut nonsense = right.clone();
            let asn = right.len() - 4;
            nonsense[..asn].fill(0);
            (0xc0, right, Some(nonsense))
        }
        8 => (0xc0, vec![0xff, 0xff, 0, 0, 0xfd, 0xf6, 0, 1], None),
        9 => (0x80, host.to_vec(), None),
        10 => (0x80, [host, host].concat(), None),
        14 => {
            let mut right = vec![0, 2, 1, 16];
            right.extend([0x20; 16]);
            right.extend([0, 128]);
            right.extend([0x20; 16]);
            let mut nonsense = right.clone();
            nonsense[3] = 5;
            (0x80, right, Some(nonsense))
        }
        15 => {
            let mut right = vec![0, 2, 1, 128];
            right.extend([0x20; 16]);
            let mut nonsense = right.clone();
            nonsense[3] = 129;
            (0x80, right, Some(nonsense))
        }
        16 => (0xc0, vec![0, 2, 0xfd, 0xf6, 0, 0, 0, 1], None),
        17 => (0xc0, vec![2, 1, 0, 1, 0, 0], Some(vec![2, 1, 0, 0, 0, 0])),
        25 => (0xc0, vec![1; 20], None),
        32 => (0xc0, vec![2; 24], None),
        99 => (0xc0, vec![1, 2, 3], None),
        _ => panic!("{code}"),
    };
    (raw(flags, code, &value), nonsense)
}

/// What a way to be wrong makes of an attribute, or none of it.
fn bend(way: &str, code: u8, context: &Context) -> Option<Vec<Raw>> {
    let (right, nonsense) = sample(code, context);
    let with = |change: fn(&mut Raw)| {
        let mut bent = right.clone();
        change(&mut bent);
        Some(vec![bent])
    };
    match way {
        "right" => Some(vec![right]),
        "optional" => with(|raw| raw.flags ^= 0x80),
        "transitive" => with(|raw| raw.flags ^= 0x40),
        "empty" => with(|raw| raw.value.clear()),
        "short" if right.value.is_empty() => None,
        "short" => with(|raw| raw.value.truncate(raw.value.len() - 1)),
        "long" => with(|raw| raw.value.push(0xff)),
        "twice" => Some(vec![right.clone(), right]),
        "gone" => Some(vec![]),
        "over" => with(|raw| raw.excess = 1),
        "value" => Some(vec![Raw {
            value: nonsense?,
            ..right
        }]),
        _ => panic!("{way}"),
    }
}

/// The letter of what is done about it, beside a route of IPv4 that is right.
fn done(bent: &[Raw], code: u8, context: &Context) -> char {
    let mut all: Vec<Raw> = mandatory(context);
    all.retain(|raw| raw.code != code);
    all.extend(bent.iter().cloned());
    match read(&body(&[], &all, &HOST), context) {
        Err(refusal) => {
            assert_eq!(refusal.notification.code(), codes::UPDATE);
            let fault = refusal.fault.unwrap();
            assert_eq!(fault.action, Action::SessionReset);
            assert_eq!(fault.attribute, Some(AttributeCode(code)));
            'R'
        }
        Ok(update) => {
            let about =
                |fault: &crate::wire::bgp::Fault| fault.attribute == Some(AttributeCode(code));
            assert!(update.faults.iter().all(about), "{:?}", update.faults);
            let is_kept = update
                .announced
                .iter()
                .any(|route| route.prefix.to_string() == "192.0.2.1/32");
            let is_refused = update
                .refused
                .iter()
                .any(|prefix| prefix.to_string() == "192.0.2.1/32");
            assert!(is_kept != is_refused);
            match update.action() {
                None => '.',
                Some(Action::AttributeDiscard) => 'D',
                Some(Action::TreatAsWithdraw) => {
                    assert!(is_refused && update.announced.is_empty());
                    assert_eq!(update.attributes, None);
                    'W'
                }
                Some(Action::SessionReset) => panic!("a reset that is none"),
            }
        }
    }
}

fn check(table: &str, four_octet: bool) {
    let mut rows = table.lines().filter(|line| !line.is_empty());
    let header = rows.next().unwrap();
    let mut count = 0;
    for row in rows {
        let (name, cells) = row.split_at(26);
        let code = (0..=255)
            .find(|code| AttributeCode(*code).to_string() == name.trim())
            .unwrap();
        let ways = header.split_whitespace().skip(1);
        for (way, cell) in ways.zip(cells.split_whitespace()) {
            let [external, internal] = match *cell.chars().collect::<Vec<_>>() {
                [both] => [both, both],
                [external, internal] => [external, internal],
                _ => panic!("{cell}"),
            };
            for (context, expected) in [(EXTERNAL, external), (INTERNAL, internal)] {
                let context = Context {
                    four_octet,
                    ..context
                };
                let found = match bend(way, code, &context) {
                    Some(bent) => done(&bent, code, &context),
                    None => '-',
                };
                assert_eq!(found, expected, "{name} {way} {context:?}");
                count += 1;
            }
        }
    }
    assert_eq!(count % 20, 0, "a row has a cell too few");
}

#[test]
fn every_flaw_of_every_attribute_leads_to_what_the_table_says() {
    check(TABLE, true);
    check(TWO_BYTES, false);
}

#[test]
fn of_several_flaws_the_strongest_decides() {
    let mut all = mandatory(&EXTERNAL);
    all.push(raw(0x40, 5, &[0, 0, 0, 1]));
    all.push(raw(0xc0, 7, &[1]));
    let read_with = |more: &[Raw]| {
        let attributes = [all.clone(), more.to_vec()].concat();
        read(&body(&[], &attributes, &HOST), &EXTERNAL)
    };
    let update = read_with(&[]).unwrap();
    assert_eq!(update.action(), Some(Action::AttributeDiscard));
    assert_eq!(update.announced.len(), 1);
    let update = read_with(&[raw(0x80, 4, &[1])]).unwrap();
    assert_eq!(update.action(), Some(Action::TreatAsWithdraw));
    let flaws: Vec<Flaw> = update.faults.iter().map(|fault| fault.flaw).collect();
    assert_eq!(flaws, [Flaw::External, Flaw::Length, Flaw::Length]);
    let unknown = raw(0x40, 99, &[]);
    assert!(read_with(&[raw(0x80, 4, &[1]), unknown]).is_err());
}

/// RFC 7606 section 5.2.
#[test]
fn without_a_route_there_is_nothing_to_take_back() {
    // A flawed attribute and nothing that it belongs to.
    let flawed = [raw(0x80, 4, &[1])];
    let refusal = read(&body(&[], &flawed, &[]), &EXTERNAL).unwrap_err();
    assert_eq!(refusal.fault.unwrap().flaw, Flaw::NoRoute);
    assert_eq!(refusal.notification.subcode(), codes::ATTRIBUTE_LIST);
    // The same while it takes routes back.
    assert!(read(&body(&HOST, &flawed, &[]), &EXTERNAL).is_err());
    // What is merely discarded does no harm.
    let discarded = [raw(0x40, 6, &[1])];
    let update = read(&body(&HOST, &discarded, &[]), &EXTERNAL).unwrap();
    assert_eq!(update.action(), Some(Action::AttributeDiscard));
    assert_eq!(update.withdrawn.len(), 1);
    // Nor is anything missing.
    assert_eq!(read(&body(&HOST, &[], &[]), &EXTERNAL).unwrap().faults, []);
    let unreach = [raw(0x80, 15, &[0, 2, 1, 0])];
    assert_eq!(
        read(&body(&[], &unreach, &[]), &INTERNAL).unwrap().faults,
        []
    );
}

#[test]
fn what_it_took_back_stays_so_when_the_rest_is_refused() {
    let mut all = mandatory(&EXTERNAL);
    all.push(raw(0x80, 15, &[0, 2, 1, 0]));
    all.push(raw(0xc0, 8, &[1, 2, 3]));
    let update = read(&body(&[8, 10], &all, &HOST), &EXTERNAL).unwrap();
    let texts =
        |all: &[crate::wire::bgp::Prefix]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&update.withdrawn), ["10.0.0.0/8", "::/0"]);
    assert_eq!(texts(&update.refused), ["192.0.2.1/32"]);
}

#[test]
fn what_the_message_is_about_must_be_known() {
    let with = |body: &[u8]| read(body, &EXTERNAL).unwrap_err();
    // The parts are longer than the message.
    for body in [
        &[0, 1, 0, 0][..],
        &[0xff, 0xff, 0, 0],
        &[0, 0, 0, 1],
        &[0, 0, 0xff, 0xff],
        &[0, 1, 0, 0, 1],
    ] {
        let refusal = with(body);
        assert_eq!(refusal.fault.unwrap().flaw, Flaw::Lengths, "{body:?}");
        assert_eq!(refusal.notification.subcode(), codes::ATTRIBUTE_LIST);
    }
    // Destinations that are none.
    for body in [
        &[0, 1, 33, 0, 0][..],
        &[0, 2, 9, 10, 0, 0],
        &[0, 0, 0, 0, 33],
        &[0, 0, 0, 0, 24, 1, 2],
    ] {
        let refusal = with(body);
        assert_eq!(refusal.fault.unwrap().flaw, Flaw::Prefixes, "{body:?}");
        assert_eq!(refusal.notification.subcode(), codes::NETWORK);
    }
}

#[test]
fn a_header_without_room_is_an_overrun() {
    for rest in [&[0x40][..], &[0x40, 1], &[0x50, 1, 0], &[0x40, 1, 5, 0]] {
        let attributes: Vec<u8> = mandatory(&EXTERNAL)
            .iter()
            .flat_map(Raw::bytes)
            .chain(rest.iter().copied())
            .collect();
        let mut whole = vec![0, 0];
        whole.extend(u16::try_from(attributes.len()).unwrap().to_be_bytes());
        whole.extend(attributes);
        whole.extend(HOST);
        let update = read(&whole, &EXTERNAL).unwrap();
        assert_eq!(update.faults.last().unwrap().flaw, Flaw::Overrun);
        // Where they end was known all the same.
        assert_eq!(update.refused.len(), 1, "{rest:?}");
    }
}

#[test]
fn the_peer_is_sent_what_it_said_wrong() {
    let mut all = mandatory(&EXTERNAL);
    let unknown = raw(0x40, 99, &[1, 2]);
    all.push(unknown.clone());
    let refusal = read(&body(&[], &all, &HOST), &EXTERNAL).unwrap_err();
    assert_eq!(refusal.notification.subcode(), codes::UNRECOGNIZED);
    assert_eq!(refusal.notification.data(), unknown.bytes());
    let (right, nonsense) = sample(14, &EXTERNAL);
    let broken = Raw {
        value: nonsense.unwrap(),
        ..right
    };
    let refusal = read(&body(&[], std::slice::from_ref(&broken), &[]), &EXTERNAL).unwrap_err();
    assert_eq!(refusal.notification.subcode(), codes::OPTIONAL);
    assert_eq!(refusal.notification.data(), broken.bytes());
}

#[test]
fn what_is_read_says_what_is_wrong_in_words() {
    let update = read(&body(&[], &[], &HOST), &INTERNAL).unwrap();
    let words: Vec<String> = update.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "ORIGIN is missing",
            "AS_PATH is missing",
            "NEXT_HOP is missing",
            "LOCAL_PREF is missing"
        ]
    );
    assert_eq!(update.action().unwrap().to_string(), "treated as withdrawn");
}
