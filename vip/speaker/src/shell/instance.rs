//! One VIP: its router, where it is, and what people will ask about it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::SystemTime,
};

use kedge_core::{
    Instant, Machine, Name, Problem,
    vip::{AdvertInterval, RouterState, Vrid},
};
use kedge_net::{address::Place, arrival::ArrivalListener};
use kedge_vip_proto::vrrp::{
    Because, Config, Input, Link, Notice, Peer, Proof, Reject, Router, Tracked, Verdict, View,
    active_down,
};
use kedge_vip_proto::wire::vrrp::Heard;

use super::{
    interface::{Counters, Interface},
    place::Unplaced,
    problems,
    riders::Lacking,
    seal::Seal,
    stamps::Stamps,
};
use crate::{
    ActivePeer, Chosen, Duplicate, Ordered, Tracks, Transition, VipEvent, VipSnapshot, VipSpec,
    guardian::Slot, virtual_links::OwnLinks,
};

#[derive(Debug)]
pub(super) struct Instance {
    pub(super) spec: VipSpec,
    pub(super) router: Router,
    /// Its place on the page that the guardian reads.
    pub(super) slot: Option<Slot>,
    /// The keys, where adverts are signed.
    pub(super) seal: Option<Seal>,
    /// What follows once it has left.
    pub(super) next: Option<Next>,
    pub(super) place: Result<Chosen, Unplaced>,
    /// Since when that is without the address for which it was chosen.
    pub(super) bare_since: Option<Instant>,
    pub(super) link: Option<Link>,
    pub(super) held: Vec<Place>,
    /// Whether the links of its virtual hardware addresses are up.
    pub(super) raised: bool,
    pub(super) health: Option<(Verdict, String)>,
    pub(super) tracks: Option<Tracks>,
    /// Everything that fails of what it tracks and of the members it leads, in words.
    pub(super) burden: String,
    /// Who leads it, and what that one did last, in words.
    pub(super) led_by: Option<(Name, String)>,
    pub(super) counters: Counters,
    /// The last advert the kernel did not take: when, and its error number.
    pub(super) send_error: Option<(Instant, i32)>,
    /// The longer interval it will have, once the fence allows for it.
    pub(super) slower: Option<AdvertInterval>,
    /// What the kernel refused of the addresses that go along, while the VIP is here.
    pub(super) lacking: Lacking,
    /// Why the kernel did not take the address.
    pub(super) refusal: Option<Problem>,
    /// Looks for packets to its addresses, while the router wants to know.
    pub(super) arrivals: Option<ArrivalListener>,
    /// When what happened of the take-over under way.
    pub(super) stamps: Stamps,
    since: SystemTime,
    history: VecDeque<Transition>,
    /// The same for readers, made anew on each change.
    shared_history: Arc<[Transition]>,
    notices: Vec<(Instant, Notice)>,
    duplicates: Vec<Duplicate>,
}

/// What follows once a VIP has left.
#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    Replacement(Box<VipSpec>),
}

impl Instance {
    pub(super) fn new(now: Instant, spec: VipSpec, config: Config) -> Option<Self> {
        let mut router = Router::new(config).ok()?;
        // Its clock starts here, not at the epoch.
        router.handle_timeout(now);
        Some(Self::of(router, spec))
    }

    fn of(router: Router, spec: VipSpec) -> Self {
        let auth = spec.auth.clone();
        let seal = auth.map(|auth| Seal::new(auth, &router.config().peers));
        Self {
            spec,
            router,
            slot: None,
            seal,
            next: None,
            place: Err(Unplaced::Fresh),
            bare_since: None,
            link: None,
            held: Vec::new(),
            raised: false,
            health: None,
            tracks: None,
            burden: String::new(),
            led_by: None,
            counters: Counters::default(),
            send_error: None,
            slower: None,
            lacking: Lacking::default(),
            refusal: None,
            arrivals: None,
            stamps: Stamps::default(),
            since: SystemTime::now(),
            history: VecDeque::with_capacity(HISTORY),
            shared_history: Arc::default(),
            notices: Vec::new(),
            duplicates: Vec::new(),
        }
    }

    /// A router in the place of one whose process ended.
    pub(super) fn stand_in(
        router: Router,
        spec: VipSpec,
        chosen: Chosen,
        link: Link,
        held: Vec<Place>,
    ) -> Self {
        Self {
            place: Ok(chosen),
            link: Some(link),
            held,
            raised: spec.virtual_mac,
            ..Self::of(router, spec)
        }
    }

    pub(super) fn ifindex(&self) -> Option<u32> {
        self.place.as_ref().ok().map(|chosen| chosen.ifindex)
    }

    /// The links its addresses stand on, if they are not on the interface itself.
    pub(super) fn own_links(&self) -> OwnLinks {
        let chosen = self.place.as_ref().ok();
        chosen.map(|chosen| chosen.own_links).unwrap_or_default()
    }

    pub(super) fn is_linked(&self) -> bool {
        matches!(self.link, Some(Link::Up { .. }))
    }

    /// Hands the router an input; what it refuses is counted.
    pub(super) fn give(&mut self, now: Instant, input: Input) {
        let _ = self.ask(now, input);
    }

    /// The same, with the router's word on it.
    pub(super) fn ask(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        let taken = self.router.handle_input(now, input);
        if let Err(reject) = taken {
            self.counters.count(reject.label());
        }
        taken
    }

    /// Takes the keys that the configuration names now.
    pub(super) fn reseal(&mut self) {
        let peers = &self.router.config().peers;
        match (&mut self.seal, self.spec.auth.clone()) {
            (Some(seal), Some(auth)) => seal.reconfigure(auth, peers),
            (seal, auth) => *seal = auth.map(|auth| Seal::new(auth, peers)),
        }
    }

    /// Takes an advert for this router, if it is a member's; what of it is worth a record.
    pub(super) fn hear(&mut self, now: Instant, heard: Heard<'_>) -> Option<VipEvent> {
        let (src, mac) = (heard.received.src, heard.received.mac);
        let goodbye = heard.received.advert.priority.is_none();
        let input = match self.seal.as_mut().map(|seal| seal.verify(&heard)) {
            None | Some(Ok(())) => Input::Advert(heard.received),
            Some(Err(why)) => {
                self.counters.count(why.label());
                Input::Unverified { src, mac, why }
            }
        };
        let proves = matches!(input, Input::Advert(_));
        let taken = self.ask(now, input).is_ok();
        let first = taken && proves && self.stamps.heard(now, src, goodbye);
        first.then(|| VipEvent::Heard {
            name: self.spec.name.clone(),
            peer: src,
            goodbye,
            at: SystemTime::now(),
            boottime: now,
        })
    }

    /// The reason in words: about health and tracks the agent knows more than the router.
    pub(super) fn explain(&self, because: &Because) -> String {
        let told = match because {
            Because::Health(_) => self.health.as_ref().map(|(_, told)| told),
            // What a member of its group tracks the others' tracks say nothing about.
            Because::Tracked | Because::TracksBack if self.spec.sync_group.is_some() => {
                Some(&self.burden)
            }
            Because::Tracked | Because::TracksBack => self.tracks.as_ref().map(|it| &it.because),
            Because::TrackLost => Some(&self.burden),
            Because::Led(_) => self.led_by.as_ref().map(|(_, words)| words),
            _ => None,
        };
        match told.filter(|told| !told.is_empty()) {
            Some(told) => told.clone(),
            None => because.to_string(),
        }
    }

    pub(super) fn changed(&mut self, transition: Transition) {
        self.since = transition.at;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(transition);
        self.shared_history = self.history.iter().cloned().collect();
    }

    pub(super) fn noticed(&mut self, now: Instant, at: SystemTime, notice: Notice) {
        if let Notice::ForeignClaim {
            address,
            mac,
            claims,
            ..
        } = notice
        {
            let is_known = |known: &&mut Duplicate| known.address == address && known.mac == mac.0;
            if let Some(known) = self.duplicates.iter_mut().find(is_known) {
                (known.claims, known.last) = (claims, at);
            } else if self.duplicates.len() < DUPLICATES {
                self.duplicates.push(Duplicate {
                    address,
                    mac: mac.0,
                    claims,
                    last: at,
                });
            } else {
                self.counters.count("duplicates_not_kept");
            }
        }
        let kind = std::mem::discriminant(&notice);
        self.notices
            .retain(|(_, known)| std::mem::discriminant(known) != kind);
        self.notices.push((now, notice));
    }

    pub(super) fn snapshot(&mut self, now: Instant, interface: Option<&Interface>) -> VipSnapshot {
        self.notices
            .retain(|(at, _)| now.since(*at) < problems::NOTICE_LASTS);
        let view = self.router.view();
        let config = self.router.config();
        let interval = view.active.map_or(config.interval, |peer| peer.interval);
        let (chosen, interface_because, rejected) = self.describe_place();
        VipSnapshot {
            name: self.spec.name.clone(),
            addresses: self.spec.addresses.clone(),
            state: view.state,
            since: self.since,
            since_boottime: view.since,
            because: self.explain(&view.because),
            held: view.held,
            interface: chosen,
            interface_because,
            rejected_interfaces: rejected,
            sync_group: self.spec.sync_group.clone(),
            leader: self.led_by.as_ref().map(|(leader, _)| leader.clone()),
            vrid: self.spec.vrid,
            vrid_because: vrid_because(&self.spec),
            priority: view.priority,
            base_priority: self.spec.priority,
            priority_because: self.priority_because(&view),
            verdict: view.verdict,
            tracked: view.tracked,
            interval,
            configured_interval: config.interval,
            active_down: active_down(config.version, interval, view.priority),
            active: view.active.map(ActivePeer::from),
            takes_over_at: view.takes_over_at,
            waiting: view.waiting,
            proof: view.proof,
            ordered: Ordered {
                frozen: config.frozen,
                pinned: view.pinned,
                drained: config.drained,
                yielded: view.yielded,
            },
            duplicates: self.duplicates.clone(),
            fence: None,
            problems: self.problems(now, &view, interface),
            transitions: Arc::clone(&self.shared_history),
            counters: self.all_counters(&view, interface),
        }
    }

    fn priority_because(&self, view: &View) -> String {
        let base = self.spec.priority;
        if self.spec.owner {
            return format!("{base}, because the address is the interface's own");
        }
        if view.priority == base {
            return format!("{base} is configured");
        }
        if self.spec.drained && !view.pinned {
            return format!("{base} → {} because this host is drained", view.priority);
        }
        let ill =
            (self.spec.gated && view.verdict != Verdict::Healthy).then(|| match &self.health {
                Some((_, told)) if !told.is_empty() => told.clone(),
                _ => view.verdict.to_string(),
            });
        let failing = (view.tracked.cost > 0).then(|| self.burden.clone());
        let mut why: Vec<String> = ill.into_iter().chain(failing).collect();
        if let Some((_, words)) = self.led_by.as_ref().filter(|_| self.spec.follows) {
            why = vec![words.clone()];
        }
        format!("{base} → {} because {}", view.priority, why.join("; "))
    }

    fn problems(&self, now: Instant, view: &View, interface: Option<&Interface>) -> Vec<Problem> {
        let name = &self.spec.name;
        let mut problems = Vec::new();
        match &self.place {
            Ok(chosen) if !chosen.running => problems.push(problems::link_down(name, chosen)),
            Ok(_) | Err(Unplaced::Fresh) => {}
            Err(Unplaced::Why(why)) => {
                problems.push(why.problem().object(format!("vips/{name}")));
            }
            Err(
                Unplaced::DuplicateVrid(problem)
                | Unplaced::DuplicateAddress(problem)
                | Unplaced::Sockets(problem),
            ) => problems.push(problem.clone().object(format!("vips/{name}"))),
        }
        match (&view.because, &self.refusal) {
            (Because::AddressInUse { address, mac }, _) if view.state == RouterState::Fault => {
                problems.push(problems::address_in_use(name, *address, *mac));
            }
            (Because::Refused(_), Some(refusal)) if view.state == RouterState::Fault => {
                problems.push(refusal.clone().object(format!("vips/{name}")));
            }
            _ => {}
        }
        problems.extend(self.lacking.problems().cloned());
        let ill = self.spec.gated && !self.spec.owner && view.verdict != Verdict::Healthy;
        if ill && !self.spec.drained {
            problems.push(problems::unhealthy(name, &self.priority_because(view)));
        }
        if let Some(tracks) = self.tracks.as_ref().filter(|it| !it.failing.is_empty()) {
            problems.push(problems::track(name, tracks));
        }
        problems.extend(
            self.send_error
                .filter(|(at, _)| now.since(*at) < problems::NOTICE_LASTS)
                .map(|(_, errno)| problems::cannot_send(name, errno)),
        );
        problems.extend(
            interface
                .and_then(|interface| Some((interface.name.as_str(), interface.malformed?)))
                .filter(|(_, malformed)| now.since(malformed.at) < problems::NOTICE_LASTS)
                .map(|(on, malformed)| problems::malformed(name, on, malformed)),
        );
        problems.extend(
            self.notices
                .iter()
                .filter(|(_, notice)| !is_disproved(notice, view))
                .map(|(_, notice)| problems::of_notice(name, notice)),
        );
        problems
    }

    fn all_counters(&self, view: &View, interface: Option<&Interface>) -> BTreeMap<String, u64> {
        let stats = &view.stats;
        let mut all: BTreeMap<String, u64> = [
            ("became_active", stats.became_active),
            ("adverts_sent", stats.adverts_sent),
            ("adverts_received", stats.adverts_received),
            ("goodbyes_sent", stats.goodbyes_sent),
            ("goodbyes_received", stats.goodbyes_received),
            ("address_list_errors", stats.address_list_errors),
            ("interval_errors", stats.interval_errors),
            ("delivery_errors", stats.delivery_errors),
            ("version_errors", stats.version_errors),
            ("auth_errors", stats.auth_errors),
            ("foreign_claims", stats.foreign_claims),
            ("stalls", stats.stalls),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (name, value) in &self.counters.0 {
            let key = if OWN_COUNTERS.contains(name) {
                (*name).to_owned()
            } else {
                format!("reject_{name}")
            };
            *all.entry(key).or_default() += value;
        }
        for (name, value) in interface.iter().flat_map(|interface| &interface.counters.0) {
            *all.entry(format!("reject_{name}")).or_default() += value;
        }
        all
    }
}

/// A VIP that cannot be run at all.
pub(super) fn snapshot_of_refused(spec: &VipSpec, problem: &Problem) -> VipSnapshot {
    VipSnapshot {
        name: spec.name.clone(),
        addresses: spec.addresses.clone(),
        state: RouterState::Initialize,
        since: SystemTime::UNIX_EPOCH,
        since_boottime: Instant::ZERO,
        because: problem.what.clone(),
        held: false,
        interface: None,
        interface_because: "not looked for, because the configuration was refused".to_owned(),
        rejected_interfaces: Vec::new(),
        sync_group: spec.sync_group.clone(),
        leader: None,
        vrid: spec.vrid,
        vrid_because: vrid_because(spec),
        priority: spec.priority,
        base_priority: spec.priority,
        priority_because: format!("{} is configured", spec.priority),
        verdict: Verdict::Unproven,
        tracked: Tracked::default(),
        interval: spec.interval,
        configured_interval: spec.interval,
        active_down: active_down(spec.version, spec.interval, spec.priority),
        active: None,
        takes_over_at: None,
        waiting: None,
        proof: Proof::None,
        ordered: Ordered::default(),
        duplicates: Vec::new(),
        fence: None,
        problems: vec![problem.clone()],
        transitions: Arc::default(),
        counters: BTreeMap::new(),
    }
}

impl From<Peer> for ActivePeer {
    fn from(peer: Peer) -> Self {
        Self {
            address: peer.address,
            mac: peer.mac.0,
            priority: peer.priority,
            interval: peer.interval,
            heard_at: peer.heard_at,
        }
    }
}

/// Packets for the addresses arrive after all, or are another host's now.
fn is_disproved(notice: &Notice, view: &View) -> bool {
    matches!(notice, Notice::Unproven { .. }) && !matches!(view.proof, Proof::Missing { .. })
}

fn vrid_because(spec: &VipSpec) -> String {
    let derived = spec
        .addresses
        .first()
        .map(|first| (first, Vrid::derive(*first)));
    match derived {
        Some((first, vrid)) if vrid == spec.vrid => {
            format!("{vrid} is what every host derives from {first}")
        }
        _ => format!("{} is configured", spec.vrid),
    }
}

/// Counters that are no refused inputs.
const OWN_COUNTERS: [&str; 8] = [
    "questions_sent",
    "announcements_sent",
    "probes_sent",
    "send_errors",
    "arp_send_errors",
    "address_readded",
    "duplicates_not_kept",
    "deaf",
];
/// Changes of state that are kept.
const HISTORY: usize = 64;
/// Other stations that are remembered by name.
const DUPLICATES: usize = 16;
