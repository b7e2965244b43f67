//! Whether every host behind a gateway's listener takes traffic.

use kedge_crd::{Condition, balancer::TargetState};

use crate::plan::{Service, targets::Target};

/// The condition, where a gateway is in use. Ready does not wait for it: one host is enough.
pub fn condition(service: &Service) -> Option<Condition> {
    const KIND: &str = "BackendsHealthy";
    service.decided.gateway.as_ref()?.as_ref().ok()?;
    let asked: Vec<&Target> = service
        .targets
        .iter()
        .filter(|target| target.serving().is_some())
        .collect();
    let down: Vec<&str> = asked
        .iter()
        .filter(|target| target.state != TargetState::Active)
        .map(|target| target.name.as_str())
        .collect();
    let (all, up) = (asked.len(), asked.len() - down.len());
    let said = match (all, up) {
        (0, _) => (
            false,
            "NoBackends",
            "no host stands behind it yet".to_owned(),
        ),
        (_, 0) => (
            false,
            "NoneHealthy",
            format!("none of {all} hosts takes traffic"),
        ),
        _ if up < all => {
            let text = format!("{} takes no traffic: {up} of {all} do", down.join(", "));
            (false, "SomeUnhealthy", text)
        }
        _ => (true, "AllHealthy", String::new()),
    };
    let (healthy, reason, text) = said;
    Some(Condition::new(KIND, healthy, reason, text))
}
