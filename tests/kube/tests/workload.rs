//! A workload cluster's control plane on three hosts of a LAN, as the end-to-end scenario runs it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kedge_net::{
    link::Links,
    netns::{Lease, Namespace, Worker},
};
use kedge_tests_kube::{
    eventually,
    workload::{Place, Workload, connect, is_ready},
};
use kube::{Api, api::PostParams};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn three_hosts_are_one_control_plane_and_go_on_as_two() {
    if !privileged() {
        return;
    }
    let lan = Lan::new(&["a", "b", "c"]);
    let places = lan.hosts.iter().map(Host::place).collect();
    let Some(mut workload) = Workload::start(lan.lease.directory(), places, &[]) else {
        return;
    };
    for host in &lan.hosts {
        let config = workload.kubeconfig(&host.address.to_string());
        let name = host.name.clone();
        host.run(async move || {
            let client = connect(&config).await.unwrap();
            eventually(&format!("{name} is ready"), LIMIT, || is_ready(&client)).await;
        });
    }
    write_through(&lan, &workload, "a", "b", "first");
    workload.host("a").kill_api();
    workload.host("a").kill_etcd();
    write_through(&lan, &workload, "b", "c", "second");
}

/// Writes an object on one host's server and reads it on another's.
fn write_through(lan: &Lan, workload: &Workload, from: &str, to: &str, name: &str) {
    let (from, to) = (lan.host(from), lan.host(to));
    let here = workload.kubeconfig(&from.address.to_string());
    let there = workload.kubeconfig(&to.address.to_string());
    let name = name.to_owned();
    from.run(async move || {
        let maps: Api<ConfigMap> = Api::namespaced(connect(&here).await.unwrap(), "default");
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.clone());
        map.data = Some(BTreeMap::from([("from".to_owned(), "edge".to_owned())]));
        // A store that lost its leader answers once it has another.
        eventually(&format!("{name} is written"), LIMIT, async || {
            let written = maps.create(&PostParams::default(), &map).await;
            written.is_ok() || maps.get_opt(&name).await.is_ok_and(|found| found.is_some())
        })
        .await;
        let maps: Api<ConfigMap> = Api::namespaced(connect(&there).await.unwrap(), "default");
        eventually(&format!("{name} is read elsewhere"), LIMIT, async || {
            maps.get_opt(&name).await.is_ok_and(|found| found.is_some())
        })
        .await;
    });
}

fn privileged() -> bool {
    if kedge_net::privilege::check().is_ok() {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "netns");
    assert!(!required, "network namespaces need root");
    eprintln!("skipped: network namespaces need root");
    false
}

/// Hosts on a bridge in a namespace of its own.
struct Lan {
    hosts: Vec<Host>,
    _switch: Namespace,
    lease: Lease,
}

struct Host {
    name: String,
    address: Ipv4Addr,
    worker: Arc<Worker>,
    _namespace: Namespace,
}

impl Lan {
    fn new(names: &[&str]) -> Self {
        let lease = Lease::take().unwrap();
        let switch = Namespace::create(&lease.namespace("switch")).unwrap();
        switch
            .run(|| Links::open().unwrap().bridge("br0").unwrap())
            .unwrap();
        let mut hosts = Vec::new();
        for (number, name) in (1..).zip(names) {
            let namespace = Namespace::create(&lease.namespace(name)).unwrap();
            switch
                .run(|| {
                    let mut links = Links::open().unwrap();
                    links.veth(name, "eth0", Some(&namespace)).unwrap();
                    links.attach(name, "br0").unwrap();
                    links.up(name).unwrap();
                })
                .unwrap();
            let address = Ipv4Addr::new(10, 20, 30, number);
            namespace
                .run(|| {
                    let mut links = Links::open().unwrap();
                    links.up("lo").unwrap();
                    links.up("eth0").unwrap();
                    let net = format!("{address}/24").parse().unwrap();
                    links.add_address("eth0", net).unwrap();
                })
                .unwrap();
            hosts.push(Host {
                name: (*name).to_owned(),
                address,
                worker: Arc::new(Worker::start(&namespace).unwrap()),
                _namespace: namespace,
            });
        }
        Self {
            hosts,
            _switch: switch,
            lease,
        }
    }

    fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|host| host.name == name).unwrap()
    }
}

impl Host {
    fn place(&self) -> Place {
        let worker = self.worker.clone();
        Place {
            name: self.name.clone(),
            address: self.address,
            spawn: Box::new(move |command| worker.spawn(command).unwrap()),
        }
    }

    /// Runs something inside.
    fn run<F: Future<Output = ()>>(&self, work: impl FnOnce() -> F + Send + 'static) {
        self.worker
            .run(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.unwrap().block_on(work());
            })
            .unwrap();
    }
}
