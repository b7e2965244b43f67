//! A session on its own, with what it says in words.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use kedge_core::{
    Instant, Machine,
    bgp::{Asn, RouterId},
};

use crate::{
    bgp::{Config, Input, Offer, Offers, Output, Place, Reject, Session, Side},
    wire::bgp::{
        AsPath, Attributes, Capability, Context, Family, Frame, HoldTime, Message, NextHop,
        Notification, Open, Prefix, Refusal, Route, Update,
    },
};

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

pub(super) fn asn(number: u32) -> Asn {
    Asn::new(number).unwrap()
}

pub(super) fn id(last: u32) -> RouterId {
    RouterId::new(0x0a00_0000 + last).unwrap()
}

pub(super) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// We are 10.0.0.5 of 65001, the neighbour is 10.0.0.9 of 65014.
pub(super) fn config() -> Config {
    Config::new(asn(65_001), asn(65_014), id(5))
}

pub(super) fn place() -> Place {
    Place {
        v4: Some("10.0.0.5".parse().unwrap()),
        v6: Some("2001:db8::5".parse().unwrap()),
        link_local: Some("fe80::5".parse().unwrap()),
    }
}

pub(super) fn offers(texts: &[&str]) -> Arc<Offers> {
    Arc::new(
        texts
            .iter()
            .map(|text| (prefix(text), Offer::default()))
            .collect(),
    )
}

/// The neighbour's OPEN.
pub(super) fn open() -> Open {
    Open {
        asn: asn(65_014),
        hold_time: HoldTime::from_secs(180).unwrap(),
        router_id: id(9),
        capabilities: vec![
            Capability::of(Family::Ipv4),
            Capability::of(Family::Ipv6),
            Capability::RouteRefresh,
            Capability::EnhancedRouteRefresh,
            Capability::FourOctetAs(asn(65_014)),
        ],
    }
}

/// A session and the moment it is in.
#[derive(Clone)]
pub(super) struct Bench {
    pub session: Session,
    pub now: Instant,
}

impl Bench {
    pub(super) fn new(config: Config) -> Self {
        Self {
            session: Session::new(at(0), config, offers(&["192.0.2.10"]), 7),
            now: at(0),
        }
    }

    /// What comes of an input, in words; a refusal too.
    pub(super) fn input(&mut self, input: Input) -> Vec<String> {
        match self.session.handle_input(self.now, input) {
            Ok(()) => self.drain(),
            Err(reject) => vec![format!("refused: {}", reject.label())],
        }
    }

    pub(super) fn try_input(&mut self, input: Input) -> Result<Vec<String>, Reject> {
        self.session.handle_input(self.now, input)?;
        Ok(self.drain())
    }

    /// Goes on to a moment and acts on what is due by then, as often as it is.
    pub(super) fn until(&mut self, millis: u64) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= at(millis)) {
            self.now = self.now.max(due);
            self.session.handle_timeout(self.now);
            all.extend(self.drain());
        }
        self.now = at(millis);
        all
    }

    pub(super) fn hear(&mut self, side: Side, message: Message) -> Vec<String> {
        self.input(Input::Heard(side, Ok(message)))
    }

    pub(super) fn hear_flawed(&mut self, side: Side, code: u8, subcode: u8) -> Vec<String> {
        let refusal = Refusal::from(Notification::new(code, subcode, Vec::new()));
        self.input(Input::Heard(side, Err(refusal)))
    }

    /// Everything that was sent was taken.
    pub(super) fn taken(&mut self, side: Side) -> Vec<String> {
        self.input(Input::Written(side, true))
    }

    /// Up to where both agree, over a call of ours.
    pub(super) fn established(config: Config) -> Self {
        Self::established_with(config, open(), place())
    }

    pub(super) fn established_with(config: Config, open: Open, place: Place) -> Self {
        let mut bench = Self::new(config);
        bench.drain();
        bench.input(Input::Connected(place));
        bench.taken(Side::Ours);
        bench.hear(Side::Ours, Message::Open(open));
        bench.taken(Side::Ours);
        bench.hear(Side::Ours, Message::Keepalive);
        bench.taken(Side::Ours);
        bench
    }

    pub(super) fn drain(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_output())
            .flat_map(|output| said(&output))
            .collect()
    }

    /// When it acts next, in milliseconds.
    pub(super) fn next(&self) -> String {
        match self.session.poll_timeout() {
            Some(due) => format!("acts at {:.3} s", due.since(at(0)).as_secs_f64()),
            None => "waits".to_owned(),
        }
    }
}

/// An output in words, a line each.
pub(super) fn said(output: &Output) -> Vec<String> {
    match output {
        Output::Dial => vec!["dial".to_owned()],
        Output::HangUp => vec!["hang up".to_owned()],
        Output::Close(side) => vec![format!("close {}", name(*side))],
        Output::Event(event) => vec![format!("{} -> {}: {}", event.from, event.to, event.because)],
        Output::Ended => vec!["ended".to_owned()],
        Output::Send(side, bytes) => {
            let context = |internal, four_octet| Context {
                internal,
                four_octet,
                extended_next_hop: true,
            };
            let mut rest = bytes.as_slice();
            let mut all = Vec::new();
            while let Some((frame, after)) = Frame::split(rest).unwrap() {
                // For a peer of our autonomous system or of another one, of either width: it is
                // right for one of them alone.
                let ways = [(true, true), (false, true), (false, false)];
                let mut ways = ways.into_iter().map(|(internal, four_octet)| {
                    Message::parse(&frame, &context(internal, four_octet)).unwrap()
                });
                let message = ways.find(|message| !matches!(message, Message::Update(update) if !update.faults.is_empty())).unwrap();
                all.push(format!("{}: {}", name(*side), words(&message)));
                rest = after;
            }
            assert!(rest.is_empty());
            all
        }
    }
}

pub(super) const fn name(side: Side) -> &'static str {
    match side {
        Side::Ours => "ours",
        Side::Theirs => "theirs",
    }
}

pub(super) fn words(message: &Message) -> String {
    match message {
        Message::Open(open) => format!("OPEN {} hold {}", open.asn, open.hold_time),
        Message::Keepalive => "KEEPALIVE".to_owned(),
        Message::Notification(notification) => format!("NOTIFICATION {notification}"),
        Message::RouteRefresh(refresh) => format!(
            "REFRESH {:?} {:?}",
            refresh.family().unwrap(),
            refresh.subtype
        ),
        Message::Update(update) => update_words(update),
    }
}

fn update_words(update: &Update) -> String {
    if let Some(family) = update.end_of_rib {
        return format!("END {family}");
    }
    let mut text = String::new();
    for prefix in &update.withdrawn {
        write!(text, "-{prefix} ").unwrap();
    }
    for route in update.announced.iter() {
        write!(text, "+{} via {} ", route.prefix, route.next_hop).unwrap();
    }
    assert_eq!(update.faults, []);
    if let Some(attributes) = &update.attributes {
        write!(text, "path [{}]", attributes.as_path).unwrap();
        for community in &attributes.communities {
            write!(text, " {community}").unwrap();
        }
        if let Some(med) = attributes.med {
            write!(text, " med {med}").unwrap();
        }
        if let Some(preference) = attributes.local_pref {
            write!(text, " pref {preference}").unwrap();
        }
    }
    text.trim_end().to_owned()
}

/// A hold time.
pub(super) fn secs(seconds: u16) -> HoldTime {
    HoldTime::from_secs(seconds).unwrap()
}

/// An UPDATE that announces routes.
pub(super) fn announced(texts: &[&str]) -> Update {
    let route = |text: &&str| Route {
        prefix: prefix(text),
        next_hop: NextHop::V4("10.0.0.9".parse().unwrap()),
    };
    Update {
        announced: texts.iter().map(route).collect(),
        attributes: Some(Attributes::new(AsPath::default())),
        ..Update::default()
    }
}
