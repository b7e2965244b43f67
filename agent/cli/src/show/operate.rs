//! Orders, what came of them, and what happened.

use jiff::Timestamp;
use kedge_control::local::{
    DrainOrder, History, Order, Restart, Timeline, Upgrade, VipOrder, VridScan,
};
use kedge_core::vip::RouterState;

use super::{Show, View};
use crate::{
    problem,
    style::{clean, short},
    table::Table,
};

/// What an order does, a line each, and whether it was only asked about.
fn planned(plan: &[String], given: bool) -> String {
    let mark = if given { "" } else { "not done: " };
    plan.iter()
        .map(|line| format!("{mark}{}\n", clean(line)))
        .collect()
}

impl Show for VipOrder {
    fn text(&self, view: &View) -> String {
        let mut text = String::new();
        let vip = clean(&self.vip);
        match &self.outcome {
            Some(outcome) => {
                let place = match outcome.holder.as_str() {
                    "" => "nobody is heard holding it".to_owned(),
                    holder => format!("is on {}", clean(holder)),
                };
                text.push_str(&format!("{vip} {place}: {}\n", clean(&outcome.because)));
            }
            None => text.push_str(&planned(&self.plan, self.given)),
        }
        let next = match self.order {
            Order::Release | Order::Move if self.outcome.is_some() => {
                format!("kedge vip timeline {vip}")
            }
            Order::Freeze if self.given => format!("kedge vip thaw {vip}"),
            Order::Release
            | Order::Move
            | Order::Freeze
            | Order::Thaw
            | Order::Drain
            | Order::Undrain => format!("kedge vip show {vip}"),
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        vec![self.vip.clone()]
    }
}

impl Show for DrainOrder {
    fn text(&self, view: &View) -> String {
        let mut text = planned(&self.plan, self.given);
        if !self.items.is_empty() {
            let mut table = Table::new(&["NAME", "WAS", "NOW ON", "BECAUSE"]);
            for item in &self.items {
                let (holder, because) = match &item.outcome {
                    Some(outcome) => (outcome.holder.clone(), outcome.because.clone()),
                    None => (String::new(), item.plan.join("; ")),
                };
                table.row([item.vip.clone(), item.state.to_string(), holder, because]);
            }
            text.push_str(&table.render());
        }
        let next = match self.order {
            Order::Drain if self.given => "kedge undrain",
            _ => "kedge status",
        };
        text + &view.next(&[next.to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.vip.clone()).collect()
    }
}

impl Show for Restart {
    fn text(&self, view: &View) -> String {
        let mut text = planned(&self.plan, self.given);
        if let Some(outcome) = &self.outcome {
            let (version, took) = (clean(&outcome.version), outcome.took_seconds);
            text.push_str(&format!("kedge {version} answers after {took:.2} s\n"));
        }
        text + &view.next(&["kedge status".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        vec![self.executable.clone()]
    }
}

impl Show for Upgrade {
    fn text(&self, view: &View) -> String {
        let (from, to) = (clean(&self.from), clean(&self.to));
        let mut text = planned(&self.plan, self.given || from == to);
        let mut next = vec!["kedge status".to_owned()];
        if let Some(outcome) = &self.outcome {
            let ready = match outcome.restarted {
                true => format!(
                    ", and its agent is ready after {:.2} s",
                    outcome.ready_seconds
                ),
                false => String::new(),
            };
            text.push_str(&format!(
                "kedge {to} is installed in place of {from}{ready}\n"
            ));
            next.extend(
                outcome
                    .kept
                    .is_some()
                    .then(|| "kedge upgrade --rollback".to_owned()),
            );
        }
        text + &view.next(&next)
    }

    fn names(&self) -> Vec<String> {
        vec![self.to.clone()]
    }
}

impl Show for History {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&["AT", "VIP", "FROM", "TO", "BECAUSE"]);
        let mut earlier = true;
        for (index, item) in self.items.iter().enumerate() {
            if item.this_boot && earlier && index > 0 {
                table.note("the host was started".to_owned());
            }
            earlier = !item.this_boot;
            let state = |state: Option<RouterState>| {
                state.map_or_else(String::new, |state| state.to_string())
            };
            table.row([
                item.at.clone(),
                item.vip.clone(),
                state(item.from),
                state(item.to),
                item.because.clone(),
            ]);
        }
        let next = match self.items.iter().rev().find(|item| !item.vip.is_empty()) {
            Some(item) => format!("kedge vip timeline {}", clean(&item.vip)),
            None => "kedge vip list  (nothing is recorded)".to_owned(),
        };
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.items.iter().map(|item| item.vip.clone()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }
}

impl Show for Timeline {
    fn text(&self, view: &View) -> String {
        if self.items.is_empty() {
            let none = "no failover is recorded since this host was started\n";
            return none.to_owned() + &view.next(&["kedge vip history".to_owned()]);
        }
        let mut text = format!("{}\n", view.style.bold(&clean(&self.vip)));
        for clock in &self.clocks {
            text.push_str(&format!("# {}\n", clean(clock)));
        }
        let hosts = self.items.iter().map(|item| item.host.chars().count());
        let width = hosts.max().unwrap_or_default();
        let mut before: Option<Timestamp> = None;
        for item in &self.items {
            let at: Option<Timestamp> = item.at.parse().ok();
            let since = before.zip(at).map(|(before, at)| {
                format!(
                    "  +{:.3} ms",
                    at.duration_since(before).as_secs_f64() * 1_000.0
                )
            });
            before = at.or(before);
            let clock = item
                .at
                .split_once('T')
                .map_or(item.at.as_str(), |(_, clock)| clock);
            text.push_str(&format!(
                "{}  {:<width$}  {}{}\n",
                clean(clock),
                clean(&item.host),
                clean(&item.text),
                view.style.dim(&since.unwrap_or_default()),
            ));
        }
        text + &view.next(&[format!("kedge vip history {}", clean(&self.vip))])
    }

    fn names(&self) -> Vec<String> {
        vec![self.vip.clone()]
    }
}

impl Show for VridScan {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&[
            "INTERFACE",
            "VRID",
            "FAMILY",
            "OURS",
            "ROUTER",
            "MAC",
            "PRIORITY",
            "VERSION",
            "INTERVAL",
            "CHECKSUM",
            "AUTH",
            "ADDRESSES",
        ]);
        for here in &self.items {
            let place = [
                here.interface.clone(),
                here.vrid.to_string(),
                here.family.clone(),
                here.ours.clone(),
            ];
            if here.routers.is_empty() {
                let mut row = place.to_vec();
                row.push("nobody else".to_owned());
                row.resize(12, String::new());
                table.row(row);
            }
            for router in &here.routers {
                let addresses: Vec<String> =
                    router.addresses.iter().map(ToString::to_string).collect();
                let how = [
                    router.address.to_string(),
                    router.mac.clone(),
                    router.priority.to_string(),
                    router.version.to_string(),
                    short(router.advert_interval_seconds),
                    router.checksum.clone(),
                    router.auth.clone(),
                    addresses.join(","),
                ];
                table.row(place.iter().cloned().chain(how));
            }
        }
        let mut text = table.render();
        for (reason, count) in &self.malformed {
            text.push_str(&format!(
                "{count} packets were no advertisement: {}\n",
                clean(reason)
            ));
        }
        for (interface, vrid) in &self.free {
            text.push_str(&format!("VRID {vrid} is free on {}\n", clean(interface)));
        }
        for problem in &self.problems {
            text.push_str(&problem::render(problem, view.style));
        }
        let next = match self.problems.first() {
            Some(problem) => format!("kedge explain {}", problem.code),
            None => "kedge vip list".to_owned(),
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .items
            .iter()
            .map(|here| here.vrid.to_string())
            .collect();
        names.dedup();
        names
    }
}
