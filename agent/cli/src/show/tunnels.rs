//! Tunnel peers.

use kedge_control::local::{
    EchoStatus, HandshakeGuard, Tunnel, TunnelKey, TunnelList, TunnelState,
};

use super::{Show, View, hook, pairs};
use crate::{
    style::{Mark, bytes, clean, long, short},
    table::Table,
};

impl Show for TunnelKey {
    fn text(&self, view: &View) -> String {
        let mut text = format!("{}\n", changes(self, view));
        let key = |name: &str, key: &str, since: &str| {
            format!("  {name} {}  since {}\n", clean(key), clean(since))
        };
        text.push_str(&key("key ", &self.public_key, &self.since));
        if let Some(next) = &self.next_public_key {
            let since = self.next_since.as_deref().unwrap_or_default();
            text.push_str(&key("next", next, since));
        }
        if let Some(until) = &self.until {
            text.push_str(&format!(
                "  the old key goes by {} at the latest\n",
                clean(until)
            ));
        }
        for (what, peers) in [("moved", &self.moved), ("waiting", &self.waiting)] {
            if !peers.is_empty() {
                text.push_str(&format!("  {what}: {}\n", clean(&peers.join(", "))));
            }
        }
        text + &view.next(&["kedge tunnel list".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.waiting.clone()
    }
}

/// How far a change of keys is, in a line.
fn changes(key: &TunnelKey, view: &View) -> String {
    let mark = if key.waiting.is_empty() {
        Mark::Good
    } else {
        Mark::Warning
    };
    format!("{} {}", view.style.mark(mark), clean(&key.because))
}

impl Show for TunnelList {
    fn text(&self, view: &View) -> String {
        if self.device.is_empty() && self.items.is_empty() {
            return format!(
                "no tunnel: no peer is configured, and no manager has named one\n{}",
                view.next(&["kedge status".to_owned()])
            );
        }
        let addresses = match self.addresses.as_slice() {
            [] => "no address yet".to_owned(),
            some => clean(&some.join(", ")).into_owned(),
        };
        let mtu = match self.mtu {
            // The device is not there yet.
            0 => String::new(),
            mtu => format!("  mtu {mtu}"),
        };
        let mut text = format!(
            "{} {addresses}  port {}{mtu}  key {}\n",
            view.style.bold(&clean(&self.device)),
            self.listen_port,
            clean(&self.public_key)
        );
        if let Some(plane) = &self.data_plane {
            let (mode, because) = (clean(&plane.mode), clean(&plane.because));
            let repairs = match plane.repairs {
                0 => String::new(),
                repairs => format!("; repaired {repairs} times after somebody else's changes"),
            };
            let hook = view.style.hook();
            let line = format!("  {hook} data plane {mode} because {because}{repairs}\n");
            text.push_str(&line);
        }
        if let Some(key) = &self.key_change {
            let line = format!("  {} {}\n", view.style.hook(), changes(key, view));
            text.push_str(&line);
        }
        if let Some(workers) = self.workers.as_ref().filter(|all| all.count > 1) {
            let (hook, because) = (view.style.hook(), clean(&workers.because));
            let line = format!("  {hook} {} workers because {because}\n", workers.count);
            text.push_str(&line);
        }
        if let Some(told) = self.guard.as_ref().filter(|it| it.times > 0).map(guard) {
            let line = format!("  {} handshakes: {}\n", view.style.hook(), told.join(", "));
            text.push_str(&line);
        }
        for (name, part) in &self.offload {
            if let Some(because) = &part.because {
                let (name, state, because) = (clean(name), clean(&part.state), clean(because));
                let line = format!(
                    "  {} offload {name} {state} because {because}\n",
                    view.style.hook()
                );
                text.push_str(&line);
            }
        }
        for problem in &self.problems {
            text.push_str(&hook(problem, view));
        }
        let mut titles = vec![
            "PEER",
            "STATE",
            "PATH",
            "ENDPOINT",
            "HANDSHAKE",
            "RTT",
            "LOSS",
            "RX",
            "TX",
        ];
        if view.wide {
            titles.extend(["ALLOWED-IPS", "SOURCE", "DROPS", "BECAUSE"]);
        }
        let paths = self.items.iter().any(|peer| peer.path_mtu.is_some());
        if paths {
            titles.insert(7, "MTU");
        }
        let several = self.items.iter().any(|peer| peer.gateway.is_some());
        if several {
            titles.insert(2, "GATEWAY");
        }
        let mut table = Table::new(&titles);
        for peer in &self.items {
            let mut cells = vec![peer.name.clone(), state(peer.state).to_owned()];
            if several {
                cells.push(role(peer).to_owned());
            }
            cells.extend([
                peer.path.clone(),
                peer.endpoint.clone().unwrap_or_default(),
                peer.handshake_age_seconds.map(long).unwrap_or_default(),
                rtt(peer.echo.as_ref()),
                loss(peer.echo.as_ref()),
            ]);
            if paths {
                cells.push(path_mtu(peer));
            }
            cells.extend([bytes(peer.rx_bytes), bytes(peer.tx_bytes)]);
            if view.wide {
                cells.extend([
                    peer.allowed_ips.join(","),
                    peer.source.clone(),
                    peer.drops.values().sum::<u64>().to_string(),
                    peer.because.clone(),
                ]);
            }
            table.row(cells);
            if peer.state != TunnelState::Up && !view.wide && !peer.because.is_empty() {
                let because = clean(&peer.because);
                table.note(format!("  {} because {because}", view.style.hook()));
            }
            if let Some(fallback) = fallback(peer) {
                table.note(format!("  {} {fallback}", view.style.hook()));
            }
            if let Some(gateway) = &peer.gateway {
                let (role, because) = (role(peer), clean(&gateway.because));
                let line = format!("  {} {role} because {because}", view.style.hook());
                table.note(line);
            }
        }
        text.push_str(&table.render());
        let next = match (self.problems.first(), self.items.first()) {
            (Some(problem), _) => format!("kedge explain {}", problem.code),
            (None, Some(peer)) => format!("kedge tunnel show {}", clean(&peer.name)),
            (None, None) => "kedge status".to_owned(),
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|peer| peer.name.clone()).collect()
    }
}

impl Show for Tunnel {
    fn text(&self, view: &View) -> String {
        let mut text = format!(
            "{} {}\n",
            mark(self, view),
            view.style.bold(&clean(&self.name))
        );
        let drops: Vec<String> = self
            .drops
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        let offload: Vec<String> = self
            .offload
            .iter()
            .map(|(name, part)| format!("{name} {}", part.state))
            .collect();
        text.push_str(&pairs(&[
            (
                "state",
                format!("{} for {}", state(self.state), view.age(&self.since)),
            ),
            ("because", self.because.clone()),
            (
                "gateway",
                self.gateway
                    .as_ref()
                    .map(|gateway| format!("{} because {}", role(self), gateway.because))
                    .unwrap_or_default(),
            ),
            ("path", self.path.clone()),
            (
                "fallback",
                self.fallback.as_ref().map_or_else(String::new, |it| {
                    let age = view.age(&it.since);
                    format!("FALLBACK for {age} because {} ({})", it.because, it.code)
                }),
            ),
            ("endpoint", self.endpoint.clone().unwrap_or_default()),
            (
                "path mtu",
                self.path_mtu
                    .as_ref()
                    .map(|path| format!("{} bytes because {}", path.mtu, path.because))
                    .unwrap_or_default(),
            ),
            ("public key", self.public_key.clone()),
            ("allowed ips", self.allowed_ips.join(", ")),
            (
                "handshake",
                self.handshake_age_seconds
                    .map_or_else(|| "never".to_owned(), |age| format!("{} ago", long(age))),
            ),
            ("probe", self.echo.as_ref().map(probe).unwrap_or_default()),
            (
                "traffic",
                format!("in {}, out {}", bytes(self.rx_bytes), bytes(self.tx_bytes)),
            ),
            ("drops", drops.join(", ")),
            ("offload", offload.join(", ")),
            ("source", self.source.clone()),
        ]));
        text + &view.next(&["kedge status".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

/// The mark in front of a peer.
pub(super) fn mark(peer: &Tunnel, view: &View) -> String {
    view.style.mark(match peer.state {
        TunnelState::Up if fallback(peer).is_some() => Mark::Warning,
        TunnelState::Up => Mark::Good,
        TunnelState::Connecting => Mark::Warning,
        TunnelState::Down => Mark::Bad,
    })
}

/// That a peer is not reached by the usual port, and why; a gateway does not ask why.
pub(super) fn fallback(peer: &Tunnel) -> Option<String> {
    let why = peer.fallback.as_ref().map(|it| {
        let (because, code) = (clean(&it.because), clean(&it.code));
        format!("FALLBACK because {because} ({code})")
    });
    why.or_else(|| match peer.path.as_str() {
        "tls" => Some("FALLBACK: it calls over TLS".to_owned()),
        path if path.starts_with("udp/") => Some(format!("FALLBACK: it calls by {}", clean(path))),
        _ => None,
    })
}

/// How the door to the handshakes stands.
pub(super) fn guard(guard: &HandshakeGuard) -> [String; 2] {
    let state = if guard.under_load {
        "UNDER LOAD because strangers ask for too many: they have to prove where they are"
            .to_owned()
    } else {
        format!("under load {} times", guard.times)
    };
    let (sent, proven) = (guard.cookies_sent, guard.cookies_proven);
    [state, format!("{sent} cookies sent, {proven} came back")]
}

/// A state as a word.
pub(super) const fn state(state: TunnelState) -> &'static str {
    match state {
        TunnelState::Connecting => "Connecting",
        TunnelState::Up => "Up",
        TunnelState::Down => "Down",
    }
}

/// Whether packets go through it, where several gateways lead to the same.
fn role(peer: &Tunnel) -> &'static str {
    match &peer.gateway {
        Some(gateway) if gateway.active => "active",
        Some(_) => "standby",
        None => "",
    }
}

/// What the way there carries; what is not proven has a mark.
fn path_mtu(peer: &Tunnel) -> String {
    let path = peer.path_mtu.as_ref();
    path.map_or_else(String::new, |path| match path.source.as_str() {
        "probed" => path.mtu.to_string(),
        _ => format!("{} ({})", path.mtu, clean(&path.source)),
    })
}

/// The round-trip time of the in-tunnel probe.
pub(super) fn rtt(echo: Option<&EchoStatus>) -> String {
    echo.and_then(|echo| echo.rtt_seconds)
        .map(short)
        .unwrap_or_default()
}

/// The share of probes that were lost.
pub(super) fn loss(echo: Option<&EchoStatus>) -> String {
    match echo {
        Some(echo) if echo.sent > 0 => {
            let percent = echo.lost.saturating_mul(100).div_ceil(echo.sent);
            format!("{percent} %")
        }
        _ => String::new(),
    }
}

fn probe(echo: &EchoStatus) -> String {
    format!(
        "rtt {}, {} of {} lost, {} missed in a row, {} handshakes forced",
        echo.rtt_seconds.map_or_else(|| "unknown".to_owned(), short),
        echo.lost,
        echo.sent,
        echo.missed_in_a_row,
        echo.forced_handshakes
    )
}
