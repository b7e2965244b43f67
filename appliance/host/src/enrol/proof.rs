//! Proofs of who asks: signatures that hold on one connection only.

use aws_lc_rs::{digest, hkdf, signature::Ed25519KeyPair};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kedge_control::{
    enrol::{Proof, ProofKind, TOKEN_KEY_INFO, proof_message},
    token::Token,
};
use rcgen::SigningKey as _;
use zeroize::Zeroizing;

use super::ClientError;
use crate::identity::IdentityKey;

/// A certificate signing request.
pub(super) struct SigningRequest {
    /// As it is sent.
    pub(super) pem: String,
    /// As it is signed over.
    pub(super) sha256: [u8; 32],
}

/// Asks for a certificate for the identity key. The name in it is for people; the manager takes
/// only the key.
pub(super) fn signing_request(
    key: &IdentityKey,
    name: &str,
) -> Result<SigningRequest, ClientError> {
    let failed = |error: rcgen::Error| ClientError::internal("make a signing request", error);
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let request = params.serialize_request(key.pair()).map_err(failed)?;
    Ok(SigningRequest {
        pem: request.pem().map_err(failed)?,
        sha256: sha256(request.der()),
    })
}

/// Proves the possession of a token without showing its secret.
pub(super) fn by_token(
    token: &Token,
    exporter: &[u8; 32],
    request: &SigningRequest,
) -> Result<Proof, ClientError> {
    let key = token_key(token)?;
    let message = proof_message(ProofKind::Token, exporter, &request.sha256);
    Ok(Proof {
        kind: ProofKind::Token,
        id: token.id().to_owned(),
        signature: BASE64_URL_SAFE_NO_PAD.encode(key.sign(&message)),
    })
}

/// Proves the possession of the identity key, or of the one a host registered with elsewhere.
pub(super) fn by_key(
    key: &rcgen::KeyPair,
    kind: ProofKind,
    id: &str,
    exporter: &[u8; 32],
    request: &SigningRequest,
) -> Result<Proof, ClientError> {
    let message = proof_message(kind, exporter, &request.sha256);
    let signature = key
        .sign(&message)
        .map_err(|error| ClientError::internal("sign a proof", error))?;
    Ok(Proof {
        kind,
        id: id.to_owned(),
        signature: BASE64_URL_SAFE_NO_PAD.encode(signature),
    })
}

/// The Ed25519 key of seed HKDF-SHA256(secret, salt = id, info).
pub(super) fn token_key(token: &Token) -> Result<Ed25519KeyPair, ClientError> {
    let failed = || ClientError::crypto("derive the token's key");
    let secret = Zeroizing::new(
        BASE64_URL_SAFE_NO_PAD
            .decode(token.secret())
            .map_err(|_| failed())?,
    );
    let mut seed = Zeroizing::new([0; 32]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, token.id().as_bytes())
        .extract(&secret)
        .expand(&[TOKEN_KEY_INFO], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(seed.as_mut_slice()))
        .map_err(|_| failed())?;
    Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map_err(|_| failed())
}

/// SHA-256 as it stands in pins: base64url without padding.
pub(super) fn hash(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(sha256(bytes))
}

/// SHA-256.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    for (to, from) in sum
        .iter_mut()
        .zip(digest::digest(&digest::SHA256, bytes).as_ref())
    {
        *to = *from;
    }
    sum
}
