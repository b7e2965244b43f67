//! Sites as they are offered.

use kedge_control::site::Certificate;
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256,
};

/// One of each algorithm, and some that cannot be shown.
pub fn all_kinds_of_certificates() -> Vec<Certificate> {
    let algorithms = [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ECDSA_P521_SHA512,
        &PKCS_RSA_SHA256,
        &PKCS_ED25519,
    ];
    let keys = algorithms.map(|algorithm| KeyPair::generate_for(algorithm).unwrap());
    let mut all: Vec<Certificate> = keys.iter().map(|key| of("a.example", key)).collect();
    let mismatched = Certificate {
        key: all[1].key.clone(),
        ..all[0].clone()
    };
    all.push(mismatched);
    all
}

/// A certificate of a name.
pub fn of(name: &str, key: &KeyPair) -> Certificate {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    Certificate {
        hosts: vec![name.to_owned()],
        chain: params.self_signed(key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}
