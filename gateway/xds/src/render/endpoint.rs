//! The members of clusters.

use envoy_types::pb::envoy::config::{
    core::v3::HealthStatus,
    endpoint::v3::{
        ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
        lb_endpoint::HostIdentifier,
    },
};
use kedge_control::frontend::PoolMember;

use super::{
    Here, Life,
    proto::{address, number},
};
use crate::{Kind, resource::Resource};

pub fn render(cluster: &str, members: &[PoolMember], here: &Here) -> Resource {
    let life = |member: &PoolMember| {
        let life = here.lives.get(&member.host).copied();
        match life.unwrap_or(Life::Dead) {
            Life::Alive if member.draining => Life::Draining,
            life => life,
        }
    };
    let made: Vec<(&PoolMember, Life)> = members.iter().map(|one| (one, life(one))).collect();
    let members = made.iter().map(|(member, life)| LbEndpoint {
        health_status: status(*life).into(),
        load_balancing_weight: Some(number(u32::from(member.weight.max(1)))),
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(member.address, member.port.get())),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    });
    let assignment = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: members.collect(),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    };
    Resource::new(Kind::Endpoint, cluster, &made, &assignment)
}

/// What Envoy makes of it; `Unknown` leaves it to checks, where there are any.
const fn status(life: Life) -> HealthStatus {
    match life {
        Life::Alive => HealthStatus::Unknown,
        Life::Dead => HealthStatus::Unhealthy,
        Life::Draining => HealthStatus::Draining,
    }
}
