//! A role at one glance: a line per thing, worst marks visible, the next command at the end.

use kedge_control::local::{
    AgentStatus, Ending, GatewayStatus, HandshakeGuard, HealthStatus, Inhibitor, ListenerStatus,
    ManagerLink, ManagerStatus, PeerLink, RoleInfo, ShortcutState, ShortcutStatus, TenantStatus,
    Tunnel, TunnelState, Vip,
};
use kedge_core::{Problem, vip::RouterState};

use super::{Show, View, bfd, bgp, hook, summary, tunnels, vips};
use crate::{
    problem::headline,
    style::{Mark, clean, long, short},
};

impl Show for AgentStatus {
    fn text(&self, view: &View) -> String {
        let mut text = header(&self.role, "", view);
        if let Some(since) = &self.drained_since {
            let age = view.age(since);
            let parts = [
                format!("DRAINED for {age}"),
                "a VIP is held here only while no other host does".to_owned(),
            ];
            text.push_str(&line(Mark::Warning, "Drain", &parts, view));
        }
        if let Some(inhibitor) = &self.inhibitor {
            text.push_str(&inhibitor_line(inhibitor, view));
        }
        for vip in &self.vips {
            text.push_str(&vip_line(vip, view));
        }
        for vip in &self.anycast {
            let (mark, parts) = bgp::anycast(vip);
            text.push_str(&line(mark, "VIP", &parts, view));
        }
        for health in &self.health {
            text.push_str(&health_line(health, view));
        }
        for vip in &self.vips {
            for track in &vip.tracks {
                let mark = if track.good { Mark::Good } else { Mark::Bad };
                let what = format!("{} {}", vip.name, vips::tracked(track));
                text.push_str(&line(mark, "Track", &[what], view));
            }
        }
        for link in &self.peer_links {
            text.push_str(&peer_line(link, view));
        }
        for session in &self.bfd {
            let parts = bfd::parts(session);
            text.push_str(&line(bfd::mark(session), "BFD", &parts, view));
        }
        for neighbor in &self.bgp {
            let parts = bgp::parts(neighbor);
            text.push_str(&line(bgp::mark(neighbor), "BGP", &parts, view));
        }
        for peer in &self.tunnels {
            text.push_str(&tunnel_line(peer, view));
        }
        text.push_str(&guard_line(self.guard.as_ref(), view));
        for shortcut in &self.shortcuts {
            text.push_str(&shortcut_line(shortcut, view));
        }
        if let Some(link) = &self.manager {
            text.push_str(&manager_line(link, view));
        }
        for address in self.addresses.iter().filter(|address| address.primary) {
            let interface = address.interface.as_deref().unwrap_or_default();
            text.push_str(&line(
                Mark::Good,
                "Address",
                &[
                    format!("{} {interface}", address.address),
                    because(&address.because),
                ],
                view,
            ));
        }
        let mut problems: Vec<&Problem> = self.vips.iter().flat_map(|vip| &vip.problems).collect();
        for problem in &self.problems {
            // What stands below its VIP already is not told twice.
            if !problems.contains(&problem) {
                problems.push(problem);
                text.push_str(&problem_line(problem, view));
            }
        }
        let next = match self.vips.first() {
            Some(vip) => format!("kedge vip explain {}", clean(&vip.name)),
            None => "kedge config view --origins".to_owned(),
        };
        text + &summary(&problems, view, &next)
    }

    fn names(&self) -> Vec<String> {
        vec![self.role.hostname.clone()]
    }
}

impl Show for GatewayStatus {
    fn text(&self, view: &View) -> String {
        let mut text = header(&self.role, " gateway", view);
        for listener in &self.listeners {
            text.push_str(&listener_line(listener, view));
        }
        for peer in &self.tunnels {
            text.push_str(&tunnel_line(peer, view));
        }
        for tenant in &self.tenants {
            text.push_str(&tenant_line(tenant, view));
        }
        text.push_str(&guard_line(self.guard.as_ref(), view));
        text.push_str(&match &self.manager {
            Some(link) => manager_line(link, view),
            // A gateway knows hosts and listeners from nobody else.
            None => line(
                Mark::Warning,
                "Manager",
                &["none is configured: it names the hosts and the listeners".to_owned()],
                view,
            ),
        });
        for problem in &self.problems {
            text.push_str(&problem_line(problem, view));
        }
        let problems: Vec<&Problem> = self.problems.iter().collect();
        let next = match &self.manager {
            Some(_) => "kedge tunnel list",
            None => "kedge config view --role gateway --origins",
        };
        text + &summary(&problems, view, next)
    }

    fn names(&self) -> Vec<String> {
        vec![self.role.hostname.clone()]
    }
}

impl Show for ManagerStatus {
    fn text(&self, view: &View) -> String {
        let mut text = header(&self.role, " manager", view);
        let all = |some: u32, of: u32| {
            if some == of {
                Mark::Good
            } else {
                Mark::Warning
            }
        };
        for (mark, word, parts) in [
            (Mark::Good, "Store", vec![self.store.clone()]),
            (
                Mark::Good,
                "API",
                vec![self.agent_api.clone(), format!("pin {}", self.ca_pin)],
            ),
            (
                all(self.endpoints, self.clusters),
                "Clusters",
                vec![format!(
                    "{} of {} have an endpoint",
                    self.endpoints, self.clusters
                )],
            ),
            (
                all(self.hosts_alive, self.hosts),
                "Hosts",
                vec![format!(
                    "{} of {} are heard of",
                    self.hosts_alive, self.hosts
                )],
            ),
        ] {
            text.push_str(&line(mark, word, &parts, view));
        }
        for problem in &self.problems {
            text.push_str(&problem_line(problem, view));
        }
        let problems: Vec<&Problem> = self.problems.iter().collect();
        text + &summary(&problems, view, "kedge fleet endpoints")
    }

    fn names(&self) -> Vec<String> {
        vec![self.role.hostname.clone()]
    }
}

fn tenant_line(tenant: &TenantStatus, view: &View) -> String {
    let mark = if tenant.ready {
        Mark::Good
    } else {
        Mark::Warning
    };
    let hosts = match tenant.hosts {
        1 => "1 host".to_owned(),
        many => format!("{many} hosts"),
    };
    let parts = [tenant.tenant.clone(), hosts, tenant.namespace.clone()];
    line(mark, "Tenant", &parts, view)
}

fn header(role: &RoleInfo, what: &str, view: &View) -> String {
    let config = if role.config_stale {
        format!(
            "config #{} STALE: a newer one was refused",
            role.config_generation
        )
    } else {
        format!("config #{} ok", role.config_generation)
    };
    let who = format!(
        "kedge {}{what} on {}",
        clean(&role.version),
        clean(&role.hostname)
    );
    format!(
        "{}   up {}   {config}\n",
        view.style.bold(&who),
        long(role.uptime_seconds)
    )
}

fn vip_line(vip: &Vip, view: &View) -> String {
    let interface = vip.interface.as_deref().unwrap_or("no interface");
    let state = format!(
        "{} since {}",
        vip.state.to_string().to_uppercase(),
        long(vip.state_seconds)
    );
    let priority = format!("prio {}", vips::priority(vip, view));
    let others = match (&vip.active, vip.state) {
        // Never a guess: a Backup does not speak.
        (_, RouterState::Active) => "backups unknown (VRRP backups do not speak)".to_owned(),
        (Some(peer), _) => format!("active {}", vips::heard(peer)),
        (None, _) => because(&vip.because),
    };
    let frozen = vip.frozen.as_ref();
    let parts = [
        format!("{} {interface}", vip.addresses.join(", ")),
        state,
        frozen.map_or_else(String::new, |frozen| {
            format!("FROZEN until {}", frozen.until)
        }),
        priority,
        others,
    ];
    let mut text = marked(&vips::mark(vip, view), "VIP", &parts, view);
    for problem in &vip.problems {
        text.push_str(&hook(problem, view));
    }
    text
}

/// Who waits for the VIPs when the host goes down. Without anybody they are handed over as the agent
/// ends, or by its hand-over unit.
fn inhibitor_line(inhibitor: &Inhibitor, view: &View) -> String {
    let (mark, begun) = match (inhibitor.ending, inhibitor.held) {
        (Some(Ending::Shutdown), _) => (Mark::Warning, "THE HOST GOES DOWN"),
        (Some(Ending::Sleep), _) => (Mark::Warning, "THE HOST WILL SLEEP"),
        (None, true) => (Mark::Good, ""),
        (None, false) => (Mark::Idle, ""),
    };
    let lock = format!("inhibitor: {}", inhibitor.because);
    line(mark, "Shutdown", &[begun.to_owned(), lock], view)
}

/// A link to another host of the VIPs. One that is missing costs little.
fn peer_line(link: &PeerLink, view: &View) -> String {
    let (mark, state) = if link.up {
        (Mark::Good, "linked".to_owned())
    } else {
        (Mark::Warning, because(&link.because))
    };
    let host = link.host.as_deref().map(clean).unwrap_or_default();
    let who = format!("{host} {}", link.address).trim().to_owned();
    line(mark, "Peer", &[who, state], view)
}

fn health_line(health: &HealthStatus, view: &View) -> String {
    let mark = match health.verdict.as_str() {
        "healthy" => Mark::Good,
        "failing" => Mark::Bad,
        _ => Mark::Warning,
    };
    let verdict = match health.latency_seconds {
        Some(latency) => format!("{} in {}", health.verdict, short(latency)),
        None => health.verdict.clone(),
    };
    line(
        mark,
        "Health",
        &[
            format!("{} {}", health.vip, health.probe),
            verdict,
            match mark {
                Mark::Good => String::new(),
                _ => because(&health.because),
            },
        ],
        view,
    )
}

/// The door to the handshakes, while it is not open to everybody.
fn guard_line(guard: Option<&HandshakeGuard>, view: &View) -> String {
    let Some(guard) = guard.filter(|guard| guard.under_load) else {
        return String::new();
    };
    let told = tunnels::guard(guard);
    line(Mark::Warning, "Guard", &told, view)
}

fn tunnel_line(peer: &Tunnel, view: &View) -> String {
    let some = |word: &str, value: String| {
        if value.is_empty() {
            String::new()
        } else {
            format!("{word} {value}")
        }
    };
    let parts = [
        format!(
            "{}  {} {}",
            peer.name,
            peer.path,
            peer.endpoint.as_deref().unwrap_or("(calls us)")
        ),
        match tunnels::fallback(peer) {
            Some(_) if peer.state == TunnelState::Up => "FALLBACK".to_owned(),
            _ => tunnels::state(peer.state).to_uppercase(),
        },
        some(
            "handshake",
            peer.handshake_age_seconds.map(long).unwrap_or_default(),
        ),
        some("rtt", tunnels::rtt(peer.echo.as_ref())),
        some("loss", tunnels::loss(peer.echo.as_ref())),
        match peer.state {
            TunnelState::Up => peer.fallback.as_ref().map_or_else(String::new, |fallback| {
                because(&format!("{} ({})", fallback.because, fallback.code))
            }),
            _ => because(&peer.because),
        },
    ];
    marked(&tunnels::mark(peer, view), "Tunnel", &parts, view)
}

/// An endpoint that this host may answer for. Where it is the gateway's, and reached, nothing is wrong.
fn shortcut_line(shortcut: &ShortcutStatus, view: &View) -> String {
    let (mark, who) = match shortcut.state {
        ShortcutState::Gateway => (Mark::Good, "left to the gateway"),
        ShortcutState::Doubted => (Mark::Warning, "NOT REACHED"),
        ShortcutState::Standing => (Mark::Warning, "THIS HOST ANSWERS"),
        ShortcutState::Returning => (Mark::Warning, "THIS HOST ANSWERS, going back"),
        ShortcutState::Refused => (Mark::Warning, "REFUSED"),
    };
    let answers = matches!(
        shortcut.state,
        ShortcutState::Standing | ShortcutState::Returning
    );
    let since = match shortcut.state {
        ShortcutState::Gateway | ShortcutState::Refused => String::new(),
        _ => format!("for {}", view.age(&shortcut.since)),
    };
    let parts = [
        format!("{} {}", shortcut.name, shortcut.endpoints.join(", ")),
        who.to_owned(),
        since,
        match answers {
            true => format!(
                "{} of {} hosts answer, {} open",
                shortcut.answering.len(),
                shortcut.targets.len(),
                shortcut.open
            ),
            false => String::new(),
        },
        match shortcut.state {
            ShortcutState::Gateway => String::new(),
            _ => because(&shortcut.because),
        },
    ];
    line(mark, "Shortcut", &parts, view)
}

fn manager_line(link: &ManagerLink, view: &View) -> String {
    let mark = match (link.enrolled, link.connected) {
        (true, true) => Mark::Good,
        _ => Mark::Warning,
    };
    let standing = if link.enrolled {
        format!("enrolled as {}", link.record)
    } else {
        "NOT ENROLLED".to_owned()
    };
    let connected = if link.connected {
        format!("connected, generation {}", link.applied_generation)
    } else {
        "NOT CONNECTED".to_owned()
    };
    let certificate = match link.certificate_expires.as_deref() {
        Some(end) => match view.until(end) {
            Some(left) => format!("certificate ends in {left}"),
            None => "certificate EXPIRED".to_owned(),
        },
        None => String::new(),
    };
    let reason = if link.enrolled && link.connected {
        String::new()
    } else {
        because(&link.because)
    };
    line(
        mark,
        "Manager",
        &[link.url.clone(), standing, connected, certificate, reason],
        view,
    )
}

fn listener_line(listener: &ListenerStatus, view: &View) -> String {
    let alive = listener
        .members
        .iter()
        .filter(|member| member.alive)
        .count();
    let mark = if !listener.bound {
        Mark::Bad
    } else if alive == 0 {
        Mark::Warning
    } else {
        Mark::Good
    };
    let mut text = line(
        mark,
        "Listener",
        &[
            format!("{} {}", listener.name, at(listener.address, listener.port)),
            if listener.bound { "bound" } else { "NOT BOUND" }.to_owned(),
            format!("{alive} of {} members alive", listener.members.len()),
            format!(
                "{} open, {} accepted, {} refused",
                listener.open, listener.accepted, listener.refused
            ),
        ],
        view,
    );
    for member in listener.members.iter().filter(|member| !member.alive) {
        text.push_str(&format!(
            "  {} {} {} is not alive: {}\n",
            view.style.hook(),
            clean(&member.host),
            at(member.address, member.port),
            clean(&member.because)
        ));
    }
    text
}

fn problem_line(problem: &Problem, view: &View) -> String {
    let mark = Mark::of([problem], Mark::Good);
    let text = format!("{} ({})", headline(problem), problem.code);
    line(mark, "Problem", &[text], view)
}

fn at(address: std::net::IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!("because {reason}")
    }
}

fn line(mark: Mark, word: &str, parts: &[String], view: &View) -> String {
    marked(&view.style.mark(mark), word, parts, view)
}

fn marked(mark: &str, word: &str, parts: &[String], _view: &View) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| clean(part.trim()))
        .filter(|part| !part.is_empty())
        .collect();
    format!("{mark} {word:<8} {}\n", parts.join("   "))
}
