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
use kedge_crd::balancer::{Drain, DrainHook, Mode, TargetState};
use serde_json::Value;

use super::{
    Service,
    because::Because,
    config::vip_name,
    desired::Desired,
    health,
    marks::{HOOK_OWNER, PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK, TARGET_NAME, TARGET_STATUS},
    targets::Target,
    wake::Wake,
};
use crate::{
    snapshot::{Hearing, Snapshot},
    store::{Layer, Name, Objects},
};

/// Finds the state of every target.
pub fn states(snapshot: &Snapshot, services: &mut [Service], wake: &mut Wake) {
    for service in services {
        let states: Vec<TargetState> = service
            .targets
            .iter()
            .map(|target| state(snapshot, service, target, wake))
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
    timeout.map_or(DRAIN_TIMEOUT, Span::duration)
}

/// Whether no traffic reaches a host any more: it is dead, or it and the gateways have taken what
/// leads there out of use.
fn is_quiet(snapshot: &Snapshot, service: &Service, name: &Name) -> bool {
    if !snapshot.is_alive(name) {
        return true;
    }
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
    let on_host = spec.mode != Some(Mode::Vip) || (applied && !has_vip);
    on_host && gateways_are_quiet(snapshot, service)
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
    let drain = service.balancer.spec.drain.as_ref();
    let hook = match drain.and_then(|drain| drain.hook).unwrap_or_default() {
        DrainHook::PreDrain => PRE_DRAIN_HOOK,
        DrainHook::PreTerminate => PRE_TERMINATE_HOOK,
        DrainHook::None => return None,
    };
    if !snapshot.environment.has_core() || service.is_going || target.key.kind != "Machine" {
        return None;
    }
    let had = has_hook(&snapshot.objects, target, hook);
    let wanted = match target.state {
        TargetState::Active => true,
        TargetState::Adding | TargetState::Disabling | TargetState::Removing => had,
        TargetState::Disabled | TargetState::Removed => false,
    };
    wanted.then_some(hook)
}

fn has_hook(objects: &Objects, target: &Target, hook: &str) -> bool {
    let marks = objects.content(&target.key, &Layer::Marks);
    let annotations = marks.and_then(|marks| marks.pointer("/metadata/annotations"));
    annotations
        .and_then(|annotations| annotations.get(hook))
        .and_then(Value::as_str)
        .is_some()
}

const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
