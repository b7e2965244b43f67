//! Who this agent is to the manager: a host of the tenant that may speak for its cluster.
//!
//! The keys are the agent's own, and whichever agent leads uses them: in a cluster they stand in a
//! Secret, since a pod keeps nothing. The folder beside it holds what is in use.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::PathBuf,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kedge_control::{enrol::Facts, identity::Role};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    enrol::{Client, ManagerUrl, Settings},
    identity::{IdentityKey, TunnelKey},
    state::{Store, write_synced},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::names::FIELD_MANAGER;

/// Where the manager is, and who asks.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The manager.
    pub url: ManagerUrl,
    /// The file with the enrolment token.
    pub token_file: Option<PathBuf>,
    /// The name of the host's record.
    pub name: String,
    /// The folder with the keys in use.
    pub dir: PathBuf,
    /// The Secret that keeps them.
    pub secret: Option<String>,
}

/// The files of an identity as they were last kept.
#[derive(Default)]
pub struct Kept(BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept(***)")
    }
}

impl Identity {
    /// A client of the manager with the identity that is kept, or a new one that is kept before it is
    /// used.
    ///
    /// # Errors
    ///
    /// It cannot be read or kept.
    pub async fn open(&self, secrets: &Api<Secret>) -> Result<(Client, Kept), Problem> {
        let mut kept = Kept::default();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|error| self.unkept(&error))?;
        if let Some(name) = &self.secret {
            let found = secrets.get_opt(name).await;
            let found = found.map_err(|error| self.unkept(&error))?;
            let data = found.and_then(|secret| secret.data).unwrap_or_default();
            kept.0 = data
                .into_iter()
                .map(|(name, value)| (name, value.0))
                .collect();
            self.restore(&kept).map_err(|error| self.unkept(&error))?;
        }
        let key = IdentityKey::load_or_create_in(&self.dir);
        let key = key.map_err(|error| self.unkept(&error))?;
        let tunnel_key = TunnelKey::load_or_create_in(&self.dir);
        let tunnel_key = tunnel_key.map_err(|error| self.unkept(&error))?;
        self.keep(secrets, &mut kept).await?;
        let settings = Settings {
            url: self.url.clone(),
            token_file: self.token_file.clone(),
            name: self.name.clone(),
            role: Role::Host,
            host_ref: None,
            // The identity moves from machine to machine: of none of them anything is claimed.
            facts: Facts {
                hostname: self.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Facts::default()
            },
            // It opens no tunnel. Random bytes in the place of a public key are one that nobody has the
            // private key of.
            tunnel_key: STANDARD.encode(tunnel_key.expose()),
        };
        let (client, problems) = Client::open(settings, key, Store::new(&self.dir));
        match problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok((client, kept)),
        }
    }

    /// Keeps what changed of the identity.
    ///
    /// # Errors
    ///
    /// The Secret cannot be written: another agent could not go on with this identity.
    pub async fn keep(&self, secrets: &Api<Secret>, kept: &mut Kept) -> Result<(), Problem> {
        let Some(name) = &self.secret else {
            return Ok(());
        };
        let files = self.files().map_err(|error| self.unkept(&error))?;
        if files == kept.0 {
            return Ok(());
        }
        let data: BTreeMap<&String, ByteString> = files
            .iter()
            .map(|(name, bytes)| (name, ByteString(bytes.clone())))
            .collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name}, "data": data});
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = secrets.patch(name, &params, &Patch::Apply(&secret)).await;
        written.map_err(|error| self.unkept(&error))?;
        kept.0 = files;
        Ok(())
    }

    fn restore(&self, kept: &Kept) -> io::Result<()> {
        for name in FILES {
            let path = self.dir.join(name);
            match kept.0.get(name) {
                Some(bytes) => write_synced(&path, bytes)?,
                None if path.exists() => fs::remove_file(&path)?,
                None => {}
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let mut files = BTreeMap::new();
        for name in FILES {
            match fs::read(self.dir.join(name)) {
                Ok(bytes) => _ = files.insert(name.to_owned(), bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn unkept(&self, error: &dyn std::error::Error) -> Problem {
        let place = match &self.secret {
            Some(name) => format!("the Secret {name}"),
            None => self.dir.display().to_string(),
        };
        let what = format!("the agent's identity cannot be kept in {place}");
        Problem::new(Code::K8sIdentity, what)
            .caused_by(error)
            .consequence("nothing is asked of the manager; what is offered stays offered")
            .fix(Fix::text(
                "let the agent get and patch that Secret, or name a folder it may write",
            ))
    }
}

/// The files of an identity: two keys, what the manager made of it, and a renewal under way.
const FILES: [&str; 4] = [
    "identity.key",
    "tunnel.key",
    "membership.json",
    "renewal.json",
];
