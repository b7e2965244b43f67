//! What BGP speakers say: nothing panics, nothing is read past what was declared, and what can be
//! read is written so that it reads back.

use std::collections::BTreeMap;

use kedge_vip_proto::wire::bgp::{
    Action, Attributes, Context, Frame, Kind, Message, Prefix, Update, announce, withdraw,
};

/// A byte of what was agreed on, then a stream.
pub fn bgp_message(bytes: &[u8]) {
    let Some((first, mut stream)) = bytes.split_first() else {
        return;
    };
    let context = context(*first);
    while let Ok(Some((frame, rest))) = Frame::split(stream) {
        assert!(rest.len() < stream.len(), "a message without bytes");
        let consumed = &stream[..stream.len() - rest.len()];
        assert_eq!(&consumed[19..], frame.body, "not what it is");
        stream = rest;
        let Ok(message) = Message::parse(&frame, &context) else {
            return;
        };
        let mut written = Vec::new();
        match &message {
            Message::Open(open) => open.put(&mut written),
            Message::Notification(notification) => {
                let _ = notification.to_string();
                notification.put(&mut written);
            }
            Message::RouteRefresh(refresh) => refresh.put(&mut written),
            Message::Keepalive => continue,
            Message::Update(update) => {
                again(update, &context);
                continue;
            }
        }
        let (frame, rest) = Frame::split(&written).unwrap().unwrap();
        assert!(rest.is_empty());
        assert_eq!(Message::parse(&frame, &context).unwrap(), message);
    }
}

/// A byte of what was agreed on, then what follows the header of an UPDATE.
pub fn bgp_update(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    let context = context(*first);
    let kind = Kind::Update;
    match Message::parse(&Frame { kind, body }, &context) {
        Ok(Message::Update(update)) => again(&update, &context),
        Ok(message) => panic!("{message:?}"),
        Err(refusal) => assert_eq!(refusal.fault.unwrap().action, Action::SessionReset),
    }
}

fn context(byte: u8) -> Context {
    Context {
        internal: byte & 1 == 1,
        four_octet: byte & 2 == 2,
        extended_next_hop: byte & 4 == 4,
    }
}

/// Writes what was read, and reads it.
fn again(update: &Update, context: &Context) {
    let refused = update.action() == Some(Action::TreatAsWithdraw);
    assert_eq!(update.attributes.is_some(), !update.announced.is_empty());
    assert!(!refused || update.announced.is_empty());
    assert!(refused || update.refused.is_empty());
    for fault in &update.faults {
        assert_ne!(fault.action, Action::SessionReset);
        let _ = fault.to_string();
    }
    let read = |bytes: &[u8]| {
        let mut all = Vec::new();
        let mut stream = bytes;
        while let Some((frame, rest)) = Frame::split(stream).unwrap() {
            let Message::Update(update) = Message::parse(&frame, context).unwrap() else {
                panic!("no UPDATE");
            };
            all.push(update);
            stream = rest;
        }
        assert!(stream.is_empty());
        all
    };
    let withdrawn = read(&withdraw(&update.withdrawn).bytes);
    let mut back: Vec<Prefix> = withdrawn
        .into_iter()
        .flat_map(|one| one.withdrawn)
        .collect();
    let mut there = update.withdrawn.clone();
    back.sort_unstable();
    there.sort_unstable();
    assert_eq!(back, there);
    let Some(attributes) = &update.attributes else {
        return;
    };
    // What is for peers of one autonomous system is not sent to others, and the other way round.
    let attributes = Attributes {
        local_pref: attributes.local_pref.filter(|_| context.internal),
        ..attributes.clone()
    };
    let mut hops: BTreeMap<_, Vec<Prefix>> = BTreeMap::new();
    for route in &update.announced {
        hops.entry(route.next_hop).or_default().push(route.prefix);
    }
    for (hop, mut prefixes) in hops {
        let Ok(messages) = announce(&attributes, hop, &prefixes, context.four_octet) else {
            continue;
        };
        let mut back = Vec::new();
        for update in read(&messages.bytes) {
            assert_eq!(update.faults, []);
            let found = update.attributes.unwrap();
            assert_eq!(found.as_path.hops(), attributes.as_path.hops());
            let expected = Attributes {
                as_path: found.as_path.clone(),
                ..attributes.clone()
            };
            assert_eq!(found, expected);
            back.extend(update.announced.iter().map(|route| route.prefix));
        }
        prefixes.sort_unstable();
        back.sort_unstable();
        assert_eq!(back, prefixes);
    }
}
