//! The way to the manager, for hosts and gateway instances alike: enrolment with a token, a
//! short certificate that is renewed in time, reports, and the desired state by long poll.
//!
//! ```text
//!            token file                certificate at half life
//! stranger ─────────────► member ◄──────────────────────────────┐
//!            POST /enrol    │  └──── POST <path>/certificate ────┘
//!                           └ expired ─ POST <path>/recover (proof by the identity key)
//! ```
//!
//! What the manager says is kept on disk; a role that starts without a manager uses what it has.

mod backoff;
mod clock;
mod connection;
mod error;
mod exposures;
mod first;
mod member;
mod passage;
mod proof;
mod tls;
mod token;
mod url;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{Method, StatusCode};
use kedge_control::{
    enrol::{Enrolled, Facts, HostRef, ProofKind, RecoverRequest, RenewRequest},
    identity::Role,
    report::ReportAnswer,
};
use kedge_core::Problem;
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    backoff::Backoff,
    error::ClientError,
    member::Member,
    passage::{Passage, PassageError, TUNNEL_PROTOCOL},
    token::TokenError,
    url::ManagerUrl,
};
use self::{
    connection::{Answer, Connection, Line},
    member::{Record, Renewal},
};
use crate::{Root, identity::IdentityKey, state::Store};

/// What a client needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the manager is.
    pub url: ManagerUrl,
    /// The file with the enrolment token; needed until the role is enrolled.
    pub token_file: Option<PathBuf>,
    /// The name the record should have: a DNS label.
    pub name: String,
    /// Host or gateway instance.
    pub role: Role,
    /// The object that stands for the same machine, if any.
    pub host_ref: Option<HostRef>,
    /// What the host says of itself.
    pub facts: Facts,
    /// The WireGuard public key, base64.
    pub tunnel_key: String,
}

/// A client of one manager. Clones share the identity and the connections.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

/// How a host without a token enrols: by the key it registered with at Elemental.
#[derive(Clone, Debug)]
pub struct ByElemental {
    /// Where Elemental's agent keeps its files.
    pub root: Root,
    /// The pin of the manager's CA, as it stands in tokens.
    pub ca_pin: String,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    elemental: Option<ByElemental>,
    key: IdentityKey,
    store: Store,
    standing: Mutex<Standing>,
    // One change of identity at a time.
    changing: tokio::sync::Mutex<()>,
    // A long poll must not stand in the way of a report.
    reports: Line,
    configs: Line,
}

#[derive(Debug, Default)]
struct Standing {
    record: Option<Arc<Record>>,
    // The manager refused the identity, or is another one; a fresh token may replace it.
    void: bool,
}

impl Client {
    /// A client with what the store knows. Nothing is sent.
    ///
    /// The problems tell of state that could not be read; the client is usable without.
    #[must_use]
    pub fn open(settings: Settings, key: IdentityKey, store: Store) -> (Self, Vec<Problem>) {
        Self::open_with(settings, None, key, store)
    }

    /// As [`Self::open`]; without a token the key of Elemental's is used.
    #[must_use]
    pub fn open_with(
        settings: Settings,
        elemental: Option<ByElemental>,
        key: IdentityKey,
        store: Store,
    ) -> (Self, Vec<Problem>) {
        let restored = store.load::<Record>(RECORD);
        let record = restored
            .value
            .filter(|record| record.role == settings.role)
            .map(Arc::new);
        let client = Self {
            shared: Arc::new(Shared {
                settings,
                elemental,
                key,
                store,
                standing: Mutex::new(Standing {
                    record,
                    void: false,
                }),
                changing: tokio::sync::Mutex::default(),
                reports: Line::default(),
                configs: Line::default(),
            }),
        };
        (client, restored.problems)
    }

    /// The manager's address.
    #[must_use]
    pub fn url(&self) -> &ManagerUrl {
        &self.shared.settings.url
    }

    /// Who the manager says this is; `None` before enrolment.
    #[must_use]
    pub fn member(&self) -> Option<Member> {
        self.record().map(|record| record.member())
    }

    /// Whether there is a certificate that has not ended.
    #[must_use]
    pub fn holds(&self) -> bool {
        let record = self.record();
        record.is_some_and(|record| record.now() < record.validity().until)
    }

    /// Does what is due for the identity: enrols, renews at half life, recovers after expiry.
    /// Does nothing most of the time; call it before each report.
    ///
    /// # Errors
    ///
    /// It could not be done. A certificate that still holds is used on; only without one there is
    /// nothing to go on with.
    pub async fn ensure(&self) -> Result<(), ClientError> {
        let _one_at_a_time = self.shared.changing.lock().await;
        let (record, void) = {
            let standing = self.standing();
            (standing.record.clone(), standing.void)
        };
        let token_file = self.shared.settings.token_file.as_deref();
        let Some(record) = record else {
            return match (token::read(token_file), &self.shared.elemental) {
                (Ok(token), _) => self.enrol(&token).await,
                (Err(_), Some(elemental)) => self.enrol_by_elemental(elemental).await,
                (Err(error), None) => Err(error.into()),
            };
        };
        if void
            && let Ok(token) = token::read(token_file)
            && token.id() != record.token_id
        {
            return self.enrol(&token).await;
        }
        let now = record.now();
        if now >= record.validity().until {
            self.recover(&record).await?;
        } else if now >= record.renew_at() {
            self.renew(&record).await?;
        }
        if void { Err(ClientError::Void) } else { Ok(()) }
    }

    /// Reports and learns which generation the manager wants.
    ///
    /// # Errors
    ///
    /// The manager was not reached or refused.
    pub async fn report<R: Serialize + Sync>(
        &self,
        report: &R,
    ) -> Result<ReportAnswer, ClientError> {
        let record = self.enrolled()?;
        let body = encode(report)?;
        let answer = self
            .ask(
                &self.shared.reports,
                &record,
                Method::PATCH,
                &record.path,
                None,
                body,
                QUICK,
            )
            .await?;
        answer.json()
    }

    /// Waits until the manager's desired state is another than `have`, at most `wait`. `None`:
    /// unchanged.
    ///
    /// # Errors
    ///
    /// The manager was not reached or refused.
    pub async fn config<C: DeserializeOwned>(
        &self,
        have: Option<u64>,
        wait: Duration,
    ) -> Result<Option<C>, ClientError> {
        let record = self.enrolled()?;
        let plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let mut path = format!("{}/config?wait={}", record.path, wait.as_secs());
        // What tells this machine from a copy of it.
        let facts = &self.shared.settings.facts;
        if plain(&facts.boot_id) && plain(&facts.machine_id) {
            let life = format!("&boot={}&machine={}", facts.boot_id, facts.machine_id);
            path.push_str(&life);
        }
        let answer = self
            .ask(
                &self.shared.configs,
                &record,
                Method::GET,
                &path,
                have,
                Vec::new(),
                wait + QUICK,
            )
            .await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        answer.json().map(Some)
    }

    /// Trusts another set of CA certificates from here on, as a configuration carries it. Empty
    /// or unreadable text changes nothing.
    pub fn adopt_ca(&self, bundle: &str) {
        let Some(record) = self.record() else { return };
        if bundle.is_empty() || record.ca_bundle == bundle || tls::roots(bundle).is_err() {
            return;
        }
        let mut changed = Record::clone(&record);
        bundle.clone_into(&mut changed.ca_bundle);
        tracing::info!("the manager's CA certificates changed");
        self.keep(changed);
    }

    async fn renew(&self, record: &Record) -> Result<(), ClientError> {
        let renewal = self.renewal(record)?;
        let csr = proof::signing_request(&self.shared.key, &record.name)?;
        let request = RenewRequest {
            csr: csr.pem,
            generation: record.generation,
            renewal_id: renewal.id,
        };
        let connection = self.connect(record).await?;
        let path = format!("{}/certificate", record.path);
        let enrolled = self.certified(connection, &path, &request).await;
        self.replace(record, self.refusal(enrolled)?, "half of its life is over")
    }

    async fn recover(&self, record: &Record) -> Result<(), ClientError> {
        let renewal = self.renewal(record)?;
        let csr = proof::signing_request(&self.shared.key, &record.name)?;
        // No client certificate: an expired one would fail the handshake.
        let config = tls::stranger(record)?;
        let connection = self.refused(Connection::open(self.url(), config, CONNECT).await)?;
        let proof = proof::by_key(
            self.shared.key.pair(),
            ProofKind::BoundKey,
            &record.name,
            &connection.exporter,
            &csr,
        )?;
        let request = RecoverRequest {
            csr: csr.pem,
            certificate: record.certificate.clone(),
            generation: record.generation,
            renewal_id: renewal.id,
            proof,
        };
        let path = format!("{}/recover", record.path);
        let enrolled = self.certified(connection, &path, &request).await;
        self.replace(record, self.refusal(enrolled)?, "it had expired")
    }

    /// The renewal that is under way, persisted before it is sent, so that the manager recognises
    /// the question when its answer was lost.
    fn renewal(&self, record: &Record) -> Result<Renewal, ClientError> {
        let store = &self.shared.store;
        let pending = store.load::<Renewal>(RENEWAL).value;
        if let Some(renewal) = pending.filter(|renewal| renewal.generation == record.generation) {
            return Ok(renewal);
        }
        let renewal = Renewal::new(record.generation)?;
        match store.save(RENEWAL, &renewal) {
            Err(error) if record.now() < record.renew_unsaved_at() => {
                Err(ClientError::NotPersisted(error))
            }
            _ => Ok(renewal),
        }
    }

    async fn certified<R: Serialize>(
        &self,
        mut connection: Connection,
        path: &str,
        request: &R,
    ) -> Result<Enrolled, ClientError> {
        let body = encode(request)?;
        connection
            .send(Method::POST, path, None, body, QUICK)
            .await?
            .success(self.url())?
            .json()
    }

    fn replace(
        &self,
        old: &Record,
        enrolled: Enrolled,
        because: &'static str,
    ) -> Result<(), ClientError> {
        let record = Record::of(enrolled, &old.token_id, old.role)?;
        tracing::info!(
            from = old.generation,
            to = record.generation,
            because,
            "the certificate was renewed"
        );
        self.keep(record);
        Ok(())
    }

    /// One request over a kept connection; a connection that turns out to be dead is replaced
    /// once.
    #[expect(clippy::too_many_arguments, reason = "each is one part of one request")]
    async fn ask(
        &self,
        line: &Line,
        record: &Record,
        method: Method,
        path: &str,
        etag: Option<u64>,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, ClientError> {
        let mut held = line.hold(record.generation).await;
        let kept = held.take();
        let fresh = kept.is_none();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect(record).await?,
        };
        let mut answer = connection
            .send(method.clone(), path, etag, body.clone(), limit)
            .await;
        if !fresh && matches!(answer, Err(ClientError::Unreachable { .. })) {
            connection = self.connect(record).await?;
            answer = connection.send(method, path, etag, body, limit).await;
        }
        let answer = answer?;
        held.put(connection, record.generation);
        self.refusal(answer.success(self.url()))
    }

    async fn connect(&self, record: &Record) -> Result<Connection, ClientError> {
        let config = tls::member(record, &self.shared.key)?;
        self.refused(Connection::open(self.url(), config, CONNECT).await)
    }

    /// Notes when the manager does not know the identity any more, and when it does again.
    fn refusal<T>(&self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        match &result {
            Ok(_) => self.standing().void = false,
            Err(error) if error.voids_identity() => self.standing().void = true,
            Err(_) => {}
        }
        result
    }

    /// As [`Self::refusal`], for a connection: that it stands says nothing yet.
    fn refused<T>(&self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if result.as_ref().is_err_and(ClientError::voids_identity) {
            self.standing().void = true;
        }
        result
    }

    /// Goes on with another record; says whether it is on the disk.
    fn keep(&self, record: Record) -> bool {
        let saved = self.shared.store.save(RECORD, &record);
        if let Err(error) = &saved {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "the identity is kept in memory only"
            );
        }
        *self.standing() = Standing {
            record: Some(Arc::new(record)),
            void: false,
        };
        saved.is_ok()
    }

    fn enrolled(&self) -> Result<Arc<Record>, ClientError> {
        self.record().ok_or(ClientError::NotEnrolled)
    }

    fn record(&self) -> Option<Arc<Record>> {
        self.standing().record.clone()
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.shared
            .standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode<T: Serialize>(body: &T) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(body).map_err(|error| ClientError::internal("encode a request", error))
}

const RECORD: &str = "membership";
const RENEWAL: &str = "renewal";
const CONNECT: Duration = Duration::from_secs(10);
const QUICK: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
