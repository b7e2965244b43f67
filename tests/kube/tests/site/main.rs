//! The main job on real Kubernetes: a blank endpoint is filled, Cluster API makes the control
//! plane, three hosts behind NAT serve it, and a client's open watch outlives what they do not.
//!
//! ```text
//!  edge-a .11   edge-b .12   edge-c .13                      gateway .7   manager .9
//!   etcd, kube-apiserver, kedge agent                        kedge gateway   kube-apiserver, etcd,
//!     └───────────┴── 10.20.14.0/24 ─┴── NAT ── internet ───────┴────────┘   Cluster API, Elemental,
//!                          └─ client ─────────────┘                          kedge manager
//! ```
//!
//! Only kubelets are stood in for: their nodes and static pods are written by the test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod client;
mod edge;
mod management;
mod table;

use std::{
    path::PathBuf,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_agent_lab::{
    lab::Lab,
    site::{Site, told},
    topology::{GATEWAY, HOSTS, Topology, VIP},
};
use kedge_net::netns::Namespace;

use client::{Clients, Via};
use edge::Edge;
use management::Management;
use table::Table;

#[test]
fn a_control_plane_behind_nat_outlives_its_api_server_its_host_and_its_gateway() {
    if !privileged() {
        return;
    }
    let kedge = PathBuf::from(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
    let (lab, _) = Lab::build(Topology::edge(), kedge).unwrap();
    let home = Namespace::open(&lab.namespace("manager")).unwrap();
    // Whatever is started from here lives where the management cluster does.
    home.run(move || {
        let mut site = Site::new(lab).unwrap();
        let Some(management) = Management::start() else {
            return;
        };
        // The edge goes first, and what is left of a run that failed goes with it.
        let Some(edge) = Edge::start(site.lab()) else {
            return;
        };
        let mut story = Story {
            site: &mut site,
            management: &management,
            edge,
            begun: Instant::now(),
        };
        story.rise();
        story.faults();
    })
    .unwrap();
}

/// The scenario, step by step.
struct Story<'a> {
    site: &'a mut Site,
    management: &'a Management,
    edge: Edge,
    begun: Instant,
}

impl Story<'_> {
    /// From a blank endpoint to three hosts that serve it.
    fn rise(&mut self) {
        let kubeconfig = self.management.kubeconfig().display().to_string();
        self.site.start_manager_on(&kubeconfig).unwrap();
        self.until("the manager serves", |story| {
            story.site.manager().map_err(|err| told(&err))
        });
        self.site.start_gateway().unwrap();
        for host in HOSTS {
            self.site.start_agent(host).unwrap();
        }
        self.until("every host has a tunnel", |story| {
            HOSTS.iter().try_for_each(|host| {
                let status = story.site.agent(host).map_err(|err| told(&err))?;
                let is_up = |tunnel: &kedge_control::local::Tunnel| {
                    tunnel.state == kedge_control::local::TunnelState::Up
                };
                let up = status.tunnels.iter().any(is_up);
                up.then_some(()).ok_or(format!("{host}: none is up"))
            })
        });

        let blank = Instant::now();
        self.management.create_cluster();
        let filled = self.until("the blank endpoint is filled", |story| {
            story.management.endpoint("ElementalCluster")
        });
        assert_eq!(filled, format!("{VIP}:6443"));
        println!("blank to filled: {:.0} ms", millis(blank.elapsed()));
        let copied = self.until("the Cluster has it", |story| {
            story.management.endpoint("Cluster")
        });
        assert_eq!(copied, filled);
        self.until("the control plane has a Machine", |story| {
            let machines = story.management.machines();
            (!machines.is_empty()).then_some(()).ok_or("none".into())
        });
        let authority = self.until("the cluster has an authority", |story| {
            story.management.authority()
        });
        let names = [VIP.to_string(), GATEWAY.to_string()];
        self.edge.workload.certify(&authority, &names);
        self.until("three hosts are the control plane", |story| {
            for host in story.management.to_bootstrap() {
                story.waits(&host)?;
                story.edge.bootstrap(&host)?;
                story.management.bootstrapped(&host);
            }
            story.management.is_whole()
        });
        println!(
            "blank to three hosts: {:.1} s",
            blank.elapsed().as_secs_f64()
        );
        let owner = self.until("one host has the VIP", |story| story.site.owner());
        self.until("its load balancer says so", |story| {
            story.management.balancer_says(owner)
        });
    }

    /// The command of the cluster's templates that a bootstrap begins with. Each try is short,
    /// because other hosts wait too.
    fn waits(&self, host: &str) -> Result<(), String> {
        let lab = self.site.lab();
        let mut command = Command::new(lab.kedge());
        command.args(["vip", "wait", "--timeout", "2s", "--root"]);
        let output = command.arg(lab.root(host)).output();
        let output = output.map_err(|err| told(&err))?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() {
            println!("{host}: {}", said.trim());
            return Ok(());
        }
        assert_eq!(
            output.status.code(),
            Some(7),
            "it waits, or it is wrong: {said}"
        );
        Err(said)
    }

    /// What a client with an open watch sees of three faults.
    fn faults(&mut self) {
        let secret = self.until("the management side goes by the gateway", |story| {
            let secret = story.management.admin()?;
            let by_gateway = secret.contains(&format!("https://{GATEWAY}:"));
            by_gateway.then_some(secret).ok_or("not yet".into())
        });
        let clients = Clients::start(self.site.lab(), &self.edge.workload, &secret);
        for via in Via::ALL {
            self.until(&format!("a watch hears by {via}"), |_| clients.hears(via));
        }
        let mut table = Table::default();

        let owner = self.until("one host has the VIP", |story| story.site.owner());
        let fault = clients.mark();
        self.edge.workload.host(owner).kill_api();
        let next = self.moves_from(owner);
        println!("{owner}'s API server was killed: the VIP is on {next}");
        table.add(
            "the owner's API server killed",
            &self.outlives(&clients, fault),
        );
        self.edge.workload.host(owner).start_api();
        self.until("its API server is back", |story| story.edge.is_ready(owner));

        let owner = self.until("one host has the VIP", |story| story.site.owner());
        let fault = clients.mark();
        self.site.lab_mut().kill_host(owner).unwrap();
        let next = self.moves_from(owner);
        println!("{owner} died: the VIP is on {next}");
        table.add(
            "the owner's whole host killed",
            &self.outlives(&clients, fault),
        );
        // Whoever was first may give it to one whose API server has been ready for longer.
        let holder = self.until("the load balancer follows", |story| {
            let owner = story.site.owner()?;
            story.management.balancer_says(owner).map(|()| owner)
        });

        let fault = clients.mark();
        let gateway = self.site.lab_mut().process("gateway", "gateway");
        gateway.unwrap().kill();
        self.site.start_gateway().unwrap();
        table.add(
            "the gateway killed and restarted",
            &self.outlives(&clients, fault),
        );

        println!("{table}");
        clients.end();
        self.nobody_answers(holder);
        let endpoint = self.management.endpoint("Cluster");
        assert_eq!(endpoint.unwrap(), format!("{VIP}:6443"), "it never changes");
        println!("the scenario: {:.1} s", self.begun.elapsed().as_secs_f64());
    }

    /// Two hosts are left, and the API server of neither answers: the VIP stays where it is, and its
    /// load balancer says that nobody is reached there, by what the agents' own probes say.
    fn nobody_answers(&mut self, owner: &'static str) {
        self.until("the load balancer is reachable", |story| {
            story.management.reaches("True/Serving", owner)
        });
        let left = HOSTS
            .into_iter()
            .filter(|host| self.site.agent(host).is_ok());
        let left: Vec<&str> = left.collect();
        assert_eq!(left.len(), 2, "{left:?}");
        for host in &left {
            self.edge.workload.host(host).kill_api();
        }
        self.until("its probe fails, and the load balancer says so", |story| {
            story
                .management
                .reaches("False/ProbeFailed", "holds the VIP")
        });
        for host in &left {
            self.edge.workload.host(host).start_api();
        }
        self.until("it is reachable again", |story| {
            story.management.reaches("True/Serving", "holds the VIP")
        });
    }

    fn moves_from(&mut self, owner: &str) -> &'static str {
        self.until("another host has the VIP", |story| {
            let found = HOSTS.into_iter().filter(|host| *host != owner);
            let active = |host: &&str| {
                let vip = story.site.vip(host);
                vip.is_ok_and(|vip| vip.state == kedge_core::vip::RouterState::Active)
            };
            found.into_iter().find(active).ok_or("none of them".into())
        })
    }

    /// Every client hears something that was written after the fault; the longest silence of each.
    fn outlives(
        &mut self,
        clients: &Clients,
        fault: client::Mark,
    ) -> Vec<(Via, Duration, Duration)> {
        for via in Via::ALL {
            self.until(&format!("a watch goes on by {via}"), |_| {
                clients.went_on(via, fault)
            });
        }
        // A second fault of the same cause, such as a store without a leader, belongs to it.
        sleep(Duration::from_secs(1));
        clients.gaps(fault)
    }

    /// Waits for something; what is said meanwhile is the evidence when it does not come.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Result<T, String>) -> T {
        let begun = Instant::now();
        loop {
            match look(self) {
                Ok(found) => {
                    let at = self.begun.elapsed().as_secs_f64();
                    println!("{at:6.1} s  {what}: {:.0} ms", millis(begun.elapsed()));
                    return found;
                }
                Err(said) if begun.elapsed() > LIMIT => {
                    self.last_words();
                    panic!("{what}: not within {LIMIT:?}: {said}");
                }
                Err(_) => sleep(Duration::from_millis(50)),
            }
            if let Some(fallen) = self.site.lab_mut().fallen() {
                panic!("{what}: {fallen}");
            }
        }
    }

    fn last_words(&mut self) {
        for (node, name) in [("manager", "manager"), ("gateway", "gateway")] {
            if let Ok(process) = self.site.lab_mut().process(node, name) {
                eprintln!("{node}: {}", process.last_words());
            }
        }
        self.management.last_words();
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
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

/// Cluster API's controllers look at a cluster they could not reach again after 30 s.
const LIMIT: Duration = Duration::from_secs(120);
