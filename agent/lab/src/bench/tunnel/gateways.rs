//! A host with two gateways to the same network: what a packet each millisecond sees of their ends.
//!
//! ```text
//!   edge 10.20.14.11 ──┬── .21  a  10.9.0.1 ──┬── 10.9.0.5 server
//!                      └── .22  b  10.9.0.2 ──┘
//! ```

use std::{net::SocketAddr, path::Path, thread, time::Duration};

use kedge_control::{
    agent::{GatewayConfig, PeerConfig, TunnelConfig},
    local::TunnelList,
};
use kedge_host::{Role, Root};
use kedge_net::netns::Signal;
use kedge_tunnel_proto::keys::PublicKey;

use super::{
    super::{said::said, sessions},
    standing::{configure, key, remember, root},
};
use crate::{
    client,
    error::LabError,
    lab::Lab,
    prober::Prober,
    stage::Stage,
    topology::{SERVER, Topology},
};

/// The host with both gateways, `a` active and a session with each.
pub(super) struct Gateways<'a> {
    lab: Lab,
    stage: &'a Stage,
}

impl<'a> Gateways<'a> {
    pub(super) fn start(kedge: &Path, stage: &'a Stage) -> Result<Self, LabError> {
        let roles = crate::lab::executable(None)?;
        let (lab, _) = Lab::build(Topology::gateways(), kedge.to_owned())?;
        let mut site = Self {
            lab: lab.with_roles_of(roles),
            stage,
        };
        let echo = ["echo", "--name", "server"];
        site.lab.start_role("server", "echo", echo)?;
        let edge = key(&site.lab, "edge", Role::Agent)?;
        let mut peers = Vec::new();
        for (name, number) in [("a", 1), ("b", 2)] {
            peers.push(format!(
                "{name}: {{public_key: '{}', endpoint: '10.20.14.{}:51820', allowed_ips: \
                 [198.18.0.{number}/32]}}",
                key(&site.lab, name, Role::Gateway)?,
                20 + number
            ));
            let text = "tunnel: {listen_port: 51820}\n";
            configure(&site.lab, name, Role::Gateway, text)?;
            site.remember(name, number, edge)?;
            site.lab.start_kedge(name, GATEWAY, ["gateway"])?;
        }
        let text = format!(
            "tunnel: {{addresses: [198.18.0.10/32], peers: {{{}}}, failover: {{prefixes: \
             [10.9.0.0/24], gateways: [a, b], profile: fast, return_after: 2s}}}}\n",
            peers.join(", ")
        );
        configure(&site.lab, "edge", Role::Agent, &text)?;
        site.lab.start_kedge("edge", "agent", ["agent"])?;
        site.until_both_are_up()?;
        Ok(site)
    }

    pub(super) fn take_down(self) -> Vec<String> {
        self.lab.take_down()
    }

    /// Kills the active gateway, and says for how long nothing was answered, in seconds. `kill` is the
    /// number of it.
    pub(super) fn kill(&mut self, kill: u32) -> Result<f64, LabError> {
        let victim = self.active()?;
        let train = self.train()?;
        // Not in step with the packets of BFD.
        thread::sleep(Duration::from_millis(200 + u64::from(37 * (kill % 10))));
        self.lab.signal(&victim, GATEWAY, Signal::KILL)?;
        self.until_active_is_not(&victim)?;
        thread::sleep(AFTERWARDS);
        let report = train.finish()?;
        self.lab.start_kedge(&victim, GATEWAY, ["gateway"])?;
        self.until_both_are_up()?;
        Ok(report.outage_seconds)
    }

    /// Drains the active gateway and lets it serve again, and says how many packets were lost.
    pub(super) fn drain(&mut self) -> Result<f64, LabError> {
        let drained = self.active()?;
        let train = self.train()?;
        self.order(&drained, &["gateway", "drain", "--wait"])?;
        self.until_active_is_not(&drained)?;
        thread::sleep(AFTERWARDS);
        self.order(&drained, &["gateway", "undrain"])?;
        self.until_both_are_up()?;
        let lost = train.finish()?.lost_probes;
        Ok(f64::from(u32::try_from(lost).unwrap_or(u32::MAX)))
    }

    fn train(&self) -> Result<Prober, LabError> {
        let train = Prober::start(&self.lab, "edge", SocketAddr::from((SERVER, 6443)))?;
        train.wait_for_answer(self.stage, LIMIT)?;
        Ok(train)
    }

    /// The gateway that packets go through.
    fn active(&self) -> Result<String, LabError> {
        let what = "an active gateway";
        self.stage.eventually(what, LIMIT, || {
            let found = self.tunnels()?.items.into_iter().find(|tunnel| {
                tunnel
                    .gateway
                    .as_ref()
                    .is_some_and(|gateway| gateway.active)
            });
            found.map_or_else(|| Err("none is".to_owned()), |tunnel| Ok(tunnel.name))
        })
    }

    fn until_active_is_not(&self, before: &str) -> Result<(), LabError> {
        self.stage.eventually("another gateway", LIMIT, || {
            let active = self.active().map_err(|error| error.to_string())?;
            (active != before).then_some(()).ok_or(active)
        })
    }

    fn tunnels(&self) -> Result<TunnelList, String> {
        let socket = self.root("edge").socket(Role::Agent);
        client::read(&socket, "/v1/tunnels").map_err(|error| error.to_string())
    }

    /// Until BFD runs with both at the pace of the profile.
    fn until_both_are_up(&self) -> Result<(), LabError> {
        let host = self.root("edge");
        self.stage.eventually("BFD with both gateways", LIMIT, || {
            sessions::are_up(&host, 2, 0.35)
        })
    }

    fn order(&self, node: &str, words: &[&str]) -> Result<(), LabError> {
        let mut command = std::process::Command::new(self.lab.kedge());
        command.arg("--root").arg(self.lab.root(node)).args(words);
        self.lab
            .worker(node)?
            .run(move || said(command, "").map(drop))?
    }

    /// Leaves with a gateway what its manager would have told it.
    fn remember(&self, node: &str, number: u8, edge: PublicKey) -> Result<(), LabError> {
        let network = |address: String| {
            address.parse().map_err(|_| LabError::Unexpected {
                who: "the bench".to_owned(),
                said: format!("takes {address} for a network"),
            })
        };
        let wished = GatewayConfig {
            generation: 1,
            tunnel: Some(TunnelConfig {
                addresses: vec![network(format!("198.18.0.{number}/32"))?],
                mtu: 1420,
                peers: vec![PeerConfig {
                    name: "site/edge".to_owned(),
                    public_key: edge.to_string(),
                    next_public_key: None,
                    endpoint: None,
                    other_endpoint: None,
                    tls_endpoint: None,
                    tenant: String::new(),
                    allowed_ips: vec![network("198.18.0.10/32".to_owned())?],
                    keepalive_seconds: 0,
                }],
            }),
            ..GatewayConfig::default()
        };
        remember(&self.lab, node, &wished)
    }

    fn root(&self, node: &str) -> Root {
        root(&self.lab, node)
    }
}

const GATEWAY: &str = "gateway";
const LIMIT: Duration = Duration::from_secs(15);
/// What comes late is to be seen.
const AFTERWARDS: Duration = Duration::from_millis(300);
