//! The Services of a cluster at the gateway, and their agent.

use kedge_control::local::{ClusterAgent, OfferedService, OfferedServiceList};

use super::{Show, View, fleet::PENDING, pairs};
use crate::{style::clean, table::Table};

impl Show for OfferedServiceList {
    fn text(&self, view: &View) -> String {
        let mut titles = vec!["NAMESPACE", "NAME", "ADDRESS", "PORTS", "READY"];
        if view.wide {
            titles.push("TYPE");
        }
        let mut table = Table::new(&titles);
        for it in &self.items {
            let address = match it.addresses.is_empty() {
                true => PENDING.to_owned(),
                false => it.addresses.join(","),
            };
            let mut cells = vec![
                it.namespace.clone(),
                it.name.clone(),
                address,
                it.ports.join(","),
                state(it).to_owned(),
            ];
            if view.wide {
                cells.push(it.kind.clone());
            }
            table.row(cells);
            let hook = view.style.hook();
            if !it.ready && !it.reason.is_empty() {
                let (reason, message) = (clean(&it.reason), clean(&it.message));
                table.note(format!("  {hook} {reason}: {message}"));
            }
            for port in &it.unserved {
                table.note(format!("  {hook} {}", clean(port)));
            }
        }
        let next = match self.items.is_empty() {
            true => "kedge k8s status  (no Service asks to be offered)",
            false => "kedge k8s status",
        };
        table.render() + &view.next(&[next.to_owned()])
    }

    fn names(&self) -> Vec<String> {
        let name = |it: &OfferedService| format!("{}/{}", it.namespace, it.name);
        self.items.iter().map(name).collect()
    }
}

const fn state(service: &OfferedService) -> &'static str {
    match (service.leaving, service.ready) {
        (true, _) => "leaving",
        (false, true) => "yes",
        (false, false) => "NO",
    }
}

impl Show for ClusterAgent {
    fn text(&self, view: &View) -> String {
        let nobody = || "nobody".to_owned();
        let epoch = self.epoch.map(|epoch| epoch.to_string());
        let age = |time: &Option<String>| view.age(time.as_deref().unwrap_or_default());
        let mut text = pairs(&[
            ("agent", self.holder.clone().unwrap_or_else(nobody)),
            ("  Lease", self.lease.clone()),
            ("  since", age(&self.since)),
            ("  renewed", age(&self.renewed)),
            ("  epoch", epoch.unwrap_or_default()),
            (
                "services",
                format!("{}/{} ready", self.ready, self.services),
            ),
        ]);
        for problem in &self.problems {
            text.push_str(&format!(
                "{} {}: {}\n",
                view.style.hook(),
                problem.code,
                clean(&problem.what)
            ));
        }
        text + &view.next(&["kedge k8s services".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.holder.iter().cloned().collect()
    }
}
