//! What HTTPLoadBalancers lead to: it is there before them, and goes after them.

use std::collections::BTreeMap;

use kedge_crd::{HttpLoadBalancerSpec, TcpLoadBalancerSpec, tcp::Exposure};

use super::{
    Plan,
    ask::{Ask, ask},
};
use crate::snapshot::{Offered, Snapshot};

/// Asks for what HTTPLoadBalancers are to lead to.
pub fn ask_all(
    snapshot: &Snapshot,
    plan: &mut Plan,
    wanted: BTreeMap<String, TcpLoadBalancerSpec>,
) {
    let offered = snapshot.offered.as_ref();
    for (name, spec) in wanted {
        let known = offered.and_then(|offered| offered.items.get(&name)?.spec.clone());
        let Ask { is_new, spec } = ask(snapshot.refused.get(&name), known, spec);
        if offered.is_some() && is_new {
            plan.put.push(name.clone());
        }
        if let Some(spec) = spec {
            plan.exposures.insert(name, spec);
        }
    }
}

/// What of the manager's nobody is to lead to any more.
pub fn compare(offered: &Offered, plan: &mut Plan) {
    for (name, item) in &offered.items {
        let Some(spec) = item.spec.as_ref().filter(|spec| is_routed(spec)) else {
            continue;
        };
        if plan.exposures.contains_key(name) {
            continue;
        }
        let users = offered.http.iter().filter(|(_, user)| {
            let user = user.spec.as_ref();
            user.is_some_and(|user| leads_to(user, name))
        });
        let users: Vec<&String> = users.map(|(user, _)| user).collect();
        match &plan.routes {
            Some(_) if users.is_empty() => plan.withdraw.push(name.clone()),
            // It goes with whatever leads there, when that may go.
            Some(routes) if users.iter().all(|user| routes.orphans.contains(user)) => {
                plan.orphans.push(name.clone());
            }
            // It stays as it is until nothing leads there.
            _ => {
                plan.exposures.insert(name.clone(), spec.clone());
            }
        }
    }
}

/// Whether HTTPLoadBalancers alone lead to it.
pub fn is_routed(spec: &TcpLoadBalancerSpec) -> bool {
    spec.exposure == Some(Exposure::Routed)
}

fn leads_to(spec: &HttpLoadBalancerSpec, name: &str) -> bool {
    spec.rules.iter().any(|rule| {
        let mirrors = rule.mirrors.iter().map(|mirror| &mirror.name);
        let mut all = rule.backends.iter().map(|it| &it.name).chain(mirrors);
        all.any(|it| it == name)
    })
}
