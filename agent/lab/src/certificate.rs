//! The certificates of the stand-in API servers: one CA per run.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{RootCertStore, pki_types::CertificateDer};

use crate::error::LabError;

/// The CA that signs what the stand-ins show, as `kubeadm init` makes one for a cluster.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// Where a stand-in's certificate and key stand.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// The key, PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Makes a CA.
    ///
    /// # Errors
    /// When the crypto library refuses.
    pub fn new() -> Result<Self, LabError> {
        let refused = |err| LabError::Certificate("the lab's CA".to_owned(), err);
        let key = KeyPair::generate().map_err(refused)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(refused)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kedge-lab");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(refused)?.der().clone();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Writes a server certificate for a name and addresses, with its key.
    ///
    /// # Errors
    /// When the crypto library or the file system refuses.
    pub fn issue(
        &self,
        directory: &Path,
        name: &str,
        addresses: &[IpAddr],
    ) -> Result<Files, LabError> {
        let refused = |err| LabError::Certificate(name.to_owned(), err);
        let key = KeyPair::generate().map_err(refused)?;
        let names = ["kubernetes", "localhost", name]
            .map(str::to_owned)
            .into_iter();
        let names = names.chain(addresses.iter().map(IpAddr::to_string));
        let mut params = CertificateParams::new(names.collect::<Vec<_>>()).map_err(refused)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        let files = Files {
            certificate: directory.join("apiserver.crt"),
            key: directory.join("apiserver.key"),
        };
        fs::write(&files.certificate, certificate.pem())
            .map_err(LabError::file(&files.certificate))?;
        fs::write(&files.key, key.serialize_pem()).map_err(LabError::file(&files.key))?;
        Ok(files)
    }

    /// What a client trusts.
    #[must_use]
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        // Our own certificate, made above; a store without it refuses every server, loudly.
        _ = roots.add(self.certificate.clone());
        roots
    }
}
