//! Why a part of an Ingress or a route is not served.

use std::{fmt, num::NonZeroU16};

use super::{backend::PortName, refusal::Refusal};
use crate::snapshot::Key;

/// Why a part of an Ingress or a route is not served. The rest is: requests for the part are answered
/// with 500, and do not go where a broader rule leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A backend's Service is not there.
    ServiceMissing { key: Key },
    /// It has no such port.
    PortMissing { key: Key, port: PortName },
    /// The port is not of TCP.
    NotTcp { key: Key, port: NonZeroU16 },
    /// The port has no node port.
    NoNodePort {
        key: Key,
        port: NonZeroU16,
        kind: String,
        because: Option<String>,
    },
    /// It gets one.
    Opening { key: Key, port: NonZeroU16 },
    /// The backend speaks TLS, and only an Ingress that passes it through leads there.
    BackendTls { key: Key, port: NonZeroU16 },
    /// The Service asks for something that is not done.
    Service { key: Key, refusal: Refusal },
    /// A backend that is no Service.
    Resource { kind: String, name: String },
    /// Names in `spec.tls` that no rule is for.
    TlsHosts { hosts: Vec<String> },
    /// TLS without a Secret.
    CertificateNotNamed,
    /// A certificate's Secret is not there.
    CertificateMissing { key: Key },
    /// It may not be read.
    CertificateForbidden { key: Key },
    /// It holds no certificate.
    CertificateUnfit { key: Key, why: &'static str },
}

impl Trouble {
    /// Whether names are not served over HTTPS for it.
    #[must_use]
    pub const fn is_of_tls(&self) -> bool {
        matches!(
            self,
            Self::TlsHosts { .. }
                | Self::CertificateNotNamed
                | Self::CertificateMissing { .. }
                | Self::CertificateForbidden { .. }
                | Self::CertificateUnfit { .. }
        )
    }

    /// The Secret it is about.
    #[must_use]
    pub const fn secret(&self) -> Option<&Key> {
        match self {
            Self::CertificateMissing { key }
            | Self::CertificateForbidden { key }
            | Self::CertificateUnfit { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Its reason, as one word.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ServiceMissing { .. } => "ServiceNotFound",
            Self::PortMissing { .. } => "PortNotFound",
            Self::NotTcp { .. } => "ProtocolNotSupported",
            Self::NoNodePort { .. } => "NodePortRequired",
            Self::Opening { .. } => "Pending",
            Self::BackendTls { .. } => "BackendTlsNotSupported",
            Self::Service { refusal, .. } => refusal.reason(),
            Self::Resource { .. } => "ResourceBackendNotSupported",
            Self::TlsHosts { .. } => "TlsWithoutRule",
            Self::CertificateNotNamed => "CertificateNotNamed",
            Self::CertificateMissing { .. } => "CertificateNotFound",
            Self::CertificateForbidden { .. } => "CertificateForbidden",
            Self::CertificateUnfit { .. } => "CertificateNotUsable",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceMissing { key } => write!(
                f,
                "Service {key} is not there; requests for it are answered with 500"
            ),
            Self::PortMissing { key, port } => write!(
                f,
                "Service {key} has no port {port}; requests for it are answered with 500"
            ),
            Self::NotTcp { key, port } => {
                write!(f, "Service {key}: port {port} is not of TCP, and HTTP needs it")
            }
            Self::NoNodePort {
                key,
                port,
                kind,
                because,
            } => {
                write!(
                    f,
                    "Service {key}: port {port} has no nodePort (type {kind}), and hosts are reached \
                     by it; "
                )?;
                if let Some(because) = because {
                    write!(f, "none could be made beside it: {because}; ")?;
                }
                f.write_str("make the Service NodePort. Until then requests are answered with 500")
            }
            Self::Opening { key, port } => {
                write!(f, "Service {key}: a nodePort is made for port {port}")
            }
            Self::BackendTls { key, port } => write!(
                f,
                "Service {key}: port {port} speaks TLS (appProtocol), which gateways do not begin; \
                 have it speak HTTP, or pass TLS through with kedge.dev/tls-passthrough"
            ),
            Self::Service { key, refusal } => write!(f, "Service {key}: {refusal}"),
            Self::Resource { kind, name } => write!(
                f,
                "the backend {kind} {name} is no Service; requests for it are answered with 500"
            ),
            Self::TlsHosts { hosts } => write!(
                f,
                "spec.tls is for {}, and no rule is that has not another certificate",
                hosts.join(", ")
            ),
            Self::CertificateNotNamed => f.write_str(
                "spec.tls names no Secret; its names are not served over HTTPS. To pass TLS through, \
                 set kedge.dev/tls-passthrough",
            ),
            Self::CertificateMissing { key } => write!(
                f,
                "Secret {key} is not there; its names are not served over HTTPS until it is"
            ),
            Self::CertificateForbidden { key } => write!(
                f,
                "Secret {key} may not be read by the agent; let it: kubectl -n {} create rolebinding \
                 kedge-agent-certificates --clusterrole=kedge-agent-certificates \
                 --serviceaccount=kedge-system:kedge-agent",
                key.namespace
            ),
            Self::CertificateUnfit { key, why } => {
                write!(f, "Secret {key} holds no certificate for its names: {why}")
            }
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}
