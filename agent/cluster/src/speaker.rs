//! The cluster's word at the manager: what is offered, and the epoch that fences it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kedge_control::exposure::{Exposure, ExposureChange, ExposureKind, ExposureSet};
use kedge_core::{Code, Coded as _, Fix, Problem};
use kedge_crd::TcpLoadBalancerSpec;
use kedge_host::enrol::{Client, ClientError};
use kube::Api;
use serde_json::Value;
use tracing::{info, warn};

use crate::{
    identity::{Identity, Kept},
    plan::Plan,
    snapshot::{ManagerRefusal, Offered},
};

/// An agent that speaks for its cluster.
#[derive(Debug)]
pub struct Speaker {
    identity: Identity,
    client: Client,
    kept: Kept,
    epoch: u64,
    /// What the manager would not let go without a word.
    held: BTreeSet<String>,
    /// Whether that word is given.
    confirm: bool,
}

/// Why the manager was not told everything.
#[derive(Debug)]
pub enum Unheard {
    /// Another agent speaks: nothing more may be said.
    Fenced(Problem),
    /// It is tried again.
    Later(Problem),
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Told {
    /// Whether anything was changed at the manager.
    pub changed: bool,
    /// What the manager refused, by the name of the exposure.
    pub refused: BTreeMap<String, ManagerRefusal>,
    /// What waits for a word.
    pub held: Option<Problem>,
}

impl Speaker {
    /// Takes the word: from here on whoever spoke before is refused.
    ///
    /// # Errors
    ///
    /// The identity cannot be kept, the manager is not reached, or it does not let this agent speak.
    pub async fn begin(
        identity: &Identity,
        secrets: &Api<Secret>,
        confirm: bool,
    ) -> Result<(Self, Offered), Problem> {
        let (client, kept) = identity.open(secrets).await?;
        let mut speaker = Self {
            identity: identity.clone(),
            client,
            kept,
            epoch: 0,
            held: BTreeSet::new(),
            confirm,
        };
        speaker.ensure(secrets).await?;
        let list = speaker.client.exposures().await;
        let list = list.map_err(|error| error.problem())?;
        let spoken = speaker.client.speak(list.epoch).await;
        speaker.epoch = spoken.map_err(|error| error.problem())?;
        info!(epoch = speaker.epoch, "this agent speaks for the cluster");
        Ok((speaker, Offered::of(list)))
    }

    /// The epoch this agent speaks with.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Does what is due for the identity, and keeps it.
    ///
    /// # Errors
    ///
    /// It could not be done, and there is none to go on with.
    pub async fn ensure(&mut self, secrets: &Api<Secret>) -> Result<(), Problem> {
        let ensured = self.client.ensure().await;
        self.identity.keep(secrets, &mut self.kept).await?;
        match ensured {
            Err(error) if !self.client.holds() => Err(error.problem()),
            _ => Ok(()),
        }
    }

    /// What is offered by now.
    ///
    /// # Errors
    ///
    /// The manager is not reached, or another agent speaks.
    pub async fn offered(&self) -> Result<Offered, Unheard> {
        let list = self.client.exposures().await;
        let list = list.map_err(|error| Unheard::Later(error.problem()))?;
        if list.epoch == self.epoch {
            Ok(Offered::of(list))
        } else {
            Err(Unheard::Fenced(another(list.epoch, self.epoch)))
        }
    }

    /// Tells the manager what is to be otherwise.
    ///
    /// # Errors
    ///
    /// The manager is not reached, or another agent speaks. What was told until then is told.
    pub async fn tell(&mut self, plan: &Plan) -> Result<Told, Unheard> {
        let mut told = Told::default();
        for name in &plan.withdraw {
            let gone = self.client.withdraw(KIND, name, self.epoch).await;
            self.heard(gone).await?;
            told.changed = true;
        }
        let orphans: BTreeSet<String> = plan.orphans.iter().cloned().collect();
        let is_news = !orphans.is_empty() && (self.confirm || orphans != self.held);
        let whole = is_news || plan.put.len() > AT_ONCE;
        if whole && self.tell_all(plan, orphans, &mut told).await? {
            return Ok(told);
        }
        for name in &plan.put {
            let Some(spec) = plan.exposures.get(name) else {
                continue;
            };
            let change = ExposureChange {
                epoch: self.epoch,
                spec: json(spec),
            };
            let put = self.client.offer_one(KIND, name, &change).await;
            match put {
                Err(error) if is_refusal(&error) && !self.is_fenced(&error).await? => {
                    let because = said(&error);
                    warn!(name, because, "the manager refuses a load balancer");
                    let spec = spec.clone();
                    let refusal = ManagerRefusal { spec, because };
                    told.refused.insert(name.clone(), refusal);
                }
                put => {
                    self.heard(put).await?;
                    told.changed = true;
                }
            }
        }
        Ok(told)
    }

    /// Tells the whole set; says whether it was taken. Where one of it is refused nothing is written,
    /// and each is told by itself.
    async fn tell_all(
        &mut self,
        plan: &Plan,
        orphans: BTreeSet<String>,
        told: &mut Told,
    ) -> Result<bool, Unheard> {
        let items = plan.exposures.iter().map(|(name, spec)| Exposure {
            kind: KIND,
            name: name.clone(),
            spec: json(spec),
        });
        let set = ExposureSet {
            epoch: self.epoch,
            kinds: vec![KIND],
            items: items.collect(),
            certificates: Vec::new(),
            confirm: self.confirm,
        };
        let answer = match self.client.offer(&set).await {
            Err(error) if is_refusal(&error) && !self.is_fenced(&error).await? => {
                return Ok(false);
            }
            answer => self.heard(answer).await?,
        };
        told.changed = true;
        if answer.held.is_empty() {
            self.held.clear();
        } else {
            let count = answer.held.len();
            warn!(
                count,
                "the manager asks whether most of what is offered is to go"
            );
            self.held = orphans;
            told.held = Some(held(&answer.held));
        }
        Ok(true)
    }

    /// Whether nothing but what is held is left to be told.
    #[must_use]
    pub fn is_told(&self, plan: &Plan) -> bool {
        let orphans = plan.orphans.iter();
        plan.put.is_empty()
            && plan.withdraw.is_empty()
            && orphans.into_iter().all(|name| self.held.contains(name))
    }

    async fn heard<T>(&self, answer: Result<T, ClientError>) -> Result<T, Unheard> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                // Asked for its own sake: another agent that speaks is told as such.
                self.is_fenced(&error).await?;
                Err(Unheard::Later(error.problem()))
            }
        }
    }

    /// Whether a conflict is the epoch's; then it is an error.
    async fn is_fenced(&self, error: &ClientError) -> Result<bool, Unheard> {
        if !matches!(error, ClientError::Refused { status: 409, .. }) {
            return Ok(false);
        }
        self.offered().await.map(|_| false)
    }
}

/// Whether the manager understood a request and does not take what it asks for.
const fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Refused {
            status: 400 | 403 | 409 | 413 | 422,
            ..
        }
    )
}

fn said(error: &ClientError) -> String {
    let ClientError::Refused { problem, .. } = error else {
        return error.to_string();
    };
    let Some(problem) = problem else {
        return error.to_string();
    };
    let evidence = problem.evidence.iter().map(ToString::to_string);
    let parts: Vec<String> = std::iter::once(problem.what.clone())
        .chain(evidence)
        .collect();
    parts.join(": ")
}

fn json(spec: &TcpLoadBalancerSpec) -> Value {
    // A spec is strings, numbers and lists of them: it can always be written.
    serde_json::to_value(spec).unwrap_or_default()
}

fn another(in_force: u64, own: u64) -> Problem {
    Problem::new(
        Code::K8sAnotherSpeaks,
        "another agent speaks for the cluster at the manager",
    )
    .evidence(format!(
        "the epoch in force is {in_force}, this agent's is {own}"
    ))
    .consequence("this agent changes nothing any more, at the manager or in the cluster")
    .fix(Fix::text("see who holds the Lease").command("kedge k8s status"))
}

fn held(names: &[String]) -> Problem {
    let what = format!("{} load balancers have no Service any more", names.len());
    Problem::warning(Code::K8sHeld, what)
        .evidence(names.join(", "))
        .consequence("they are more than half of what is offered, and stay until that is confirmed")
        .fix(
            Fix::text("if that is meant, start the agent so once")
                .command("kedge k8s run --confirm-removal"),
        )
}

const KIND: ExposureKind = ExposureKind::Tcp;
/// From how many changes on the whole set is told in the place of each.
const AT_ONCE: usize = 8;
