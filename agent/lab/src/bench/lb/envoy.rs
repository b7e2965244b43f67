//! An Envoy on a node.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_core::{Code, Fix, Problem};
use kedge_gateway_xds::Bootstrap;
use serde_json::Value;

use super::super::cost;
use crate::{error::LabError, lab::Lab};

/// How an Envoy is told what to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// As the gateway tells it.
    Delta,
    /// Everything at each change.
    Whole,
}

/// An Envoy that was started.
#[derive(Clone, Debug)]
pub(super) struct Envoy {
    node: &'static str,
    name: String,
}

/// Where the executable is: the one that was named, or the one of the path.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, Problem> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join("envoy"));
    let found = match named {
        Some(named) => named.canonicalize().ok(),
        None => found.find(|file| file.is_file()),
    };
    found.ok_or_else(|| {
        let told = named.map_or_else(
            || "no folder of PATH has it".to_owned(),
            |named| format!("{} does not exist", named.display()),
        );
        Problem::new(Code::LabToolMissing, "there is no Envoy")
            .evidence(told)
            .consequence("nothing was built")
            .fix(
                Fix::text("say where it is")
                    .command("sudo kedge lab bench lb --envoy /opt/envoy/envoy"),
            )
    })
}

/// What it calls itself, such as `envoy 1.40.0`.
pub(super) fn version(executable: &Path) -> String {
    let said = Command::new(executable).arg("--version").output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let text = text.unwrap_or_default();
    // `… version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`
    let version = text.split("version: ").nth(1).unwrap_or_default();
    let number = version.split('/').nth(1).unwrap_or("?");
    format!("envoy {number}")
}

impl Envoy {
    /// Starts one on a node that is told over the socket `ads`, with so many threads.
    pub(super) fn start(
        lab: &mut Lab,
        node: &'static str,
        executable: &Path,
        (variant, ads): (Variant, &Path),
        threads: u32,
    ) -> Result<Self, LabError> {
        let name = "envoy";
        let folder = lab.root(node);
        let admin = folder.join(format!("{name}.sock"));
        let bootstrap = Bootstrap {
            node: "bench",
            ads,
            admin: &admin,
            connections: 50_000,
        };
        let mut bootstrap = bootstrap.render();
        if variant == Variant::Whole {
            set(
                &mut bootstrap,
                "/dynamic_resources/ads_config/api_type",
                "GRPC".into(),
            );
        }
        Self::start_with(lab, node, name, executable, &bootstrap, threads)
    }

    /// Starts one with a configuration.
    pub(super) fn start_with(
        lab: &mut Lab,
        node: &'static str,
        name: &str,
        executable: &Path,
        bootstrap: &Value,
        threads: u32,
    ) -> Result<Self, LabError> {
        let folder = lab.root(node);
        fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
        let config = folder.join(format!("{name}.json"));
        fs::write(&config, bootstrap.to_string()).map_err(LabError::file(&config))?;
        let mut command = Command::new(executable);
        command
            .arg("--config-path")
            .arg(&config)
            .arg("--concurrency")
            .arg(threads.to_string())
            .args(["--disable-hot-restart", "--log-level", "warning"]);
        lab.start(node, name, command)?;
        Ok(Self {
            node,
            name: name.to_owned(),
        })
    }

    pub(super) fn pid(&self, lab: &mut Lab) -> Result<u32, LabError> {
        Ok(lab.process(self.node, &self.name)?.pid())
    }

    /// What is resident of it, in KiB.
    pub(super) fn rss(&self, lab: &mut Lab) -> Result<f64, LabError> {
        Ok(cost::rss(self.pid(lab)?) * 1024.0)
    }

    /// Why nothing comes of what is waited for, if it has ended.
    pub(super) fn check(&self, lab: &mut Lab) -> Result<(), LabError> {
        let process = lab.process(self.node, &self.name)?;
        match process.ended() {
            None => Ok(()),
            Some(status) => Err(LabError::Unexpected {
                who: format!("the Envoy on {}", self.node),
                said: format!("ended with {status}: {}", process.last_words()),
            }),
        }
    }
}

/// Sets what a configuration says at a place.
pub(super) fn set(bootstrap: &mut Value, place: &str, to: Value) {
    if let Some(value) = bootstrap.pointer_mut(place) {
        *value = to;
    }
}
