//! Gateways that UDP does not reach by the usual port: the way to each, by another port (docs/adr/0062) or in
//! a stream over TLS (docs/adr/0036).

mod call;
mod proxy;
mod told;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use kedge_core::{Code, Instant, Machine as _, Problem};
use kedge_host::enrol::Client;
use kedge_net::clock;
use kedge_tunnel_device::{Handle, backend::Capability};
use kedge_tunnel_proto::fallback::{Because, Config, Fallback, Input, Output, Way, Ways};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use self::call::{Call, Standing};
pub(crate) use self::proxy::Proxy;
pub(super) use self::told::path;
use self::told::unsupported;
use super::{Echo, Tunnel};
use crate::{
    config::Endpoint,
    desired::{Peer, TunnelWish},
};

/// The ways to all gateways that may be reached otherwise than by their usual port.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    /// What this host shows.
    member: Option<Client>,
    /// What it calls through.
    proxy: Option<Proxy>,
    ways: BTreeMap<String, One>,
    /// Gateways that cannot be reached so, since the data plane cannot: since when each is silent.
    unsupported: BTreeMap<String, Instant>,
    /// The opening of the device that the streams belong to.
    opening: u64,
    news: Arc<Notify>,
}

/// What is known beside.
pub(super) struct Seen<'a> {
    /// The device, and which opening of it.
    pub device: Option<(Handle, u64)>,
    /// When the last question through the tunnel was answered, by peer.
    pub answered: &'a dyn Fn(&str) -> Option<Instant>,
    /// The address of an endpoint.
    pub address: &'a dyn Fn(&Endpoint) -> Option<SocketAddr>,
}

/// The way to one gateway.
#[derive(Debug)]
struct One {
    machine: Fallback,
    at: Places,
    /// The address of its other port, once it is known.
    other: Option<SocketAddr>,
    call: Option<Call>,
    place: Option<SocketAddr>,
    answered: Option<Instant>,
    answered_over_udp: Option<u64>,
    /// Why the last call came to nothing.
    failure: Option<String>,
}

/// Where a gateway is, by all ways.
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    udp: Option<Endpoint>,
    other: Option<Endpoint>,
    tls: Option<Endpoint>,
}

impl Places {
    /// Those of a peer; none when there is no other way than the usual one.
    fn of(peer: &Peer) -> Option<Self> {
        (peer.other_endpoint.is_some() || peer.tls_endpoint.is_some()).then(|| Self {
            udp: peer.endpoint.clone(),
            other: peer.other_endpoint.clone(),
            tls: peer.tls_endpoint.clone(),
        })
    }
}

impl Fallbacks {
    /// Shows what this member of the fleet has to show from here on, and calls through that proxy.
    pub fn show(&mut self, member: Option<&Client>, proxy: Option<Proxy>) {
        self.member = member.cloned();
        self.proxy = proxy;
    }

    /// Hears when a stream comes about or ends.
    pub fn with_news(news: Arc<Notify>) -> Self {
        Self {
            news,
            ..Self::default()
        }
    }

    /// Ends all of it.
    pub fn clear(&mut self) {
        self.ways.clear();
    }

    /// Looks at the ways to the gateways of `wish`; which of them lead elsewhere since.
    pub fn tend(
        &mut self,
        now: Instant,
        wish: Option<&TunnelWish>,
        seen: &Seen<'_>,
    ) -> Vec<String> {
        let Some((handle, opening)) = &seen.device else {
            self.clear();
            return Vec::new();
        };
        if self.opening != *opening {
            self.opening = *opening;
            self.clear();
        }
        let wanted: BTreeMap<&str, Places> = wish
            .into_iter()
            .flat_map(|wish| &wish.peers)
            // Whoever is not asked whether it lives is not known to be silent.
            .filter(|peer| peer.echo.is_some())
            .filter_map(|peer| Some((peer.name.as_str(), Places::of(peer)?)))
            .collect();
        if lacking(wish).is_some() {
            let known = std::mem::take(&mut self.unsupported);
            let silent = |name: &&str| {
                let since = known.get(*name).copied().unwrap_or(now);
                (
                    (*name).to_owned(),
                    (seen.answered)(name).map_or(since, |at| at.max(since)),
                )
            };
            self.unsupported = wanted.keys().map(silent).collect();
            self.ways.clear();
            return Vec::new();
        }
        self.unsupported.clear();
        self.ways
            .retain(|name, one| wanted.get(name.as_str()) == Some(&one.at));
        let mut turned = Vec::new();
        for (name, at) in wanted {
            let one = self.ways.entry(name.to_owned());
            let one = one.or_insert_with(|| One::new(now, at));
            one.other = one.at.other.as_ref().and_then(seen.address);
            one.see(now, name, handle, seen);
            let context = Context {
                name,
                handle,
                member: self.member.as_ref(),
                proxy: self.proxy.as_ref(),
                news: &self.news,
                udp: one.at.udp.as_ref().and_then(seen.address),
            };
            if one.act(now, &context) {
                turned.push(name.to_owned());
            }
        }
        turned
    }

    /// The network may have changed: what failed is tried at once.
    pub fn ask(&mut self) {
        let now = clock::now();
        for one in self.ways.values_mut() {
            // A change is never refused.
            let _ = one.machine.handle_input(now, Input::Changed);
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        let ways = self.ways.values();
        ways.filter_map(|one| one.machine.poll_timeout()).min()
    }

    /// Where datagrams for a gateway go, if that is not where they usually go.
    pub fn place(&self, name: &str) -> Option<SocketAddr> {
        let one = self.ways.get(name)?;
        match one.machine.way().0 {
            Way::Udp => None,
            Way::Other => one.other,
            Way::Tls => one.place,
        }
    }

    /// Whether they go in a stream.
    pub fn is_over_tls(&self, name: &str) -> bool {
        let one = self.ways.get(name);
        one.is_some_and(|one| one.place.is_some() && one.machine.way().0 == Way::Tls)
    }

    /// What is wrong.
    pub fn problems<'a>(
        &'a self,
        wish: Option<&TunnelWish>,
    ) -> impl Iterator<Item = Problem> + use<'a> {
        let (now, lacking) = (clock::now(), lacking(wish));
        let patience = Config::default().patience;
        let silent = self.unsupported.iter();
        let silent = silent.filter(move |(_, since)| now.since(**since) >= patience);
        let silent = silent.filter_map(move |(name, _)| Some(unsupported(name, lacking?)));
        let ways = self.ways.iter();
        ways.filter_map(move |(name, one)| one.problem(now, name))
            .chain(silent)
    }
}

/// Why the data plane carries nothing in streams, if it does not.
fn lacking(wish: Option<&TunnelWish>) -> Option<&'static str> {
    wish?.data_plane.kind().lacks(Capability::Streams)
}

impl Tunnel {
    /// Shows gateways what this member of the fleet has to show, from here on; where UDP does not pass they
    /// are called through that proxy.
    pub fn show(&mut self, member: Option<&Client>, proxy: Option<Proxy>) {
        self.fallbacks.show(member, proxy);
    }

    /// Looks whether UDP reaches the gateways; which of them are reached another way since.
    pub(super) fn fall_back(&mut self) -> Vec<String> {
        let device = self.keeper.device().map(|device| device.handle());
        let (echoes, names) = (&self.echoes, &self.names);
        let report = |echo: &Echo| echo.client.report();
        let seen = Seen {
            device: device.map(|handle| (handle, self.keeper.openings())),
            answered: &|name| report(echoes.get(name)?).last_answer,
            address: &|endpoint| names.address(endpoint),
        };
        self.fallbacks.tend(clock::now(), self.wish.as_ref(), &seen)
    }

    /// Has gateways that are reached another way know it at once, also those that forgot the session.
    pub(super) fn greet(&self, elsewhere: &[String]) {
        let Some(device) = self.keeper.device() else {
            return;
        };
        for gateway in elsewhere {
            if let Err(error) = device.handle().rehandshake(gateway) {
                debug!(
                    gateway,
                    error = &error as &dyn std::error::Error,
                    "not greeted"
                );
            }
        }
    }
}

struct Context<'a> {
    name: &'a str,
    handle: &'a Handle,
    member: Option<&'a Client>,
    proxy: Option<&'a Proxy>,
    news: &'a Arc<Notify>,
    udp: Option<SocketAddr>,
}

impl Context<'_> {
    fn ask(&self, at: Option<SocketAddr>, number: u64) {
        if let Some(at) = at {
            // Unasked is unanswered.
            let _ = self.handle.ask(self.name, at, number);
        }
    }
}

impl One {
    fn new(now: Instant, at: Places) -> Self {
        let ways = Ways {
            other: at.other.is_some(),
            tls: at.tls.is_some(),
        };
        Self {
            machine: Fallback::new(now, Config::default(), ways),
            at,
            other: None,
            call: None,
            place: None,
            answered: None,
            answered_over_udp: None,
            failure: None,
        }
    }

    /// Tells the machine what happened.
    fn see(&mut self, now: Instant, name: &str, handle: &Handle, seen: &Seen<'_>) {
        let answered = (seen.answered)(name);
        if let Some(at) = answered.filter(|_| answered != self.answered) {
            self.answered = answered;
            self.give(now, Input::Answered(at));
        }
        let over_udp = handle.answered(name);
        if let Some(number) = over_udp.filter(|_| over_udp != self.answered_over_udp) {
            self.answered_over_udp = over_udp;
            self.give(now, Input::AnsweredOverUdp(number));
        }
        let standing = self.call.as_ref().map(Call::standing);
        match standing {
            Some(Standing::There(place)) if self.place != Some(place) => {
                self.place = Some(place);
                self.failure = None;
                self.give(now, Input::Called);
            }
            Some(Standing::Over(why)) => {
                debug!(
                    gateway = name,
                    endpoint = self.tls(),
                    why,
                    "no connection over TLS"
                );
                self.failure = Some(why);
                self.call = None;
                self.place = None;
                self.give(now, Input::Broken);
            }
            _ => {}
        }
        self.machine.handle_timeout(now);
    }

    fn give(&mut self, now: Instant, input: Input) {
        if let Err(reject) = self.machine.handle_input(now, input) {
            debug!(%reject, "the way to a gateway");
        }
    }

    /// Does what the machine wants; whether datagrams go elsewhere since.
    fn act(&mut self, now: Instant, context: &Context<'_>) -> bool {
        let mut turned = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Call => self.call(now, context),
                Output::HangUp => {
                    self.call = None;
                    self.place = None;
                }
                Output::Proven => self.tell_other(context.name),
                Output::Ask(number) => context.ask(context.udp, number),
                Output::AskOther(number) => context.ask(self.other, number),
                Output::Take { way, because } => {
                    turned = true;
                    if let Because::Broken | Because::Deaf(_) = because {
                        self.failure = Some(because.to_string());
                    }
                    self.tell(context.name, way, because);
                }
            }
        }
        turned
    }

    fn call(&mut self, now: Instant, context: &Context<'_>) {
        self.place = None;
        let Some(member) = context.member else {
            self.failure =
                Some("this host has no manager, and so no certificate to show".to_owned());
            self.give(now, Input::Broken);
            return;
        };
        let (member, handle) = (member.clone(), context.handle.clone());
        let news = Arc::clone(context.news);
        let proxy = context.proxy.cloned();
        let Some(tls) = &self.at.tls else {
            return self.give(now, Input::Broken);
        };
        self.call = Some(Call::start(member, (tls, proxy), handle, news));
    }

    fn tell(&self, gateway: &str, way: Way, because: Because) {
        let (endpoint, why) = (self.tls(), because.to_string());
        match way {
            Way::Tls => warn!(
                KEDGE_CODE = %Code::TunFallback,
                gateway, from = "udp", to = "tls", endpoint, because = why,
                "FALLBACK: the tunnel goes over TLS"
            ),
            // It is told when it answers: until then it is a try.
            Way::Other => debug!(
                gateway,
                endpoint = self.other(),
                because = why,
                "another port is tried"
            ),
            Way::Udp if matches!(because, Because::OtherDeaf(_)) => {
                debug!(gateway, because = why, "the usual port is tried again");
            }
            Way::Udp => {
                info!(
                    gateway,
                    to = "udp",
                    because = why,
                    "the tunnel goes over UDP, by the usual port"
                )
            }
        }
    }
}
