//! What the manager made of this host: its record and its certificate.

use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use kedge_control::{enrol::Enrolled, identity::Role};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{ClientError, backoff::random_fraction, clock::FlooredClock, tls};

/// Who the manager says this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The record's name.
    pub name: String,
    /// The record's path below the server, such as `/kedge/v1/tenants/t/hosts/a`.
    pub path: String,
    /// The record's uid.
    pub uid: String,
    /// The certificate's generation.
    pub generation: u64,
    /// When the certificate ends.
    pub expires: SystemTime,
}

/// The state on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) role: Role,
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) certificate: String,
    pub(super) ca_bundle: String,
    pub(super) generation: u64,
    // The token that was used, so that a new one is recognised as new.
    pub(super) token_id: String,
    not_before: u64,
    not_after: u64,
    // Drawn once per certificate, so that a fleet enrolled at once does not renew at once.
    renew_at: f64,
}

/// The life of a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    pub(super) from: SystemTime,
    pub(super) until: SystemTime,
}

/// A renewal that was begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Renewal {
    pub(super) id: String,
    pub(super) generation: u64,
}

impl Record {
    /// The record of an answer, if it can be used.
    pub(super) fn of(answer: Enrolled, token_id: &str, role: Role) -> Result<Self, ClientError> {
        if answer.role != role {
            return Err(ClientError::Protocol("an identity for another role"));
        }
        let own_path = answer.path.starts_with("/kedge/v1/")
            && answer.path.len() <= 512
            && answer
                .path
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/-._".contains(&byte));
        if !own_path {
            return Err(ClientError::Protocol("a path outside the agent API"));
        }
        tls::roots(&answer.ca_bundle)?;
        let chain = tls::certificates(&answer.certificate)?;
        let leaf = chain.first().map_or(&[][..], AsRef::as_ref);
        let (_, certificate) = X509Certificate::from_der(leaf)
            .map_err(|_| ClientError::Protocol("a certificate that cannot be read"))?;
        let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).ok();
        let validity = certificate.validity();
        let (Some(not_before), Some(not_after)) =
            (seconds(validity.not_before), seconds(validity.not_after))
        else {
            return Err(ClientError::Protocol("a certificate from before 1970"));
        };
        Ok(Self {
            role,
            uid: answer.uid,
            name: answer.name,
            path: answer.path.trim_end_matches('/').to_owned(),
            certificate: answer.certificate,
            ca_bundle: answer.ca_bundle,
            generation: answer.generation,
            token_id: token_id.to_owned(),
            not_before,
            not_after,
            renew_at: 0.45 + random_fraction() / 10.0,
        })
    }

    pub(super) fn member(&self) -> Member {
        Member {
            name: self.name.clone(),
            path: self.path.clone(),
            uid: self.uid.clone(),
            generation: self.generation,
            expires: self.validity().until,
        }
    }

    pub(super) fn validity(&self) -> Validity {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Validity {
            from: at(self.not_before),
            until: at(self.not_after),
        }
    }

    /// When to renew: half of the life, ten per cent either way.
    pub(super) fn renew_at(&self) -> SystemTime {
        self.part_of_life(self.renew_at)
    }

    /// When to renew even though the renewal cannot be written down.
    pub(super) fn renew_unsaved_at(&self) -> SystemTime {
        self.part_of_life(0.75)
    }

    pub(super) fn clock(&self) -> FlooredClock {
        FlooredClock::after(Some(self.validity().from))
    }

    pub(super) fn now(&self) -> SystemTime {
        self.clock().now()
    }

    fn part_of_life(&self, part: f64) -> SystemTime {
        let Validity { from, until } = self.validity();
        let life = until.duration_since(from).unwrap_or_default();
        from + life.mul_f64(part.clamp(0.0, 1.0))
    }
}

impl Renewal {
    pub(super) fn new(generation: u64) -> Result<Self, ClientError> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).map_err(|_| ClientError::crypto("draw a renewal's id"))?;
        Ok(Self {
            id: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            generation,
        })
    }
}
