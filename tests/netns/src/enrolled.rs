//! Members of a fleet whose manager is not there: what enrolment left on their disks.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kedge_host::{Role, Root, identity::IdentityKey, state::Store};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use serde_json::json;

/// The authority of a manager.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Makes a role below `root` a member, as a manager with this authority does.
    pub fn enrol(&self, root: impl Into<PathBuf>, role: Role, uid: &str) {
        let root = Root::new(root);
        let (word, kind, path) = match role {
            Role::Gateway => ("Gateway", "edgegateway", "gateways/g/instances"),
            _ => ("Host", "edgehost", "tenants/t/hosts"),
        };
        let state = root.state_dir(role);
        drop(IdentityKey::load_or_create(&root, role).unwrap());
        let key = std::fs::read_to_string(state.join("identity.key")).unwrap();
        let key = KeyPair::from_pem(&key).unwrap();
        let uri = format!("spiffe://kedge.local/ns/site/{kind}/{uid}");
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (hour, now) = (Duration::from_secs(3_600), SystemTime::now());
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_secs();
        params.not_before = (now - hour).into();
        params.not_after = (now + 24 * hour).into();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let record = json!({
            "role": word,
            "uid": uid,
            "name": uid,
            "path": format!("/kedge/v1/{path}/{uid}"),
            "certificate": certificate.pem(),
            "caBundle": self.pem,
            "generation": 1,
            "tokenId": "token",
            "notBefore": seconds(now - hour),
            "notAfter": seconds(now + 24 * hour),
            "renewAt": 0.5,
        });
        Store::new(state).save("membership", &record).unwrap();
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
