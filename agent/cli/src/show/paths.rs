//! Which way packets take, and why.

use kedge_control::local::{PathList, TunnelPath};

use super::{Show, View, pairs};
use crate::{
    style::{clean, short},
    table::Table,
};

impl Show for PathList {
    fn text(&self, view: &View) -> String {
        if self.items.is_empty() {
            return format!(
                "no path: no gateway is asked, and no mesh has named another host\n{}",
                view.next(&["kedge tunnel list".to_owned()])
            );
        }
        let mut text = match self.nat.as_str() {
            "" => String::new(),
            nat => format!("NAT of this host: {}\n", clean(nat)),
        };
        let titles = [
            "PEER", "PATH", "ENDPOINT", "DIRECT", "GATEWAY", "NAT", "FOR",
        ];
        let mut table = Table::new(&titles);
        for path in &self.items {
            table.row(vec![
                path.name.clone(),
                way(path),
                path.endpoint.clone().unwrap_or_default(),
                path.direct_rtt_seconds.map(short).unwrap_or_default(),
                path.gateway_rtt_seconds.map(short).unwrap_or_default(),
                path.nat.clone().unwrap_or_default(),
                view.age(&path.since),
            ]);
            if let Some(fallback) = fallback(path) {
                table.note(format!("  {} {fallback}", view.style.hook()));
            }
            if !path.because.is_empty() {
                let (hook, because) = (view.style.hook(), clean(&path.because));
                // There is one path to a gateway; what is asked is whether packets take it.
                let what = if path.path == "tls" || path.path.starts_with("udp") {
                    &path.reason
                } else {
                    &path.path
                };
                table.note(format!("  {hook} {} because {because}", clean(what)));
            }
        }
        text.push_str(&table.render());
        let first = self.items.first().map_or_else(
            || "kedge tunnel list".to_owned(),
            |path| format!("kedge tunnel path {}", clean(&path.name)),
        );
        text + &view.next(&[first])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|path| path.name.clone()).collect()
    }
}

impl Show for TunnelPath {
    fn text(&self, view: &View) -> String {
        let rtt = |seconds: Option<f64>| seconds.map(short).unwrap_or_default();
        let mut text = format!("{}\n", view.style.bold(&clean(&self.name)));
        text.push_str(&pairs(&[
            (
                "path",
                format!("{} for {}", way(self), view.age(&self.since)),
            ),
            ("fallback", fallback(self).unwrap_or_default()),
            ("because", self.because.clone()),
            ("reason", self.reason.clone()),
            ("endpoint", self.endpoint.clone().unwrap_or_default()),
            ("direct rtt", rtt(self.direct_rtt_seconds)),
            ("gateway rtt", rtt(self.gateway_rtt_seconds)),
            ("its nat", self.nat.clone().unwrap_or_default()),
            ("called at", self.candidates.join(", ")),
            ("sees us at", self.seen_at.clone().unwrap_or_default()),
        ]));
        text + &view.next(&["kedge tunnel list".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

fn fallback(path: &TunnelPath) -> Option<String> {
    let fallback = path.fallback.as_ref()?;
    let (because, code) = (clean(&fallback.because), clean(&fallback.code));
    Some(format!("FALLBACK because {because} ({code})"))
}

fn way(path: &TunnelPath) -> String {
    match &path.through {
        Some(gateway) => format!("{} {gateway}", path.path),
        None => path.path.clone(),
    }
}
