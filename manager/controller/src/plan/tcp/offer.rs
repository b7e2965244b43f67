//! What a gateway serves of a TCPLoadBalancer: for each port a frontend and a pool of its own, or the
//! pool alone where only HTTPLoadBalancers lead to it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use ipnet::IpNet;
use kedge_control::{
    frontend::{Affinity, ClientIp, Frontend, Health, Limits, Policy, Pool, PoolMember, Protocol},
    site::HttpVersion,
};
use kedge_crd::{
    TcpLoadBalancerSpec,
    tcp::{AppProtocol, BalancePolicy, HealthCheck, ProxyProtocol, SessionAffinity, TcpPort},
    traffic::Transport,
};

use super::{Given, Tcp};
use crate::{
    plan::{config::peer_name, offered::Offered},
    store::Name,
};

/// What a gateway serves of it.
pub fn of(tcp: &Tcp) -> Vec<Offered> {
    let mut parts = Vec::new();
    for port in tcp.pooled() {
        let given = tcp.given.iter().find(|given| given.name == port.name);
        parts.extend(given.map(|given| Offered::Frontend(frontend(tcp, given))));
        parts.extend(pool(tcp, port).map(Offered::Pool));
    }
    parts
}

/// What a port of a TCPLoadBalancer is called at gateways, and its pool.
pub fn frontend_name(name: &Name, port: &str) -> String {
    format!("{name}/{port}")
}

fn frontend(tcp: &Tcp, given: &Given) -> Frontend {
    let name = frontend_name(&tcp.name, &given.name);
    Frontend {
        name: name.clone(),
        tenant: tcp.tenant.clone(),
        address: tcp.own.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        port: given.listener,
        protocol: match given.protocol {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        },
        pool: name,
        client_ip: client_ip(&tcp.spec),
        source_ranges: source_ranges(&tcp.spec),
    }
}

/// The addresses that clients may have, each once and in order: how they are written changes no listener.
fn source_ranges(spec: &TcpLoadBalancerSpec) -> Vec<IpNet> {
    let ranges: BTreeSet<IpNet> = spec.source_ranges.iter().map(IpNet::trunc).collect();
    ranges.into_iter().collect()
}

/// Whether backends are told who the client is before the first byte.
pub fn client_ip(spec: &TcpLoadBalancerSpec) -> ClientIp {
    match spec.proxy_protocol {
        None => ClientIp::Hidden,
        Some(ProxyProtocol::V1) => ClientIp::ProxyV1,
        Some(ProxyProtocol::V2) => ClientIp::ProxyV2,
    }
}

/// The pool of a port.
pub fn pool(tcp: &Tcp, port: &TcpPort) -> Option<Pool> {
    let spec = &tcp.spec;
    let limits = match port.protocol.unwrap_or_default() {
        Transport::Tcp => Limits::default(),
        Transport::Udp => Limits {
            idle_seconds: UDP_IDLE_SECONDS,
            ..Limits::default()
        },
    };
    Some(Pool {
        name: frontend_name(&tcp.name, &port.name),
        tenant: tcp.tenant.clone(),
        members: members(tcp, port)?,
        policy: match spec.policy.unwrap_or_default() {
            BalancePolicy::RoundRobin => Policy::RoundRobin,
            BalancePolicy::LeastConnections => Policy::LeastConnections,
            BalancePolicy::Maglev => Policy::Maglev,
        },
        affinity: match spec.session_affinity.unwrap_or_default() {
            SessionAffinity::None => Affinity::None,
            SessionAffinity::ClientIP => Affinity::ClientIp,
        },
        health: spec.health_check.as_ref().map(health),
        limits,
        http: match port.app_protocol.unwrap_or_default() {
            AppProtocol::Http => HttpVersion::One,
            AppProtocol::H2c => HttpVersion::Two,
        },
    })
}

fn members(tcp: &Tcp, port: &TcpPort) -> Option<Vec<PoolMember>> {
    port.port?;
    let mut members: Vec<PoolMember> = Vec::new();
    for member in &tcp.members {
        let member = PoolMember {
            host: peer_name(&member.host),
            address: member.address,
            port: member.port(port)?,
            weight: 1,
            draining: member.draining,
        };
        if !members.contains(&member) {
            members.push(member);
        }
    }
    Some(members)
}

fn health(check: &HealthCheck) -> Health {
    let seconds = |span: Option<kedge_core::Span>, default: f64| {
        span.map_or(default, |span| span.duration().as_secs_f64())
    };
    Health {
        interval_seconds: seconds(check.interval, 5.0),
        timeout_seconds: seconds(check.timeout, 2.0),
        fall: check.fall.unwrap_or(3),
        rise: check.rise.unwrap_or(2),
    }
}

/// How long a UDP session stands without a datagram: as long as connection tracking on Linux keeps a
/// stream (`nf_conntrack_udp_timeout_stream`).
const UDP_IDLE_SECONDS: u32 = 120;
