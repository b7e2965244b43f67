//! Gateways that UDP does not reach: the way to each, and the stream over TLS where there is one
//! (docs/adr/0036).

mod call;
mod proxy;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kedge_control::local;
use kedge_core::{Code, Fix, Instant, Machine as _, Problem};
use kedge_host::{enrol::Client, wall};
use kedge_net::clock;
use kedge_tunnel_device::{Handle, backend::Capability};
use kedge_tunnel_proto::fallback::{Because, Config, Fallback, Input, Output, Way};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use self::call::{Call, Standing};
pub(crate) use self::proxy::Proxy;
use super::{Echo, Tunnel};
use crate::{
    config::Endpoint,
    desired::{Peer, TunnelWish},
};

/// The ways to all gateways that may be reached over TLS.
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
    tls: Endpoint,
    udp: Option<Endpoint>,
    call: Option<Call>,
    place: Option<SocketAddr>,
    answered: Option<Instant>,
    answered_over_udp: Option<u64>,
    /// Why the last call came to nothing.
    failure: Option<String>,
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
        let wanted: BTreeMap<&str, (&Peer, &Endpoint)> = wish
            .into_iter()
            .flat_map(|wish| &wish.peers)
            // Whoever is not asked whether it lives is not known to be silent.
            .filter(|peer| peer.echo.is_some())
            .filter_map(|peer| Some((peer.name.as_str(), (peer, peer.tls_endpoint.as_ref()?))))
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
        self.ways.retain(|name, one| {
            let stays = wanted.get(name.as_str());
            stays.is_some_and(|(peer, tls)| one.tls == **tls && one.udp == peer.endpoint)
        });
        let mut turned = Vec::new();
        for (name, (peer, tls)) in wanted {
            let one = self.ways.entry(name.to_owned());
            let one = one.or_insert_with(|| One::new(now, tls, peer.endpoint.as_ref()));
            one.see(now, name, handle, seen);
            let context = Context {
                name,
                handle,
                member: self.member.as_ref(),
                proxy: self.proxy.as_ref(),
                news: &self.news,
                udp: one.udp.as_ref().and_then(seen.address),
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

    /// Where datagrams for a gateway go, if that is a stream.
    pub fn place(&self, name: &str) -> Option<SocketAddr> {
        let one = self.ways.get(name)?;
        one.place.filter(|_| one.machine.way().0 == Way::Tls)
    }

    /// The fallback that is in force for a gateway, as people see it.
    pub fn view(&self, name: &str) -> Option<local::Fallback> {
        let one = self.ways.get(name)?;
        let (way, _, since) = one.machine.way();
        let now = clock::now();
        let silence = one.machine.silence(now).unwrap_or_default();
        (way == Way::Tls).then(|| local::Fallback {
            endpoint: one.tls.to_string(),
            udp_endpoint: one.udp().to_owned(),
            because: one.because(silence),
            since: wall::rfc3339(SystemTime::now() - now.since(since)),
            udp_silent_seconds: silence.as_secs_f64().round(),
            code: Code::TunFallback.to_string(),
        })
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

fn unsupported(name: &str, why: &str) -> Problem {
    Problem::warning(
        Code::TunNoTls,
        format!("{name} is not answered over UDP, and is not called over TLS"),
    )
    .object(format!("tunnels/{name}"))
    .evidence(why)
    .consequence("nothing goes through this gateway while UDP does not pass")
    .fix(
        Fix::text("let UDP pass, or have Kedge move the packets: tunnel.data_plane: userspace")
            .command("kedge net check"),
    )
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

impl One {
    fn new(now: Instant, tls: &Endpoint, udp: Option<&Endpoint>) -> Self {
        Self {
            machine: Fallback::new(now, Config::default()),
            tls: tls.clone(),
            udp: udp.cloned(),
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
                debug!(gateway = name, endpoint = %self.tls, why, "no connection over TLS");
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
                Output::Ask(number) => {
                    if let Some(udp) = context.udp {
                        // Unasked is unanswered.
                        let _ = context.handle.ask(context.name, udp, number);
                    }
                }
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
        self.call = Some(Call::start(member, (&self.tls, proxy), handle, news));
    }

    fn tell(&self, gateway: &str, way: Way, because: Because) {
        let (endpoint, why) = (&self.tls, because.to_string());
        match way {
            Way::Tls => warn!(
                KEDGE_CODE = %Code::TunFallback,
                gateway, from = "udp", to = "tls", %endpoint, because = why,
                "FALLBACK: the tunnel goes over TLS"
            ),
            Way::Udp => {
                info!(
                    gateway,
                    from = "tls",
                    to = "udp",
                    because = why,
                    "the tunnel goes over UDP"
                )
            }
        }
    }

    fn udp(&self) -> &str {
        self.udp.as_ref().map_or("?", Endpoint::as_str)
    }

    fn because(&self, silence: Duration) -> String {
        if self.machine.is_answered_over_udp() {
            return "UDP answers again: it is come back to when it goes on".to_owned();
        }
        let port = self.udp().rsplit(':').next().unwrap_or_default();
        format!("UDP/{port} got no answer for {}", spelled(silence))
    }

    fn problem(&self, now: Instant, name: &str) -> Option<Problem> {
        let silence = self.machine.silence(now)?;
        let udp = self.udp();
        let object = format!("tunnels/{name}");
        let evidence = self.because(silence);
        if self.machine.way().0 == Way::Tls {
            return Some(
                Problem::warning(
                    Code::TunFallback,
                    format!("{name} is reached over TLS, because UDP does not pass"),
                )
                .object(object)
                .evidence(evidence)
                .evidence(format!("in use: {} over TLS", self.tls))
                .consequence(
                    "the tunnel works, with less throughput and more delay; it returns to UDP by itself",
                )
                .fix(
                    Fix::text(format!("let UDP to {udp} pass, and its answers"))
                        .command("kedge net check"),
                ),
            );
        }
        let failure = self.failure.as_ref()?;
        Some(
            Problem::warning(
                Code::TunNoTls,
                format!("{name} is reached neither over UDP nor over TLS"),
            )
            .object(object)
            .evidence(evidence)
            .evidence(format!("TLS to {}: {failure}", self.tls))
            .consequence("nothing goes through this gateway; both are tried again and again")
            .fix(
                Fix::text(format!("let UDP to {udp} or TCP to {} pass", self.tls))
                    .command("kedge net check"),
            ),
        )
    }
}

/// A time as people say it.
fn spelled(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (21_600, "6 h"),
        ] {
            assert_eq!(spelled(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_silent_gateway_is_told_with_what_became_of_both_ways() {
        let start = Instant::ZERO + Duration::from_secs(1_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let (tls, udp): (Endpoint, Endpoint) = (
            "gw.example:443".parse().unwrap(),
            "gw.example:51820".parse().unwrap(),
        );
        let mut one = One::new(start, &tls, Some(&udp));
        assert_eq!(
            one.problem(after(14), "gw"),
            None,
            "not silent for long enough"
        );
        assert_eq!(
            one.problem(after(20), "gw"),
            None,
            "no call came to nothing yet"
        );
        one.failure = Some("refused".to_owned());
        let told = one.problem(after(20), "gw").unwrap();
        assert_eq!(told.code, Code::TunNoTls);
        let evidence = told.evidence.join("; ");
        assert!(
            evidence.contains("UDP/51820 got no answer for 20 s"),
            "{evidence}"
        );
        assert!(evidence.contains("gw.example:443: refused"), "{evidence}");
        one.machine.handle_timeout(after(20));
        one.give(after(21), Input::Called);
        let told = one.problem(after(30), "gw").unwrap();
        assert_eq!(told.code, Code::TunFallback);
        let said = unsupported("gw", "the kernel cannot");
        assert_eq!((said.code, said.evidence.len()), (Code::TunNoTls, 1));
    }
}
