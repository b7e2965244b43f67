//! BGP neighbours, routes, and why they are told.

use std::net::IpAddr;

use kedge_control::{
    Kind,
    local::{
        AnycastVip, BgpExplanation, BgpMode, BgpNeighbor, BgpNeighborList, BgpRoute, BgpRouteList,
    },
};
use kedge_core::bgp::SessionState;

use super::{Show, View, hook, pairs};
use crate::{
    style::{Mark, clean, long},
    table::Table,
};

impl Show for BgpNeighborList {
    fn text(&self, view: &View) -> String {
        if self.items.is_empty() {
            return nobody(self, view);
        }
        let mut titles = vec![
            "NEIGHBOR", "ADDRESS", "AS", "STATE", "SINCE", "TOLD", "HEARD", "LOST",
        ];
        if view.wide {
            titles.extend(["ROUTER-ID", "HOLD", "BFD", "IN", "OUT", "BECAUSE"]);
        }
        let mut table = Table::new(&titles);
        for it in &self.items {
            let mut cells = vec![
                it.name.clone(),
                place(it),
                system(it),
                it.state.to_string(),
                long(it.state_seconds),
                it.advertised.to_string(),
                it.received.announced.to_string(),
                it.lost.to_string(),
            ];
            if view.wide {
                cells.extend([
                    it.router_id.map(|id| id.to_string()).unwrap_or_default(),
                    hold(it.hold_seconds),
                    it.bfd.clone().unwrap_or_default(),
                    it.messages_received.to_string(),
                    it.messages_sent.to_string(),
                    it.because.clone(),
                ]);
            }
            table.row(cells);
            if it.state != SessionState::Established && !view.wide {
                let because = clean(&it.because);
                table.note(format!("  {} because {because}", view.style.hook()));
            }
            for problem in &it.problems {
                table.note(hook(problem, view).trim_end().to_owned());
            }
        }
        let mut problems = self.items.iter().flat_map(|it| &it.problems);
        let next = match problems.next() {
            Some(problem) => format!("kedge explain {}", problem.code),
            None => "kedge bgp routes advertised".to_owned(),
        };
        head(self) + &table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|it| it.name.clone()).collect()
    }
}

/// The same with all that is known of each.
pub struct Details(pub BgpNeighborList);

impl Kind for Details {
    const KIND: &'static str = BgpNeighborList::KIND;
}

impl Show for Details {
    fn text(&self, view: &View) -> String {
        let Self(list) = self;
        if list.items.is_empty() {
            return nobody(list, view);
        }
        let all = list.items.iter().map(|it| details(it, view));
        let all: Vec<String> = all.collect();
        all.join("\n") + &view.next(&["kedge bgp routes advertised".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

impl Show for BgpNeighbor {
    fn text(&self, view: &View) -> String {
        let routes = format!("kedge bgp routes received --neighbor {}", clean(&self.name));
        details(self, view) + &view.next(&[routes])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

impl Show for BgpRouteList {
    fn text(&self, view: &View) -> String {
        if self.items.is_empty() {
            return format!("no route\n{}", view.next(&["kedge bgp summary".to_owned()]));
        }
        let mut titles = vec![
            "PREFIX",
            "NEIGHBOR",
            "WHAT",
            "NEXT-HOP",
            "PATH",
            "MED",
            "PREF",
            "COMMUNITIES",
        ];
        if view.wide {
            titles.extend(["VIP", "ORIGIN", "AGE"]);
        }
        let mut table = Table::new(&titles);
        for route in &self.items {
            let number = |value: Option<u32>| value.map(|it| it.to_string()).unwrap_or_default();
            let mut cells = vec![
                route.prefix.clone(),
                route.neighbor.clone(),
                route.what.clone(),
                route.next_hop.clone().unwrap_or_default(),
                route.as_path.clone(),
                number(route.med),
                number(route.local_pref),
                communities(route),
            ];
            if view.wide {
                cells.extend([
                    route.vip.clone().unwrap_or_default(),
                    route.origin.clone(),
                    route.age_seconds.map(long).unwrap_or_default(),
                ]);
            }
            table.row(cells);
            if let Some(flaw) = &route.flaw {
                table.note(format!("  {} {}", view.style.hook(), clean(flaw)));
            }
        }
        let first = self.items.first().map(|route| clean(&route.prefix));
        let next = format!("kedge bgp explain {}", first.unwrap_or_default());
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items
            .iter()
            .map(|route| route.prefix.clone())
            .collect()
    }
}

impl Show for BgpExplanation {
    fn text(&self, view: &View) -> String {
        let verdict = if self.offered {
            "is told"
        } else {
            "is not told"
        };
        let mut text = format!(
            "{} {verdict}: {}\n",
            clean(&self.prefix),
            clean(&self.because)
        );
        let mut table = Table::new(&["NEIGHBOR", "TOLD", "BECAUSE"]);
        for it in &self.items {
            let told = if it.told { "yes" } else { "no" };
            table.row(vec![
                it.neighbor.clone(),
                told.to_owned(),
                it.because.clone(),
            ]);
        }
        if !self.items.is_empty() {
            text.push_str(&table.render());
        }
        let next = match &self.vip {
            Some(vip) => format!("kedge vip explain {}", clean(vip)),
            None => "kedge bgp summary".to_owned(),
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        vec![self.prefix.clone()]
    }
}

/// The mark in front of a neighbour.
pub(super) fn mark(it: &BgpNeighbor) -> Mark {
    match it.state {
        SessionState::Established => Mark::Good,
        _ if it.problems.is_empty() => Mark::Warning,
        _ => Mark::Bad,
    }
}

/// Where it is: an address of a link comes with the interface, which stands alone until somebody is found
/// there.
fn place(it: &BgpNeighbor) -> String {
    match (it.address, &it.interface) {
        (Some(IpAddr::V6(v6)), Some(interface)) if v6.is_unicast_link_local() => {
            format!("{v6}%{}", clean(interface))
        }
        (Some(address), _) => address.to_string(),
        (None, interface) => clean(interface.as_deref().unwrap_or_default()).into_owned(),
    }
}

/// Its autonomous system, or `any` while it has not said which.
fn system(it: &BgpNeighbor) -> String {
    it.asn
        .map_or_else(|| "any".to_owned(), |asn| asn.to_string())
}

/// A neighbour in the parts of a line.
pub(super) fn parts(it: &BgpNeighbor) -> Vec<String> {
    let is_up = it.state == SessionState::Established;
    vec![
        format!("{}  {} AS {}", it.name, place(it), system(it)),
        format!(
            "{} for {}",
            it.state.to_string().to_uppercase(),
            long(it.state_seconds)
        ),
        match is_up {
            true => format!("is told of {} routes", it.advertised),
            false => format!("because {}", it.because),
        },
    ]
}

/// A VIP that every healthy host has, in the parts of a line.
pub(super) fn anycast(vip: &AnycastVip) -> (Mark, Vec<String>) {
    let mark = match vip.state.as_str() {
        "announced" => Mark::Good,
        _ => Mark::Warning,
    };
    let addresses: Vec<String> = vip.addresses.iter().map(ToString::to_string).collect();
    let parts = vec![
        format!("{}  {} (anycast)", vip.name, addresses.join(",")),
        format!(
            "{} for {}",
            vip.state.to_uppercase(),
            long(vip.state_seconds)
        ),
        format!("because {}", vip.because),
    ];
    (mark, parts)
}

fn nobody(list: &BgpNeighborList, view: &View) -> String {
    let next = view.next(&["kedge config default  (bgp)".to_owned()]);
    match list.mode {
        BgpMode::Off => format!("BGP is not configured\n{next}"),
        BgpMode::Own => format!("no BGP neighbour is configured\n{next}"),
        BgpMode::RouteTableOnly => {
            let table = list.table.unwrap_or_default();
            let mut text =
                format!("a routing daemon of this host takes routes from table {table}:\n");
            for route in &list.routes {
                text.push_str(&format!("  {}\n", clean(route)));
            }
            if list.routes.is_empty() {
                text.push_str("  none\n");
            }
            text + &view.next(&[format!("ip route show table {table}")])
        }
    }
}

fn head(list: &BgpNeighborList) -> String {
    let asn = list.asn.map(|asn| asn.to_string()).unwrap_or_default();
    let id = list.router_id.map(|id| id.to_string()).unwrap_or_default();
    format!(
        "AS {asn}, router id {id}, {} routes offered\n",
        list.routes.len()
    )
}

fn details(it: &BgpNeighbor, view: &View) -> String {
    let kind = if it.asn == Some(it.local_asn) {
        "internal"
    } else {
        "external"
    };
    let mut options: Vec<&str> = Vec::new();
    options.extend(it.password.then_some("password"));
    options.extend(it.ttl_security.then_some("ttl_security"));
    options.extend(it.passive.then_some("passive"));
    let end = |end: Option<std::net::SocketAddr>| end.map(|it| it.to_string()).unwrap_or_default();
    let id = it.router_id.map(|id| id.to_string()).unwrap_or_default();
    let routers = it
        .multihop
        .map(|crossed| format!("up to {crossed} routers in between"));
    let received = it.received;
    let refused = it.refused.iter();
    let refused = refused.map(|(reason, count)| format!("{count} {reason}"));
    let mut text = format!(
        "{}  {} AS {} ({kind}), {} for {}\n",
        clean(&it.name),
        place(it),
        system(it),
        it.state,
        long(it.state_seconds)
    );
    text.push_str(&pairs(&[
        ("  because", it.because.clone()),
        ("  router id", id),
        ("  local end", end(it.local)),
        ("  remote end", end(it.remote)),
        ("  distance", routers.unwrap_or_default()),
        ("  options", options.join(", ")),
        ("  families", it.families.join(", ")),
        ("  hold time", hold(it.hold_seconds)),
        ("  BFD session", it.bfd.clone().unwrap_or_default()),
        ("  told of", format!("{} routes", it.advertised)),
        (
            "  heard of",
            format!(
                "{} announced, {} withdrawn, {} refused",
                received.announced, received.withdrawn, received.refused
            ),
        ),
        (
            "  messages",
            format!(
                "{} received, {} sent",
                it.messages_received, it.messages_sent
            ),
        ),
        (
            "  sessions",
            format!("{} established, {} lost", it.established, it.lost),
        ),
        ("  last word", it.notification.clone().unwrap_or_default()),
        ("  refused", refused.collect::<Vec<_>>().join(", ")),
    ]));
    for problem in &it.problems {
        text.push_str(&hook(problem, view));
    }
    text
}

fn hold(seconds: u16) -> String {
    match seconds {
        0 => "never".to_owned(),
        seconds => format!("{seconds}s"),
    }
}

fn communities(route: &BgpRoute) -> String {
    let standard = route.communities.iter().map(ToString::to_string);
    let extended = route.extended_communities.iter().map(ToString::to_string);
    let large = route.large_communities.iter().map(ToString::to_string);
    let all: Vec<String> = standard.chain(extended).chain(large).collect();
    all.join(" ")
}
