//! What can go wrong on the way to the manager.

use std::{error::Error, io, time::Duration};

use kedge_core::{Code, Coded, Fix, Problem};

use super::{ManagerUrl, TokenError, tls::PinMismatch};
use crate::{elemental::ElementalError, state::NotPersisted};

/// A request to the manager did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The role has no identity; [`super::Client::ensure`] gets one.
    #[error("this host is not enrolled")]
    NotEnrolled,
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There is no token, and no usable key of Elemental's.
    #[error(transparent)]
    Elemental(#[from] ElementalError),
    /// A person has to approve this host.
    #[error("the host waits for approval of its key {key_hash}")]
    Waiting {
        /// The key's hash, as the manager shows it.
        key_hash: String,
    },
    /// The manager does not answer.
    #[error("the manager {url} cannot be reached")]
    Unreachable {
        /// The manager.
        url: ManagerUrl,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Whoever answers is not the manager the token is of.
    #[error("{url} does not show the CA the token pins")]
    PinMismatch {
        /// The manager.
        url: ManagerUrl,
        /// The pins of the CAs it showed.
        seen: Vec<String>,
    },
    /// The TLS handshake failed.
    #[error("no secure connection to {url}")]
    Tls {
        /// The manager.
        url: ManagerUrl,
        /// Why.
        source: rustls::Error,
    },
    /// The manager said no.
    #[error("the manager {url} refused (HTTP {status})")]
    Refused {
        /// The manager.
        url: ManagerUrl,
        /// The HTTP status.
        status: u16,
        /// How long to wait before it is asked again, where it said so.
        retry_after: Option<Duration>,
        /// Its reason, where it gave one.
        problem: Option<Box<Problem>>,
    },
    /// The manager does not know this identity any more, and there is no fresh token.
    #[error("the manager does not accept this host's identity any more")]
    Void,
    /// The manager's answer makes no sense.
    #[error("the manager answered {0}")]
    Protocol(&'static str),
    /// The renewal could not be written down, and there is time left.
    #[error("a renewal is put off until it can be written down")]
    NotPersisted(#[source] NotPersisted),
    /// A library refused.
    #[error("could not {what}")]
    Internal {
        /// What was being done.
        what: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClientError {
    /// Whether the identity itself was refused, or is one of another manager's.
    #[must_use]
    pub const fn voids_identity(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 404 | 410,
                ..
            } | Self::Tls {
                source: rustls::Error::InvalidCertificate(_),
                ..
            }
        )
    }

    /// How long the manager wants to be left alone, where it said so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(super) fn unreachable(url: &ManagerUrl, source: io::Error) -> Self {
        Self::Unreachable {
            url: url.clone(),
            source: Box::new(source),
        }
    }

    pub(super) fn silent(url: &ManagerUrl, limit: Duration) -> Self {
        let source = io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", limit.as_secs()),
        );
        Self::unreachable(url, source)
    }

    pub(super) fn http(url: &ManagerUrl, source: hyper::Error) -> Self {
        Self::Unreachable {
            url: url.clone(),
            source: Box::new(source),
        }
    }

    pub(super) fn body(url: &ManagerUrl, source: Box<dyn Error + Send + Sync>) -> Self {
        Self::Unreachable {
            url: url.clone(),
            source,
        }
    }

    /// Sorts out why a handshake failed.
    pub(super) fn tls(url: &ManagerUrl, error: io::Error) -> Self {
        let reason = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            .cloned();
        let Some(source) = reason else {
            return Self::unreachable(url, error);
        };
        let url = url.clone();
        if let rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) = &source
            && let Some(mismatch) = other.0.downcast_ref::<PinMismatch>()
        {
            let seen = mismatch.seen.clone();
            return Self::PinMismatch { url, seen };
        }
        Self::Tls { url, source }
    }

    pub(super) fn internal(what: &'static str, error: impl Error + Send + Sync + 'static) -> Self {
        Self::Internal {
            what,
            source: Box::new(error),
        }
    }

    pub(super) fn crypto(what: &'static str) -> Self {
        Self::Internal {
            what,
            source: "the crypto library refused".into(),
        }
    }
}

impl Coded for ClientError {
    fn problem(&self) -> Problem {
        let problem = |code| Problem::new(code, self.to_string()).consequence(STANDS);
        match self {
            Self::NotEnrolled => problem(Code::ApiUnauthenticated).fix(
                Fix::text("give the host a token; it enrols by itself")
                    .command("kedge token create --tenant TENANT"),
            ),
            Self::Token(error) => error.problem(),
            Self::Elemental(error) => error.problem(),
            Self::Waiting { key_hash } => Problem::warning(Code::EnrolWaits, self.to_string())
                .consequence("the host is not enrolled yet; it asks again by itself")
                .fix(
                    Fix::text("at the manager, approve exactly this key")
                        .command(format!("kedge fleet approve NAME --key {key_hash}")),
                ),
            Self::Unreachable { url, source } => problem(Code::ApiUnreachable)
                .object(url.to_string())
                .caused_by(source.as_ref())
                .fix(
                    Fix::text("check the address, the route and the firewall").command(format!(
                        "curl -skv --max-time 5 {url}/ -o /dev/null"
                    )),
                ),
            Self::PinMismatch { url, seen } => {
                let mut problem = problem(Code::EnrolPinMismatch).object(url.to_string());
                for pin in seen {
                    problem = problem.evidence(format!("a CA with the pin {pin} was shown"));
                }
                if seen.is_empty() {
                    problem = problem.evidence("no CA certificate was shown");
                }
                problem.fix(
                    Fix::text("make the token at the manager that answers there, or correct the address; expose the manager without a TLS-terminating proxy")
                        .command("kedge token create --tenant TENANT"),
                )
            }
            Self::Tls { url, source } => {
                let code = match source {
                    rustls::Error::InvalidCertificate(_) => Code::EnrolPinMismatch,
                    _ => Code::ApiUnauthenticated,
                };
                problem(code)
                    .object(url.to_string())
                    .caused_by(source)
                    .fix(
                        Fix::text("check that the clock is right and that this is the manager the host enrolled at")
                            .command("date; kedge status"),
                    )
            }
            Self::Refused {
                problem: Some(problem),
                ..
            } => Problem::clone(problem),
            Self::Refused { url, .. } => problem(Code::ApiMalformed)
                .object(url.to_string())
                .evidence("the answer is not one of a Kedge manager")
                .fix(
                    Fix::text("check what listens at that address")
                        .command(format!("curl -sk {url}/")),
                ),
            Self::Void => problem(Code::ApiUnauthenticated).fix(
                Fix::text("ask the manager's administrator why; a fresh token in the token file enrols again")
                    .command("kedge fleet hosts"),
            ),
            Self::Protocol(_) => problem(Code::ApiMalformed).fix(
                Fix::text("compare the versions of host and manager").command("kedge version"),
            ),
            Self::NotPersisted(error) => error.problem(),
            Self::Internal { source, .. } => problem(Code::SysUnexpected)
                .caused_by(source.as_ref())
                .fix(Fix::text("report it with the log").command("journalctl -u kedge-agent -b")),
        }
    }
}

const STANDS: &str = "what the manager said last stays in force; it is tried again";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{CertificateError, OtherError};

    use super::*;

    fn refused(why: impl Error + Send + Sync + 'static) -> ClientError {
        let why = CertificateError::Other(OtherError(Arc::new(why)));
        let error = io::Error::other(rustls::Error::InvalidCertificate(why));
        ClientError::tls(&"https://m".parse().unwrap(), error)
    }

    #[test]
    fn what_a_library_refused_is_told_with_its_causes() {
        let refused = TokenError::Read {
            path: "/t".into(),
            source: io::Error::other("the disk"),
        };
        let told = ClientError::internal("test", refused).problem().evidence;
        assert_eq!(told, ["the token file /t cannot be read", "the disk"]);
    }

    #[test]
    fn only_another_pin_is_told_as_one() {
        let seen = vec!["pin".to_owned()];
        let other_pin = refused(PinMismatch { seen }).problem();
        assert_eq!(other_pin.evidence, ["a CA with the pin pin was shown"]);

        let odd = refused(io::Error::other("an odd extension"));
        assert!(odd.voids_identity(), "as every certificate that is refused");
        let told = odd.problem().evidence.join(" ");
        assert!(told.contains("an odd extension"), "{told}");
    }
}
