//! The endpoint of each cluster: three modes, never over a user's value, always with a reason.

use std::{net::IpAddr, num::NonZeroU16};

use kedge_crd::{
    Endpoint, LoadBalancerSpec,
    balancer::{API_PORT, ManagementAccess, Mode, Port, Preset, Refill, TargetKindName},
};

use super::{
    balancer::{Balancer, Case, Source},
    because::Because,
    follow::{followed, follows, published_last},
    gate,
    gateway::{self, GatewayUse},
    handed,
    ledger::Ledger,
    names,
    refill::{self, Fill},
    reserve,
    wake::Wake,
};
use crate::{
    snapshot::{Infra, Snapshot},
    store::Name,
};

/// What is to be done about a cluster's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the same everywhere: the endpoint and why"
)]
pub enum EndpointPlan {
    /// Nobody asked Kedge.
    Ignore { because: Because },
    /// Nothing is changed: the cluster is paused or being deleted.
    Rest { because: Because },
    /// Something is missing.
    Wait { because: Because },
    /// Two values contradict each other; nothing is overwritten.
    Conflict { because: Because },
    /// A user set it.
    User {
        endpoint: Endpoint,
        because: Because,
    },
    /// It was set earlier and stays.
    Keep {
        endpoint: Endpoint,
        because: Because,
    },
    /// Another LoadBalancer fills the cluster's endpoint; this is one more way in.
    Beside {
        endpoint: Endpoint,
        because: Because,
    },
    /// It is set.
    Set {
        endpoint: Endpoint,
        because: Because,
    },
}

impl EndpointPlan {
    /// The endpoint in force by this plan.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::User { endpoint, .. }
            | Self::Keep { endpoint, .. }
            | Self::Beside { endpoint, .. }
            | Self::Set { endpoint, .. } => Some(endpoint),
            Self::Ignore { .. } | Self::Rest { .. } | Self::Wait { .. } | Self::Conflict { .. } => {
                None
            }
        }
    }

    /// Why.
    #[must_use]
    pub const fn because(&self) -> &Because {
        match self {
            Self::Ignore { because }
            | Self::Rest { because }
            | Self::Wait { because }
            | Self::Conflict { because }
            | Self::User { because, .. }
            | Self::Keep { because, .. }
            | Self::Beside { because, .. }
            | Self::Set { because, .. } => because,
        }
    }
}

/// A plan with what was found on the way.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The plan.
    pub plan: EndpointPlan,
    /// Why the address, port or host does not exist, if so.
    pub missing: Option<Because>,
    /// The gateway in use, or why there is none although one is wanted.
    pub gateway: Option<Result<GatewayUse, Because>>,
    /// The VIP's address of the other family, where one is wanted.
    pub second: Option<Result<IpAddr, Because>>,
    /// How often the fill was undone lately.
    pub refill: Option<Refill>,
}

/// Decides one case and writes what was chosen into its LoadBalancer's spec.
pub fn plan(snapshot: &Snapshot, ledger: &mut Ledger, case: &mut Case, wake: &mut Wake) -> Decided {
    let balancer = match &mut case.asked {
        Ok(balancer) => balancer,
        Err(because) => {
            let because = because.clone();
            return Decided::without(unasked(
                snapshot,
                &case.cluster,
                case.infra.as_ref(),
                because,
            ));
        }
    };
    let wish = match wish(snapshot, &case.cluster, case.infra.as_ref(), balancer) {
        Ok(wish) => wish,
        Err(plan) => {
            balancer.restrain();
            let gateway = wants_gateway(balancer).then(|| gateway::in_use(snapshot, balancer));
            return Decided {
                gateway,
                ..Decided::without(plan)
            };
        }
    };
    let blank_port = case.infra.as_ref().and_then(|infra| infra.written.port());
    let served = serve(
        snapshot,
        ledger,
        balancer,
        wish.endpoint.as_ref(),
        blank_port,
    );
    let second = match balancer.spec.mode {
        Some(Mode::Vip) => super::vip::choose_second(snapshot, ledger, balancer),
        _ => None,
    };
    let name = names::hostname(balancer).map(str::to_owned);
    let served = served.map(|(mut endpoint, because)| {
        if let Some(name) = name {
            endpoint.host = name;
        }
        (endpoint, because)
    });
    let gateway = wants_gateway(balancer).then(|| {
        let gateway = gateway::in_use(snapshot, balancer)?;
        gateway::claim_ports(snapshot, ledger, balancer, &gateway.name, None)?;
        Ok(gateway)
    });
    let missing = served.as_ref().err().cloned();
    let used = gateway.as_ref().and_then(|gateway| gateway.as_ref().ok());
    let ready = names::check(snapshot, &case.cluster, balancer, used);
    let plan = match (ready, &balancer.kept.endpoint) {
        (Err(because), None) if wish.filled_at.is_none() => EndpointPlan::Wait { because },
        _ => conclude(snapshot, balancer, wish, served),
    };
    let mut refill = None;
    let plan = match (plan, &case.infra) {
        (EndpointPlan::Keep { endpoint, because }, Some(infra)) => {
            match refill::check(snapshot, &balancer.name, infra, &mut refill, wake) {
                Fill::Stands => EndpointPlan::Keep { endpoint, because },
                Fill::Again(because) => EndpointPlan::Keep { endpoint, because },
                Fill::Later(because) => EndpointPlan::Wait { because },
            }
        }
        (plan, _) => plan,
    };
    Decided {
        plan,
        missing,
        gateway,
        second,
        refill,
    }
}

impl Decided {
    const fn without(plan: EndpointPlan) -> Self {
        Self {
            plan,
            missing: None,
            gateway: None,
            second: None,
            refill: None,
        }
    }
}

/// The ports of a LoadBalancer; the API server's when none are named.
#[must_use]
pub fn ports(spec: &LoadBalancerSpec, blank_port: Option<u16>) -> Vec<Port> {
    let mut ports = spec.ports.clone();
    if ports.is_empty() {
        let port = blank_port.filter(|_| spec.mode != Some(Mode::Tunnel));
        let port = port.and_then(NonZeroU16::new).unwrap_or(API);
        ports.push(one_port("api", port));
    }
    let joins = |port: &Port| port.port == RKE2_JOIN || port.name == RKE2_JOIN_NAME;
    if spec.preset == Some(Preset::Rke2) && !ports.iter().any(joins) {
        ports.push(one_port(RKE2_JOIN_NAME, RKE2_JOIN));
    }
    ports
}

fn one_port(name: &str, port: NonZeroU16) -> Port {
    Port {
        name: name.to_owned(),
        port,
        target_port: None,
    }
}

/// What users already said about an endpoint.
struct Wish {
    endpoint: Option<Endpoint>,
    /// Where a user set it on the infrastructure cluster itself, so that there is nothing to fill.
    filled_at: Option<String>,
    /// Where else a user set it.
    set_at: Option<String>,
    in_cluster: Option<Endpoint>,
}

/// Looks at what users wrote; ends the plan where that alone decides.
fn wish(
    snapshot: &Snapshot,
    cluster_name: &Name,
    infra: Option<&Infra>,
    balancer: &Balancer,
) -> Result<Wish, EndpointPlan> {
    let conflict = |because| Err(EndpointPlan::Conflict { because });
    let (cluster, infra) = gate::open(snapshot, cluster_name, infra)?;
    if let Some(because) = gate::vanished(snapshot, &balancer.name) {
        return Err(EndpointPlan::Rest { because });
    }
    if balancer.spec.mode.is_none() && balancer.spec.infrastructure_ref.is_none() {
        return Err(EndpointPlan::Wait {
            because: Because::ModeUnset,
        });
    }
    let valid = |endpoint: &Endpoint| endpoint.is_valid().then(|| endpoint.clone());
    let in_given = balancer.given.endpoint.as_ref().and_then(valid);
    if balancer.beside.is_some() {
        return Ok(Wish {
            endpoint: in_given.clone(),
            filled_at: None,
            set_at: in_given.map(|_| format!("LoadBalancer {}", balancer.name)),
            in_cluster: None,
        });
    }
    let at = infra.key.to_string();
    if !infra.written.host.is_empty() && !infra.written.is_valid() {
        let host = infra.written.host.escape_debug().to_string();
        return conflict(Because::HostWithoutPort { at, host });
    }
    let in_infra = valid(&infra.written);
    let in_cluster = followed(snapshot, cluster_name)
        .or(cluster.spec.control_plane_endpoint.clone())
        .as_ref()
        .and_then(valid);
    if let (Some(one), Some(other)) = (&in_infra, &in_given)
        && one != other
    {
        return conflict(Because::UsersDisagree {
            one: one.clone(),
            other: other.clone(),
        });
    }
    let endpoint = in_infra.clone().or_else(|| in_given.clone());
    let expected = endpoint.as_ref().or(balancer.kept.endpoint.as_ref());
    if let Some(theirs) = &in_cluster
        && expected != Some(theirs)
        && published_last(snapshot, balancer).as_ref() != Some(theirs)
    {
        let at = format!("Cluster {cluster_name}");
        return conflict(Because::OtherEndpoint {
            at,
            theirs: theirs.clone(),
            ours: expected.cloned(),
        });
    }
    if let (Some(theirs), Some(ours)) = (&endpoint, &balancer.kept.endpoint)
        && theirs != ours
    {
        let at = in_infra
            .as_ref()
            .map_or_else(|| format!("LoadBalancer {}", balancer.name), |_| at);
        return conflict(Because::OtherEndpoint {
            at,
            theirs: theirs.clone(),
            ours: Some(ours.clone()),
        });
    }
    Ok(Wish {
        endpoint,
        filled_at: in_infra.map(|_| at),
        set_at: in_given.map(|_| format!("LoadBalancer {}", balancer.name)),
        in_cluster,
    })
}

/// Makes the address, port or reservation exist, and tells the endpoint that follows from it.
fn serve(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &mut Balancer,
    wish: Option<&Endpoint>,
    blank_port: Option<u16>,
) -> Result<(Endpoint, Because), Because> {
    let first = ports(&balancer.spec, blank_port).into_iter().next();
    let port = wish
        .and_then(Endpoint::port)
        .or(first.map(|port| port.port.get()))
        .unwrap_or(API_PORT);
    if let Some(reference) = &balancer.spec.infrastructure_ref {
        return handed::endpoint(snapshot, &balancer.name, reference);
    }
    match balancer.spec.mode {
        None => Err(Because::ModeUnset),
        Some(Mode::Vip) => {
            let wished = wish.and_then(|wish| wish.host.parse().ok());
            let (address, because) = super::vip::choose(snapshot, ledger, balancer, wished)?;
            Ok((Endpoint::new(address.to_string(), port), because))
        }
        Some(Mode::Tunnel) => {
            let gateway = gateway::in_use(snapshot, balancer)?;
            let kept = balancer.kept.endpoint.clone();
            let wish = wish.or(kept.as_ref());
            let port = gateway::claim_ports(snapshot, ledger, balancer, &gateway.name, wish)?;
            let because = Because::ThroughGateway {
                gateway: gateway.name,
                port: port.get(),
            };
            Ok((Endpoint::new(gateway.address, port.get()), because))
        }
        Some(Mode::HostAddress) => match wish {
            Some(wish) => Ok((
                wish.clone(),
                Because::ExplicitHost {
                    host: wish.host.clone(),
                },
            )),
            None => {
                let (address, because) = reserve::host(snapshot, ledger, balancer)?;
                Ok((Endpoint::new(address, port), because))
            }
        },
    }
}

fn conclude(
    snapshot: &Snapshot,
    balancer: &mut Balancer,
    wish: Wish,
    served: Result<(Endpoint, Because), Because>,
) -> EndpointPlan {
    if let (Some(endpoint), Some(at)) = (wish.endpoint.clone(), wish.filled_at) {
        let because = Because::UserSet {
            at,
            endpoint: endpoint.clone(),
        };
        return EndpointPlan::User { endpoint, because };
    }
    let (mut endpoint, mut because) = match (served, &balancer.kept.endpoint) {
        (Ok(served), _) => served,
        // Published once: a pool or gateway that vanished does not take it back.
        (Err(because), Some(kept)) => (kept.clone(), because),
        (Err(because), None) => return EndpointPlan::Wait { because },
    };
    if let (Some(wished), Some(at)) = (wish.endpoint, wish.set_at) {
        because = Because::UserSet {
            at,
            endpoint: wished.clone(),
        };
        endpoint = wished;
    } else if let Some(kept) = balancer
        .kept
        .endpoint
        .clone()
        .filter(|_| !follows(balancer))
    {
        endpoint = kept;
    }
    let last = balancer.kept.endpoint.clone().filter(|_| follows(balancer));
    let before = published_last(snapshot, balancer);
    let is_theirs = |theirs: &Endpoint| {
        *theirs != endpoint && last.as_ref() != Some(theirs) && before.as_ref() != Some(theirs)
    };
    if let Some(theirs) = wish.in_cluster.filter(is_theirs) {
        let at = "the Cluster".to_owned();
        let because = Because::OtherEndpoint {
            at,
            theirs,
            ours: Some(endpoint),
        };
        return EndpointPlan::Conflict { because };
    }
    let known = balancer.kept.endpoint.as_ref() == Some(&endpoint);
    balancer.spec.endpoint = Some(endpoint.clone());
    if let Some(other) = balancer.beside.clone() {
        let because = Because::Beside { other };
        return EndpointPlan::Beside { endpoint, because };
    }
    if known {
        EndpointPlan::Keep { endpoint, because }
    } else {
        EndpointPlan::Set { endpoint, because }
    }
}

fn wants_gateway(balancer: &Balancer) -> bool {
    balancer.spec.mode == Some(Mode::Tunnel)
        || balancer.spec.management_access == Some(ManagementAccess::Gateway)
}

/// What there is to say about a cluster nobody asked Kedge to serve.
fn unasked(
    snapshot: &Snapshot,
    name: &Name,
    infra: Option<&Infra>,
    because: Because,
) -> EndpointPlan {
    if because != Because::NotAsked {
        return EndpointPlan::Wait { because };
    }
    let in_infra = infra.map(|infra| (infra.key.to_string(), infra.written.clone()));
    let cluster = snapshot.clusters.get(name);
    let in_cluster = cluster.and_then(|cluster| cluster.spec.control_plane_endpoint.clone());
    let in_cluster = in_cluster.map(|endpoint| (format!("Cluster {name}"), endpoint));
    let set = in_infra
        .into_iter()
        .chain(in_cluster)
        .find(|(_, endpoint)| endpoint.is_valid());
    match set {
        Some((at, endpoint)) => {
            let because = Because::UserSet {
                at,
                endpoint: endpoint.clone(),
            };
            EndpointPlan::User { endpoint, because }
        }
        None => EndpointPlan::Ignore { because },
    }
}

/// Whether hosts are chosen among EdgeHosts by label rather than by way of Machines.
#[must_use]
pub fn targets_edge_hosts(spec: &LoadBalancerSpec) -> bool {
    let kind = spec.target_kind.as_ref().map(|target| target.kind);
    kind.unwrap_or_default() == TargetKindName::EdgeHost
}

/// Whether nobody asks for the LoadBalancer any more.
#[must_use]
pub fn is_orphan(balancer: &Balancer) -> bool {
    balancer.source == Source::Nobody
}

/// The API server's port.
pub(super) const API: NonZeroU16 = NonZeroU16::MIN.saturating_add(API_PORT - 1);
/// Where RKE2's nodes join.
const RKE2_JOIN: NonZeroU16 = NonZeroU16::MIN.saturating_add(9345 - 1);
const RKE2_JOIN_NAME: &str = "join";
