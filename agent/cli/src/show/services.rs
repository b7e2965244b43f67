//! The Services, Ingresses and routes of a cluster at the gateway, and their agent.

use kedge_control::local::{
    ClusterAgent, OfferedIngress, OfferedIngressList, OfferedRoute, OfferedRouteList,
    OfferedService, OfferedServiceList,
};

use super::{Show, View, fleet::PENDING, pairs};
use crate::{style::clean, table::Table};

impl Show for OfferedServiceList {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&titles(&[], "TYPE", view));
        for it in &self.items {
            row(&mut table, view, it.into());
        }
        list(&table, view, self.items.is_empty().then_some("Service"))
    }

    fn names(&self) -> Vec<String> {
        let name = |it: &OfferedService| format!("{}/{}", it.namespace, it.name);
        self.items.iter().map(name).collect()
    }
}

impl Show for OfferedIngressList {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&titles(&["HOSTS"], "CLASS", view));
        for it in &self.items {
            row(&mut table, view, it.into());
        }
        list(&table, view, self.items.is_empty().then_some("Ingress"))
    }

    fn names(&self) -> Vec<String> {
        let name = |it: &OfferedIngress| format!("{}/{}", it.namespace, it.name);
        self.items.iter().map(name).collect()
    }
}

impl Show for OfferedRouteList {
    fn text(&self, view: &View) -> String {
        let titles = [
            "NAMESPACE",
            "NAME",
            "KIND",
            "HOSTS",
            "GATEWAY",
            "LISTENER",
            "ADDRESS",
            "READY",
        ];
        let mut table = Table::new(&titles);
        for it in &self.items {
            table.row(vec![
                it.namespace.clone(),
                it.name.clone(),
                it.kind.clone(),
                it.hosts.join(","),
                it.gateway.clone(),
                match it.listener.is_empty() {
                    true => "*".to_owned(),
                    false => it.listener.clone(),
                },
                places(&it.addresses),
                state(it.leaving, it.ready).to_owned(),
            ]);
            let wrong = (!it.ready).then_some((&*it.reason, &*it.message));
            notes(&mut table, view, wrong, &it.unserved);
        }
        list(&table, view, self.items.is_empty().then_some("route"))
    }

    fn names(&self) -> Vec<String> {
        let name = |it: &OfferedRoute| format!("{}/{}/{}", it.kind, it.namespace, it.name);
        let mut names: Vec<String> = self.items.iter().map(name).collect();
        names.dedup();
        names
    }
}

/// What a line says of an object that is offered.
struct Line<'a> {
    namespace: &'a str,
    name: &'a str,
    /// The names it is asked by, where it has names.
    hosts: Option<&'a [String]>,
    addresses: &'a [String],
    ports: &'a [String],
    state: &'static str,
    /// The last cell of a wide table.
    kind: &'a str,
    /// Why clients are not served, if they are not: a word and a sentence.
    wrong: Option<(&'a str, &'a str)>,
    unserved: &'a [String],
}

impl<'a> From<&'a OfferedService> for Line<'a> {
    fn from(it: &'a OfferedService) -> Self {
        Self {
            namespace: &it.namespace,
            name: &it.name,
            hosts: None,
            addresses: &it.addresses,
            ports: &it.ports,
            state: state(it.leaving, it.ready),
            kind: &it.kind,
            wrong: (!it.ready).then_some((&it.reason, &it.message)),
            unserved: &it.unserved,
        }
    }
}

impl<'a> From<&'a OfferedIngress> for Line<'a> {
    fn from(it: &'a OfferedIngress) -> Self {
        Self {
            namespace: &it.namespace,
            name: &it.name,
            hosts: Some(&it.hosts),
            addresses: &it.addresses,
            ports: &it.ports,
            state: state(it.leaving, it.ready),
            kind: &it.class,
            wrong: (!it.ready).then_some((&it.reason, &it.message)),
            unserved: &it.unserved,
        }
    }
}

fn titles<'a>(own: &[&'a str], kind: &'a str, view: &View) -> Vec<&'a str> {
    let mut titles = vec!["NAMESPACE", "NAME"];
    titles.extend(own);
    titles.extend(["ADDRESS", "PORTS", "READY"]);
    titles.extend(view.wide.then_some(kind));
    titles
}

fn row(table: &mut Table, view: &View, it: Line<'_>) {
    let mut cells = vec![it.namespace.to_owned(), it.name.to_owned()];
    cells.extend(it.hosts.map(|hosts| hosts.join(",")));
    cells.push(places(it.addresses));
    cells.extend([it.ports.join(","), it.state.to_owned()]);
    cells.extend(view.wide.then(|| it.kind.to_owned()));
    table.row(cells);
    notes(table, view, it.wrong, it.unserved);
}

fn places(addresses: &[String]) -> String {
    match addresses.is_empty() {
        true => PENDING.to_owned(),
        false => addresses.join(","),
    }
}

/// Why clients are not served, if they are not, and what of it is not.
fn notes(table: &mut Table, view: &View, wrong: Option<(&str, &str)>, unserved: &[String]) {
    let hook = view.style.hook();
    if let Some((reason, message)) = wrong.filter(|(reason, _)| !reason.is_empty()) {
        let (reason, message) = (clean(reason), clean(message));
        table.note(format!("  {hook} {reason}: {message}"));
    }
    for part in unserved {
        table.note(format!("  {hook} {}", clean(part)));
    }
}

/// The table, and what to look at next; nothing of the kind `none` asks to be offered, if it is named.
fn list(table: &Table, view: &View, none: Option<&str>) -> String {
    let next = match none {
        Some(kind) => format!("kedge k8s status  (no {kind} asks to be offered)"),
        None => "kedge k8s status".to_owned(),
    };
    table.render() + &view.next(&[next])
}

const fn state(leaving: bool, ready: bool) -> &'static str {
    match (leaving, ready) {
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
            (
                "ingresses",
                format!("{}/{} ready", self.ingresses_ready, self.ingresses),
            ),
            (
                "routes",
                format!("{}/{} ready", self.routes_ready, self.routes),
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
        text + &view.next(&[
            "kedge k8s services".to_owned(),
            "kedge k8s ingresses".to_owned(),
            "kedge k8s routes".to_owned(),
        ])
    }

    fn names(&self) -> Vec<String> {
        self.holder.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::view;

    #[test]
    fn services_are_listed_with_what_is_wrong() {
        let web = OfferedService {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            kind: "LoadBalancer".to_owned(),
            addresses: vec!["203.0.113.7".to_owned()],
            ports: vec!["80/TCP".to_owned(), "443/TCP".to_owned()],
            unserved: vec!["443/TCP: PortInUse".to_owned()],
            ready: true,
            ..OfferedService::default()
        };
        let closed = OfferedService {
            name: "closed".to_owned(),
            addresses: Vec::new(),
            unserved: Vec::new(),
            ready: false,
            reason: "TypeNotSupported".to_owned(),
            message: "it has no node ports\u{1b}[31m".to_owned(),
            ..web.clone()
        };
        let list = OfferedServiceList {
            items: vec![closed, web],
        };
        let text = list.text(&view());
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "NAMESPACE  NAME    ADDRESS      PORTS           READY",
                "shop       closed  <pending>    80/TCP,443/TCP  NO",
                "  `-> TypeNotSupported: it has no node ports\\u{1b}[31m",
                "shop       web     203.0.113.7  80/TCP,443/TCP  yes",
                "  `-> 443/TCP: PortInUse",
                "Next: kedge k8s status",
            ]
        );
    }

    #[test]
    fn ingresses_are_listed_with_what_of_them_is_not_served() {
        let shop = OfferedIngress {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            hosts: vec!["a.example".to_owned()],
            addresses: vec!["203.0.113.7".to_owned()],
            ports: vec!["80/TCP".to_owned()],
            unserved: vec!["NodePortRequired: make it NodePort".to_owned()],
            ready: true,
            ..OfferedIngress::default()
        };
        let odd = OfferedIngress {
            name: "odd".to_owned(),
            addresses: Vec::new(),
            unserved: Vec::new(),
            ready: false,
            reason: "NoRules".to_owned(),
            message: "spec.rules is empty\u{1b}[31m".to_owned(),
            ..shop.clone()
        };
        let list = OfferedIngressList {
            items: vec![odd, shop],
        };
        let text = list.text(&view());
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "NAMESPACE  NAME  HOSTS      ADDRESS      PORTS   READY",
                "shop       odd   a.example  <pending>    80/TCP  NO",
                "  `-> NoRules: spec.rules is empty\\u{1b}[31m",
                "shop       web   a.example  203.0.113.7  80/TCP  yes",
                "  `-> NodePortRequired: make it NodePort",
                "Next: kedge k8s status",
            ]
        );
    }

    #[test]
    fn routes_are_listed_with_where_they_are_and_what_is_wrong() {
        let shop = OfferedRoute {
            kind: "HTTPRoute".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            hosts: vec!["a.example".to_owned()],
            gateway: "edge/gw".to_owned(),
            listener: "https".to_owned(),
            addresses: vec!["203.0.113.7".to_owned()],
            unserved: vec!["BackendNotFound: no Service".to_owned()],
            ready: true,
            ..OfferedRoute::default()
        };
        let raw = OfferedRoute {
            kind: "TLSRoute".to_owned(),
            listener: String::new(),
            addresses: Vec::new(),
            unserved: Vec::new(),
            ready: false,
            reason: "NotAllowedByListeners".to_owned(),
            message: "no listener\u{1b}[31m".to_owned(),
            ..shop.clone()
        };
        let list = OfferedRouteList {
            items: vec![shop, raw],
        };
        let text = list.text(&view());
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "NAMESPACE  NAME  KIND       HOSTS      GATEWAY  LISTENER  ADDRESS      READY",
                "shop       web   HTTPRoute  a.example  edge/gw  https     203.0.113.7  yes",
                "  `-> BackendNotFound: no Service",
                "shop       web   TLSRoute   a.example  edge/gw  *         <pending>    NO",
                "  `-> NotAllowedByListeners: no listener\\u{1b}[31m",
                "Next: kedge k8s status",
            ]
        );
        assert_eq!(list.names(), ["HTTPRoute/shop/web", "TLSRoute/shop/web"]);
    }

    #[test]
    fn an_agent_is_shown_with_what_it_speaks_with() {
        let agent = ClusterAgent {
            lease: "kedge-system/kedge-services".to_owned(),
            holder: Some("node-1_6a0e".to_owned()),
            epoch: Some(7),
            services: 2,
            ready: 1,
            ingresses: 4,
            ingresses_ready: 3,
            ..ClusterAgent::default()
        };
        let text = agent.text(&view());
        for part in [
            "node-1_6a0e",
            "kedge-system/kedge-services",
            "7",
            "1/2 ready",
            "3/4 ready",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(ClusterAgent::default().text(&view()).contains("nobody"));
    }
}
