//! The first contact: an identity for whoever proves something.

use hyper::{Method, StatusCode};
use kedge_control::{
    enrol::{EnrolRequest, Proof, ProofKind, Waiting},
    token::Token,
};

use super::{
    ByElemental, CONNECT, Client, ClientError, QUICK, connection::Connection, encode,
    member::Record, proof, tls, token,
};
use crate::elemental::ElementalKey;

/// What a first contact is made with.
struct Credential<'a> {
    pin: &'a str,
    /// What it is told from another by.
    id: String,
}

impl Client {
    pub(super) async fn enrol(&self, token: &Token) -> Result<(), ClientError> {
        let prove = |exporter: &[u8; 32], csr: &proof::SigningRequest| {
            proof::by_token(token, exporter, csr)
        };
        let credential = Credential {
            pin: token.pin(),
            id: token.id().to_owned(),
        };
        // With the record in memory only, the next start needs the token to get the same identity.
        if self.enrol_with(credential, prove).await? {
            let file = self.shared.settings.token_file.as_deref();
            token::forget(file, self.shared.store.dir());
        }
        Ok(())
    }

    pub(super) async fn enrol_by_elemental(
        &self,
        elemental: &ByElemental,
    ) -> Result<(), ClientError> {
        let key = ElementalKey::find(&elemental.root)?;
        let hostname = &self.shared.settings.facts.hostname;
        let prove = |exporter: &[u8; 32], csr: &proof::SigningRequest| {
            let id = key.id(hostname);
            proof::by_key(key.pair(), ProofKind::ElementalKey, &id, exporter, csr)
        };
        let credential = Credential {
            pin: &elemental.ca_pin,
            id: format!("elemental-{}", proof::hash(&key.public())),
        };
        self.enrol_with(credential, prove).await.map(drop)
    }

    /// Enrols; says whether the record is on the disk.
    async fn enrol_with(
        &self,
        credential: Credential<'_>,
        prove: impl Fn(&[u8; 32], &proof::SigningRequest) -> Result<Proof, ClientError> + Send,
    ) -> Result<bool, ClientError> {
        let settings = &self.shared.settings;
        let trust = tls::first_contact(credential.pin)?;
        let mut connection = Connection::open(&settings.url, trust, CONNECT).await?;
        let csr = proof::signing_request(&self.shared.key, &settings.name)?;
        let proof = prove(&connection.exporter, &csr)?;
        let request = EnrolRequest {
            name: settings.name.clone(),
            csr: csr.pem,
            tunnel_key: settings.tunnel_key.clone(),
            host_ref: settings.host_ref.clone(),
            facts: settings.facts.clone(),
            proof,
        };
        let body = encode(&request)?;
        let answer = connection
            .send(Method::POST, ENROL, None, body, QUICK)
            .await?;
        let answer = answer.success(self.url())?;
        if answer.status == StatusCode::ACCEPTED {
            let Waiting { key_hash } = answer.json()?;
            return Err(ClientError::Waiting { key_hash });
        }
        let record = Record::of(answer.json()?, &credential.id, settings.role)?;
        tracing::info!(record = %record.path, by = credential.id, "enrolled");
        Ok(self.keep(record))
    }
}

const ENROL: &str = "/kedge/v1/enrol";
