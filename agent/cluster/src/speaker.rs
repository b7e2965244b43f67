//! The cluster's word at the manager: what is offered, and the epoch that fences it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Secret;
use kedge_control::exposure::{
    ExposedCertificate, Exposure, ExposureChange, ExposureKind, ExposureSet,
};
use kedge_core::{Code, Coded as _, Fix, Problem};
use kedge_crd::HttpLoadBalancerSpec;
use kedge_host::enrol::{Client, ClientError};
use kube::Api;
use serde::Serialize;
use serde_json::Value;
use tracing::{info, warn};

use crate::{
    identity::{Identity, Kept},
    plan::{Plan, http::Routes},
    snapshot::{ManagerRefusal, Offered},
};

type Certificates = BTreeMap<String, ExposedCertificate>;

/// An agent that speaks for its cluster.
#[derive(Debug)]
pub struct Speaker {
    identity: Identity,
    client: Client,
    kept: Kept,
    epoch: u64,
    /// What the manager would not let go without a word, as `kind/name`.
    held: BTreeSet<String>,
    /// The certificates it was told; `None` until it was told any, or none.
    certificates: Option<Certificates>,
    /// Those it did not take, and since when.
    refused: Option<(Certificates, Instant)>,
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
    /// The same of HTTPLoadBalancers.
    pub refused_http: BTreeMap<String, ManagerRefusal<HttpLoadBalancerSpec>>,
    /// Why it did not take the certificates.
    pub refused_certificates: Option<String>,
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
            certificates: None,
            refused: None,
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
        let routes = plan.routes.as_ref();
        // What leads somewhere goes before what it leads to, and comes after it.
        let http = routes.into_iter().flat_map(|routes| &routes.withdraw);
        let http = http.map(|name| (ExposureKind::Http, name));
        let tcp = plan.withdraw.iter().map(|name| (ExposureKind::Tcp, name));
        for (kind, name) in http.chain(tcp) {
            let gone = self.client.withdraw(kind, name, self.epoch).await;
            self.heard(gone).await?;
            told.changed = true;
        }
        let orphans = orphans(plan);
        let is_news = !orphans.is_empty() && (self.confirm || orphans != self.held);
        let puts = plan.put.len() + routes.map_or(0, |routes| routes.put.len());
        let news = self.unsaid(plan);
        let whole = is_news || puts > AT_ONCE || news.is_some();
        let because = match whole {
            true => match self.tell_all(plan, orphans, &mut told).await? {
                None => return Ok(told),
                because => because,
            },
            false => None,
        };
        self.tell_each(plan, &mut told).await?;
        // Where each is taken by itself it is the certificates that are not.
        let is_fine = told.refused.is_empty() && told.refused_http.is_empty();
        if let (Some(because), Some(news), true) = (because, news, is_fine) {
            warn!(because, "the manager refuses the certificates");
            self.refused = Some((news, Instant::now()));
            told.refused_certificates = Some(because);
        }
        Ok(told)
    }

    /// Tells one after the other.
    async fn tell_each(&mut self, plan: &Plan, told: &mut Told) -> Result<(), Unheard> {
        for name in &plan.put {
            if let Some(spec) = plan.exposures.get(name)
                && let Some(refusal) = self.tell_one(ExposureKind::Tcp, (name, spec), told).await?
            {
                told.refused.insert(name.clone(), refusal);
            }
        }
        let Some(routes) = &plan.routes else {
            return Ok(());
        };
        for name in &routes.put {
            if let Some(spec) = routes.exposures.get(name)
                && let Some(refusal) = self
                    .tell_one(ExposureKind::Http, (name, spec), told)
                    .await?
            {
                told.refused_http.insert(name.clone(), refusal);
            }
        }
        Ok(())
    }

    /// Tells one; says why the manager does not take it.
    async fn tell_one<S: Serialize + Clone>(
        &self,
        kind: ExposureKind,
        (name, spec): (&str, &S),
        told: &mut Told,
    ) -> Result<Option<ManagerRefusal<S>>, Unheard> {
        let change = ExposureChange {
            epoch: self.epoch,
            spec: json(spec),
        };
        match self.client.offer_one(kind, name, &change).await {
            Err(error) if is_refusal(&error) && !self.is_fenced(&error).await? => {
                let because = said(&error);
                warn!(name, because, "the manager refuses a load balancer");
                let spec = spec.clone();
                Ok(Some(ManagerRefusal { spec, because }))
            }
            put => {
                self.heard(put).await?;
                told.changed = true;
                Ok(None)
            }
        }
    }

    /// The certificates, where the manager is to be told of them.
    fn unsaid(&self, plan: &Plan) -> Option<Certificates> {
        let certificates = &plan.routes.as_ref()?.certificates;
        if self.certificates.as_ref() == Some(certificates) {
            return None;
        }
        let refused = self.refused.as_ref();
        let is_refused = refused
            .is_some_and(|(refused, since)| refused == certificates && since.elapsed() < REFUSED);
        (!is_refused).then(|| certificates.clone())
    }

    /// Tells the whole set; says why it was not taken. Where one of it is refused nothing is written,
    /// and each is told by itself.
    async fn tell_all(
        &mut self,
        plan: &Plan,
        orphans: BTreeSet<String>,
        told: &mut Told,
    ) -> Result<Option<String>, Unheard> {
        let set = set(plan, self.epoch, self.confirm);
        let answer = match self.client.offer(&set).await {
            Err(error) if is_refusal(&error) && !self.is_fenced(&error).await? => {
                return Ok(Some(said(&error)));
            }
            answer => self.heard(answer).await?,
        };
        told.changed = true;
        if let Some(routes) = &plan.routes {
            self.certificates = Some(routes.certificates.clone());
            self.refused = None;
        }
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
        Ok(None)
    }

    /// Whether certificates are refused.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether nothing but what is held is left to be told.
    #[must_use]
    pub fn is_told(&self, plan: &Plan) -> bool {
        let routes = plan.routes.as_ref();
        let is_put = |routes: &Routes| routes.put.is_empty() && routes.withdraw.is_empty();
        plan.put.is_empty()
            && plan.withdraw.is_empty()
            && routes.is_none_or(is_put)
            && self.unsaid(plan).is_none()
            && orphans(plan).is_subset(&self.held)
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

/// Everything there is, of the kinds that were seen whole.
fn set(plan: &Plan, epoch: u64, confirm: bool) -> ExposureSet {
    let mut kinds = vec![ExposureKind::Tcp];
    let mut items: Vec<Exposure> = plan
        .exposures
        .iter()
        .map(|(name, spec)| exposure(ExposureKind::Tcp, name, spec))
        .collect();
    let mut certificates = Vec::new();
    if let Some(routes) = &plan.routes {
        kinds.push(ExposureKind::Http);
        let http = routes.exposures.iter();
        items.extend(http.map(|(name, spec)| exposure(ExposureKind::Http, name, spec)));
        certificates.extend(routes.certificates.values().cloned());
    }
    ExposureSet {
        epoch,
        kinds,
        items,
        certificates,
        confirm,
    }
}

fn exposure(kind: ExposureKind, name: &str, spec: &impl Serialize) -> Exposure {
    Exposure {
        kind,
        name: name.to_owned(),
        spec: json(spec),
    }
}

/// What nobody knows of, as the manager names it: `kind/name`.
fn orphans(plan: &Plan) -> BTreeSet<String> {
    let named = |kind: ExposureKind, name: &String| format!("{}/{name}", kind.as_str());
    let tcp = plan.orphans.iter();
    let http = plan.routes.iter().flat_map(|routes| &routes.orphans);
    tcp.map(|name| named(ExposureKind::Tcp, name))
        .chain(http.map(|name| named(ExposureKind::Http, name)))
        .collect()
}

fn json(spec: &impl Serialize) -> Value {
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
    let what = format!(
        "{} load balancers have no Service or Ingress any more",
        names.len()
    );
    Problem::warning(Code::K8sHeld, what)
        .evidence(names.join(", "))
        .consequence("they are more than half of what is offered, and stay until that is confirmed")
        .fix(
            Fix::text("if that is meant, start the agent so once")
                .command("kedge k8s run --confirm-removal"),
        )
}

/// From how many changes on the whole set is told in the place of each.
const AT_ONCE: usize = 8;
/// When the manager is asked again for certificates it refused.
const REFUSED: Duration = Duration::from_secs(60);
