//! What carries the connections of clients to hosts.

use std::path::PathBuf;

use kedge_core::{Code, Fix, Problem};
use kedge_host::{layers::Origins, section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// What carries the connections of clients to hosts. A change closes those that are open, but for those of an
    /// Envoy that somebody else runs.
    ProxyFile {
        /// `builtin`, in this process, or `envoy`, beside it.
        engine: Engine,
        /// The executable of Envoy, started and stopped with the gateway. Left out, an Envoy is waited for that
        /// somebody else starts with the configuration this gateway writes (`/run/kedge/envoy/envoy.json`).
        envoy: PathBuf,
        /// How many connections of clients Envoy takes at most; 50000 when left out.
        max_connections: u32,
    }
}

/// What carries the connections of clients to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Which one.
    pub engine: Engine,
    /// The executable of Envoy, if the gateway is to run it.
    pub envoy: Option<PathBuf>,
    /// How many connections of clients Envoy takes at most.
    pub max_connections: u32,
}

/// What carries the connections of clients to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The gateway itself.
    #[default]
    Builtin,
    /// An Envoy beside it.
    Envoy,
}

impl ProxyFile {
    pub(super) fn fill(&mut self) {
        self.engine.get_or_insert_default();
        self.max_connections.get_or_insert(CONNECTIONS);
    }

    pub(super) fn check(self, origins: &Origins) -> Result<ProxyConfig, Vec<Problem>> {
        let engine = self.engine.unwrap_or_default();
        if engine == Engine::Envoy && !cfg!(feature = "envoy") {
            let mut problem =
                Problem::new(Code::ConfigRule, "this build of Kedge has no part in Envoy")
                    .object("proxy.engine")
                    .fix(Fix::text(
                        "run the build that has everything, or say `engine: builtin`",
                    ));
            if let Some(origin) = origins.get("proxy.engine") {
                problem = problem.evidence(origin);
            }
            return Err(vec![problem]);
        }
        Ok(ProxyConfig {
            engine,
            envoy: self.envoy,
            max_connections: self.max_connections.unwrap_or(CONNECTIONS),
        })
    }
}

const CONNECTIONS: u32 = 50_000;
