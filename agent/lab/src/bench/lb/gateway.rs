//! Gateways as roles of Kedge, with what their manager would have told them on their disks, and a host each behind
//! a tunnel.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use ipnet::{IpNet, Ipv4Net};
use kedge_control::{
    agent::{GatewayConfig, PeerConfig, TunnelConfig},
    frontend::Offer,
};
use kedge_host::Role;
use kedge_net::link::{LinkError, Links};
use serde_json::Value;

use super::{
    super::tunnel::standing::{configure, key, remember, root},
    envoy::Envoy,
    services::{add, member},
};
use crate::{error::LabError, lab::Lab, stage::Stage};

/// A gateway and its host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gateway {
    pub(super) node: &'static str,
    pub(super) address: Ipv4Addr,
    pub(super) edge: &'static str,
    /// What carries the connections: `builtin` or `envoy`.
    pub(super) engine: &'static str,
}

/// Where a service listens, and where its back end does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) port: std::num::NonZeroU16,
    pub(super) to: std::num::NonZeroU16,
}

impl Gateway {
    /// Starts it and the agent of its host. The back ends are on the gateway itself, at the second of the host's
    /// addresses: no tunnel is in the way of the bytes, and the host is alive because its tunnel is.
    pub(super) fn start(&self, lab: &mut Lab, services: &[Service]) -> Result<(), LabError> {
        lab.worker(self.node)?.run(|| -> Result<(), LinkError> {
            Links::open()?.add_address("lo", single(BACK))
        })??;
        let gateway = key(lab, self.node, Role::Gateway)?;
        let agent = format!(
            "tunnel: {{addresses: [{HOST}/32], peers: {{gw: {{public_key: '{gateway}', \
             endpoint: '{}:51820', keepalive: 1s, allowed_ips: [{OWN}/32]}}}}}}\n",
            self.address
        );
        configure(lab, self.edge, Role::Agent, &agent)?;
        let text = format!(
            "tunnel: {{listen_port: 51820}}\nproxy: {{engine: {}}}\n",
            self.engine
        );
        configure(lab, self.node, Role::Gateway, &text)?;
        remember(lab, self.node, &self.wished(lab, services)?)?;
        lab.start_kedge(self.node, GATEWAY, [GATEWAY])?;
        lab.start_kedge(self.edge, "agent", ["agent"])
    }

    fn wished(&self, lab: &Lab, services: &[Service]) -> Result<GatewayConfig, LabError> {
        let host = format!("site/{}", self.edge);
        let mut offer = Offer::default();
        for service in services {
            let members = vec![member(host.clone(), BACK.into(), service.to)];
            let place = (self.address.into(), service.port);
            add(&mut offer, service.name.to_owned(), place, members, None);
        }
        Ok(GatewayConfig {
            generation: 1,
            tunnel: Some(TunnelConfig {
                addresses: vec![single(OWN)],
                mtu: 1420,
                peers: vec![PeerConfig {
                    name: host.clone(),
                    tenant: String::new(),
                    public_key: key(lab, self.edge, Role::Agent)?.to_string(),
                    next_public_key: None,
                    endpoint: None,
                    other_endpoint: None,
                    tls_endpoint: None,
                    allowed_ips: vec![single(HOST), single(BACK)],
                    keepalive_seconds: 0,
                }],
            }),
            offer,
            ..GatewayConfig::default()
        })
    }
}

/// Starts the Envoy beside a gateway on its node, with the configuration the gateway wrote, changed by `change`.
pub(super) fn envoy_beside(
    lab: &mut Lab,
    (gateway, node, name): (&str, &'static str, &str),
    executable: &Path,
    change: impl FnOnce(&mut Value),
    stage: &Stage,
) -> Result<Envoy, LabError> {
    let file = root(lab, gateway).run_dir().join("envoy/envoy.json");
    let mut bootstrap: Value =
        stage.eventually("the gateway's configuration for Envoy", SOON, || {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            serde_json::from_str(&text).map_err(|error| error.to_string())
        })?;
    change(&mut bootstrap);
    Envoy::start_with(lab, node, name, executable, &bootstrap, 1)
}

fn single(address: Ipv4Addr) -> IpNet {
    Ipv4Net::from(address).into()
}

/// Where back ends are.
pub(super) const fn back() -> IpAddr {
    IpAddr::V4(BACK)
}

pub(super) const GATEWAY: &str = "gateway";
/// Of the gateway in the tunnel, of the host, and the host's second one.
const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 10);
const BACK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 110);
const SOON: std::time::Duration = std::time::Duration::from_secs(20);
