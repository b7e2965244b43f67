//! What a gateway made of what it is to serve.

use kedge_crd::{Condition, gateway::InstanceStatus};

use super::gateway::current;
use crate::{snapshot::Snapshot, store::Name};

/// What is asked of a gateway for an object.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The parts: each its name there, and what people call it.
    pub parts: Vec<(String, String)>,
    /// Whether some clients alone are let in.
    pub is_restricted: bool,
}

/// What the gateway made of that. One instance that
/// serves them is enough, unless another one says that it never will: clients may be led to that one.
pub fn programmed(snapshot: &Snapshot, gateway: Option<&Name>, asked: &Asked) -> Condition {
    let said =
        |holds: bool, reason: &str, text: String| Condition::new("Programmed", holds, reason, text);
    let Some((name, gateway)) = gateway.and_then(|name| Some((name, snapshot.gateway(name)?)))
    else {
        return said(false, PENDING, "its gateway is not there".to_owned());
    };
    let mut serving = false;
    for instance in current(snapshot, name, gateway) {
        match verdict(asked, instance) {
            Verdict::Serves => serving = true,
            Verdict::Waits => {}
            Verdict::Never { reason, text } => {
                let text = format!("instance {} of EdgeGateway {name}: {text}", instance.name);
                return said(false, &reason, text);
            }
        }
    }
    if serving {
        return said(true, "Programmed", String::new());
    }
    let text = format!("no instance of EdgeGateway {name} serves the latest desired state yet");
    said(false, PENDING, text)
}

enum Verdict {
    Serves,
    Waits,
    Never { reason: String, text: String },
}

/// What an instance that has the latest desired state makes of it.
fn verdict(asked: &Asked, status: &InstanceStatus) -> Verdict {
    if !status.serves_frontends {
        let text = "it is too old to serve load balancers of this kind".to_owned();
        let reason = "Unsupported".to_owned();
        return Verdict::Never { reason, text };
    }
    if asked.is_restricted && !status.tells_clients_apart {
        let text = "it is too old for spec.sourceRanges, and serves nobody".to_owned();
        let reason = "Unsupported".to_owned();
        return Verdict::Never { reason, text };
    }
    let mut waits = false;
    for (name, told) in &asked.parts {
        let unserved = status
            .unserved
            .iter()
            .find(|unserved| unserved.name == *name);
        let Some(unserved) = unserved else { continue };
        if unserved.reason == PENDING {
            waits = true;
            continue;
        }
        return Verdict::Never {
            reason: unserved.reason.clone(),
            text: format!("{told}: {}", unserved.message),
        };
    }
    if waits {
        Verdict::Waits
    } else {
        Verdict::Serves
    }
}

/// What a frontend that is only not served yet is said to be.
const PENDING: &str = "Pending";
