//! How far each target is, and whether the deletion of its Machine still has to wait.
//!
//! ```text
//!           serves                       annotation            no traffic
//!  adding ─────────► active   (any) ─────────────► disabling ─────────────► disabled
//!                             (any) ─── deletion ─► removing ─── or late ──► removed, hook gone
//! ```
//!
//! A hook must not outlive its use, because Cluster API waits for it for ever: it goes once the
//! traffic is gone, after `drain.timeout`, at once when the agent is dead or the whole cluster
//! goes, and it is never put on a Machine that is being deleted already.

use std::time::Duration;

use kedge_core::Span;
use kedge_crd::balancer::{Drain, Mode, TargetState};

use super::{
    Service,
    because::Because,
    config::vip_name,
    desired::Desired,
    drain::{Held, hook_of, hooks, is_left},
    health,
    marks::{HOOK_OWNER, TARGET_NAME, TARGET_STATUS},
    targets::Target,
    wake::Wake,
};
use crate::{
    snapshot::{Hearing, Snapshot},
    store::{Layer, Name},
};

/// Finds the state of every target.
pub fn states(snapshot: &Snapshot, services: &mut [Service], held: &Held, wake: &mut Wake) {
    for service in services {
        let states: Vec<TargetState> = service
            .targets
            .iter()
            .map(|target| match held.has(&target.key) {
                true => TargetState::Removing,
                false => state(snapshot, service, target, wake),
            })
            .collect();
        for (target, state) in service.targets.iter_mut().zip(states) {
            target.state = state;
        }
    }
}

/// Wants the annotations of every target. A target of several LoadBalancers shows the one that
/// fills its cluster's endpoint, and waits for all.
pub fn annotations(snapshot: &Snapshot, services: &[Service], wanted: &mut Desired) {
    let mut shown: Vec<&Service> = services.iter().collect();
    shown.sort_by_key(|service| service.balancer.beside.is_some());
    for service in shown {
        for target in &service.targets {
            if service.at_rest {
                wanted.retain(&snapshot.objects, &target.key, &Layer::Marks);
                continue;
            }
            let hook = hook(snapshot, service, target);
            let marks = wanted.marks(&target.key);
            if !marks.annotations.contains_key(TARGET_NAME) {
                marks.annotate(TARGET_NAME, service.balancer.name.name.clone());
                marks.annotate(TARGET_STATUS, target.state.as_str());
            }
            if let Some(hook) = hook {
                marks.annotate(hook, HOOK_OWNER);
            }
        }
    }
}

/// Whether nothing about a cluster may be changed: somebody paused it, or moved it away.
#[must_use]
pub fn is_at_rest(because: &Because) -> bool {
    matches!(because, Because::Paused { .. } | Because::Vanished { .. })
}

fn state(snapshot: &Snapshot, service: &Service, target: &Target, wake: &mut Wake) -> TargetState {
    let gone = || {
        target
            .host
            .as_ref()
            .is_none_or(|host| is_quiet(snapshot, service, host))
    };
    let is_left = || target.leaving.is_some() && is_left(&snapshot.objects, &target.key);
    if target.released || is_left() {
        return TargetState::Removed;
    }
    if let Some(since) = &target.leaving {
        // What cannot be read is late: a hook fails open.
        let patience = drain_timeout(service.balancer.spec.drain.as_ref());
        let mut late = || !wake.waits(&snapshot.now, since, patience);
        return if service.is_going || gone() || late() {
            TargetState::Removed
        } else {
            TargetState::Removing
        };
    }
    if target.disabled {
        return if gone() {
            TargetState::Disabled
        } else {
            TargetState::Disabling
        };
    }
    if health::is_serving(snapshot, service, target) {
        TargetState::Active
    } else {
        TargetState::Adding
    }
}

/// How long a deletion waits at most for traffic to go.
pub fn drain_timeout(drain: Option<&Drain>) -> Duration {
    let timeout = drain.and_then(|drain| drain.timeout);
    timeout
        .map_or(DRAIN_TIMEOUT, Span::duration)
        .min(DRAIN_MOST)
}

/// Whether no traffic reaches a host any more: it is dead, or it and the gateways have taken what
/// leads there out of use.
fn is_quiet(snapshot: &Snapshot, service: &Service, name: &Name) -> bool {
    let on_host = host_is_quiet(snapshot, service, name);
    !snapshot.is_alive(name) || on_host && gateways_are_quiet(snapshot, service)
}

/// Whether a host has given up the VIP of a LoadBalancer.
pub fn host_is_quiet(snapshot: &Snapshot, service: &Service, name: &Name) -> bool {
    let Some(host) = snapshot.hosts.get(name) else {
        return true;
    };
    let spec = &service.balancer.spec;
    let lb = vip_name(&service.balancer.name);
    let applied = host
        .spec
        .config
        .as_ref()
        .is_none_or(|mark| mark.generation <= host.status.agent.config_generation);
    let has_vip = host.status.vips.iter().any(|vip| vip.lb == lb);
    spec.mode != Some(Mode::Vip) || (applied && !has_vip)
}

/// Whether every instance that is heard has taken the latest members into use.
fn gateways_are_quiet(snapshot: &Snapshot, service: &Service) -> bool {
    let Some(Ok(used)) = &service.decided.gateway else {
        return true;
    };
    let Some(gateway) = snapshot.gateway(&used.name) else {
        return true;
    };
    gateway.spec.instances.iter().all(|instance| {
        let hearing = snapshot.hearing(&used.name, &instance.name);
        let silent = hearing.is_none_or(|hearing| hearing == Hearing::Silent);
        let applied = gateway.status.instances.iter();
        let mut applied = applied.filter(|status| status.name == instance.name);
        let applied = applied.next().map_or(0, |status| status.config_generation);
        let wanted = instance.config.as_ref().map_or(0, |mark| mark.generation);
        silent || wanted <= applied
    })
}

fn hook(snapshot: &Snapshot, service: &Service, target: &Target) -> Option<&'static str> {
    let hook = hook_of(service.balancer.spec.drain.as_ref())?;
    if !snapshot.environment.has_core() || service.is_going || target.key.kind != "Machine" {
        return None;
    }
    let had = hooks(&snapshot.objects, &target.key).any(|had| had == hook);
    let wanted = match target.state {
        TargetState::Active => true,
        TargetState::Adding | TargetState::Disabling | TargetState::Removing => had,
        TargetState::Disabled | TargetState::Removed => false,
    };
    wanted.then_some(hook)
}

const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// As long as the schema takes.
const DRAIN_MOST: Duration = Duration::from_secs(24 * 60 * 60);
