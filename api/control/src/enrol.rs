//! Enrolment and certificates: the first requests of a host or a gateway instance.
//!
//! | method, path below `/kedge/v1` | client | body → answer |
//! |---|---|---|
//! | POST `/tenants/{t}/hosts` | no certificate, proof | [`EnrolRequest`] → 201 [`Enrolled`] |
//! | POST `/tenants/{t}/hosts/{h}/certificate` | certificate | [`RenewRequest`] → 200 [`Enrolled`] |
//! | POST `/tenants/{t}/hosts/{h}/recover` | no certificate, proof | [`RecoverRequest`] → 200 [`Enrolled`] |
//! | DELETE `/tenants/{t}/hosts/{h}` | certificate | → 202 |
//!
//! Gateways use the same verbs under `/gateways/{g}/instances[/{i}]`. The token itself names
//! tenant or gateway, so a client that only has a token posts to `/enrol` and learns the rest
//! from the answer's [`Enrolled::path`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Role;

/// Label of the TLS exporter that binds a proof to its connection (RFC 9266).
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// First bytes of what a proof signs. The NUL can never be part of a JWT's signing input.
pub const PROOF_PREFIX: &[u8] = b"kedge-enroll-v1\0";

/// HKDF info of the key that is derived from a token's secret (salt: the token's id).
pub const TOKEN_KEY_INFO: &[u8] = b"kedge-enroll-v1";

/// What a proof was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProofKind {
    /// The Ed25519 key derived from a token's secret.
    Token,
    /// The Elemental host key.
    ElementalKey,
    /// The identity key a host enrolled with.
    BoundKey,
}

impl ProofKind {
    /// The kind's byte in the signed message.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Token => 1,
            Self::ElementalKey => 2,
            Self::BoundKey => 3,
        }
    }
}

/// The message a proof signs: prefix, kind, the connection's exporter (32 bytes) and the
/// SHA-256 of the CSR's DER.
#[must_use]
pub fn proof_message(kind: ProofKind, exporter: &[u8; 32], csr_sha256: &[u8; 32]) -> Vec<u8> {
    [PROOF_PREFIX, &[kind.byte()], exporter, csr_sha256].concat()
}

/// An Ed25519 signature over [`proof_message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proof {
    /// What it was made with.
    pub kind: ProofKind,
    /// The token's id, or the name of the record whose key signed.
    pub id: String,
    /// The signature, base64url without padding.
    pub signature: String,
}

/// Another object that stands for the same machine, such as an ElementalHost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostRef {
    /// The object's API group.
    pub api_group: String,
    /// The object's kind.
    pub kind: String,
    /// The object's name, in the tenant's namespace.
    pub name: String,
}

/// What a host says of itself; claims, not proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The host's name.
    pub hostname: String,
    /// `/etc/machine-id`.
    #[serde(
        default,
        rename = "machineID",
        skip_serializing_if = "String::is_empty"
    )]
    pub machine_id: String,
    /// The kernel's boot id.
    #[serde(default, rename = "bootID", skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Kedge's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The machine's serial number, as its firmware tells it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// The permanent MAC addresses of its network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub macs: Vec<String>,
}

/// A first request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnrolRequest {
    /// The name the host (or gateway instance) wants: a DNS label.
    pub name: String,
    /// The certificate signing request, PEM. Only its public key is used.
    pub csr: String,
    /// The WireGuard public key, base64.
    pub tunnel_key: String,
    /// The object that stands for the same machine, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<HostRef>,
    /// What the host says of itself.
    pub facts: Facts,
    /// The proof.
    pub proof: Proof,
}

/// The answer while a person has to approve (202): the same request asks again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// SHA-256 of the SubjectPublicKeyInfo of the host's key, base64url: what is approved.
    pub key_hash: String,
}

/// A request for the next certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenewRequest {
    /// The signing request, PEM.
    pub csr: String,
    /// The generation of the certificate in use.
    pub generation: u64,
    /// Made by the client and persisted *before* sending, so that a lost answer is recognised.
    #[serde(rename = "renewalID")]
    pub renewal_id: String,
}

/// A request for a certificate after the last one expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecoverRequest {
    /// The signing request, PEM.
    pub csr: String,
    /// The expired certificate, PEM.
    pub certificate: String,
    /// Its generation.
    pub generation: u64,
    /// As in [`RenewRequest`].
    #[serde(rename = "renewalID")]
    pub renewal_id: String,
    /// A proof of kind [`ProofKind::BoundKey`].
    pub proof: Proof,
}

/// An identity, or its next certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enrolled {
    /// Host or gateway.
    pub role: Role,
    /// The record's uid, as in the certificate's SAN.
    pub uid: String,
    /// The record's name, as it stands in paths.
    pub name: String,
    /// The record's own path below the server, such as `/kedge/v1/tenants/t/hosts/a`; report and
    /// config live below it.
    pub path: String,
    /// The certificate, PEM.
    pub certificate: String,
    /// The CA certificates to trust from here on, PEM.
    pub ca_bundle: String,
    /// The certificate's generation.
    pub generation: u64,
}
