//! The fleet, as its manager sees it.

use kedge_control::local::{FleetEndpoint, FleetEndpointList, FleetHostList};

use super::{Show, View, hook};
use crate::{style::clean, table::Table};

impl Show for FleetEndpointList {
    fn text(&self, view: &View) -> String {
        let mut titles = vec![
            "NAMESPACE",
            "CLUSTER",
            "ENDPOINT",
            "MODE",
            "FROM",
            "REACHED-VIA",
            "OWNER",
            "AGE",
        ];
        if view.wide {
            titles.extend(["LOADBALANCER", "BECAUSE"]);
        }
        let mut table = Table::new(&titles);
        for item in &self.items {
            let pending = item.endpoint.is_none();
            let since = item.since.as_deref().unwrap_or_default();
            let mut cells = vec![
                item.namespace.clone(),
                item.cluster.clone(),
                item.endpoint.clone().unwrap_or_else(|| PENDING.to_owned()),
                item.mode.clone(),
                item.from.clone(),
                item.reached_via.clone(),
                item.owner.clone(),
                view.age(since),
            ];
            if view.wide {
                cells.extend([item.load_balancer.clone(), item.because.clone()]);
            }
            table.row(cells);
            if pending && item.problems.is_empty() {
                table.note(format!("  {} {}", view.style.hook(), clean(&reason(item))));
            }
            for problem in &item.problems {
                table.note(hook(problem, view).trim_end().to_owned());
            }
        }
        let problems: Vec<_> = self.items.iter().flat_map(|item| &item.problems).collect();
        table.render() + &super::summary(&problems, view, "kedge fleet hosts")
    }

    fn names(&self) -> Vec<String> {
        let name = |item: &FleetEndpoint| format!("{}/{}", item.namespace, item.cluster);
        self.items.iter().map(name).collect()
    }
}

/// Why an endpoint is blank: the condition that is not true, else the manager's sentence.
fn reason(item: &FleetEndpoint) -> String {
    item.conditions
        .iter()
        .find(|condition| condition.status != "True")
        .map_or_else(
            || item.because.clone(),
            |condition| format!("{}: {}", condition.reason, condition.message),
        )
}

impl Show for FleetHostList {
    fn text(&self, view: &View) -> String {
        let mut titles = vec![
            "NAMESPACE",
            "NAME",
            "TENANT",
            "CLUSTER",
            "ADDRESS",
            "ALIVE",
            "VIPS",
            "GATEWAY",
            "GENERATION",
        ];
        if view.wide {
            titles.extend(["HOST", "OVERLAY", "VERSION"]);
        }
        let mut table = Table::new(&titles);
        for host in &self.items {
            let generation = if host.applied_generation == host.generation {
                host.generation.to_string()
            } else {
                format!("{} of {}", host.applied_generation, host.generation)
            };
            let mut cells = vec![
                host.namespace.clone(),
                host.name.clone(),
                host.tenant.clone(),
                host.cluster.clone(),
                host.address.clone(),
                if host.alive { "yes" } else { "NO" }.to_owned(),
                host.vips.join(","),
                host.gateway.clone(),
                generation,
            ];
            if view.wide {
                cells.extend([
                    host.host_ref.clone(),
                    host.overlay.join(","),
                    host.version.clone(),
                ]);
            }
            table.row(cells);
            for condition in host.conditions.iter().filter(|one| one.status == "False") {
                table.note(format!(
                    "  {} {} is false: {}: {}",
                    view.style.hook(),
                    clean(&condition.kind),
                    clean(&condition.reason),
                    clean(&condition.message)
                ));
            }
        }
        let waits = self.items.iter().find(|host| {
            let mut reasons = host.conditions.iter().map(|condition| &condition.reason);
            reasons.any(|reason| reason == "WaitingForApproval")
        });
        let next = match waits {
            Some(host) => format!("kedge fleet approve {}/{}", host.namespace, host.name),
            None if self.items.is_empty() => {
                "kedge token create --tenant TENANT  (no host is enrolled)".to_owned()
            }
            None => "kedge fleet endpoints".to_owned(),
        };
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items
            .iter()
            .map(|host| format!("{}/{}", host.namespace, host.name))
            .collect()
    }
}

pub(super) const PENDING: &str = "<pending>";
