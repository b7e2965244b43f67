//! What a host says for its cluster: the exposures of its tenant.

use std::time::Duration;

use hyper::Method;
use kedge_control::exposure::{
    Epoch, ExposureAnswer, ExposureChange, ExposureKind, ExposureList, ExposureSet,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Client, ClientError, encode};

impl Client {
    /// Everything that is offered for the host's tenant, and the epoch in force.
    ///
    /// # Errors
    ///
    /// The manager was not reached or refused: the host does not speak for its cluster.
    pub async fn exposures(&self) -> Result<ExposureList, ClientError> {
        self.exposed::<(), _>(Method::GET, "", None).await
    }

    /// Begins to speak for the cluster; `seen` is the epoch in force. Whoever spoke before is refused
    /// from then on.
    ///
    /// # Errors
    ///
    /// As for [`Self::exposures`]; another one was faster.
    pub async fn speak(&self, seen: u64) -> Result<u64, ClientError> {
        let seen = Epoch { epoch: seen };
        let given: Epoch = self.exposed(Method::POST, "/epoch", Some(&seen)).await?;
        Ok(given.epoch)
    }

    /// Says everything there is of some kinds.
    ///
    /// # Errors
    ///
    /// As for [`Self::exposures`]; another one speaks, or one of them may not be written: then none is.
    pub async fn offer(&self, set: &ExposureSet) -> Result<ExposureAnswer, ClientError> {
        self.exposed(Method::PUT, "", Some(set)).await
    }

    /// Says one thing besides the rest.
    ///
    /// # Errors
    ///
    /// As for [`Self::offer`].
    pub async fn offer_one(
        &self,
        kind: ExposureKind,
        name: &str,
        change: &ExposureChange,
    ) -> Result<ExposureAnswer, ClientError> {
        let path = format!("/{}/{}", kind.as_str(), checked(name)?);
        self.exposed(Method::PUT, &path, Some(change)).await
    }

    /// Takes one thing back.
    ///
    /// # Errors
    ///
    /// As for [`Self::offer`].
    pub async fn withdraw(
        &self,
        kind: ExposureKind,
        name: &str,
        epoch: u64,
    ) -> Result<ExposureAnswer, ClientError> {
        let path = format!("/{}/{}?epoch={epoch}", kind.as_str(), checked(name)?);
        self.exposed::<(), _>(Method::DELETE, &path, None).await
    }

    async fn exposed<B: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        below: &str,
        body: Option<&B>,
    ) -> Result<A, ClientError> {
        let record = self.enrolled()?;
        // The tenant is named by the host's own record, and by nothing else.
        let tenant = record.path.split_once("/hosts/");
        let (tenant, _) = tenant.ok_or(ClientError::Protocol("a record of no tenant's host"))?;
        let path = format!("{tenant}/exposures{below}");
        let body = body.map(encode).transpose()?.unwrap_or_default();
        let line = &self.shared.reports;
        let answer = self
            .ask(line, &record, method, &path, None, body, LIMIT)
            .await?;
        answer.json()
    }
}

/// A name as it may stand in a path.
fn checked(name: &str) -> Result<&str, ClientError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    match name.bytes().all(is_plain) {
        true => Ok(name),
        false => Err(ClientError::Protocol("a name that is no DNS subdomain")),
    }
}

/// For a set of some hundred objects that are written one after the other.
const LIMIT: Duration = Duration::from_secs(30);
