//! What an Envoy beside a gateway starts with, for whoever starts one before the gateway or without it.

use std::path::PathBuf;

use kedge_core::{Code, Fix, Problem};
use kedge_host::layers::Live;

use crate::config::{Engine, GatewayFile};

/// Envoy's bootstrap configuration, as JSON.
///
/// # Errors
///
/// No Envoy is to be beside the gateway.
pub fn bootstrap(live: &Live<GatewayFile>) -> Result<String, Problem> {
    match live.config().proxy.engine {
        #[cfg(feature = "envoy")]
        Engine::Envoy => Ok(crate::envoy::content(&live.config().proxy, live.root())),
        // A build without Envoy has refused such a configuration.
        #[cfg(not(feature = "envoy"))]
        Engine::Envoy => Err(no_envoy()),
        Engine::Builtin => Err(no_envoy()),
    }
}

/// Writes it where the gateway does; where that is.
///
/// # Errors
///
/// No Envoy is to be beside the gateway, or it cannot be written.
pub fn write_bootstrap(live: &Live<GatewayFile>) -> Result<PathBuf, Problem> {
    match live.config().proxy.engine {
        #[cfg(feature = "envoy")]
        Engine::Envoy => {
            crate::envoy::write(&live.config().proxy, live.root()).map_err(|problem| *problem)
        }
        // A build without Envoy has refused such a configuration.
        #[cfg(not(feature = "envoy"))]
        Engine::Envoy => Err(no_envoy()),
        Engine::Builtin => Err(no_envoy()),
    }
}

fn no_envoy() -> Problem {
    Problem::new(Code::ConfigRule, "no Envoy is to be beside this gateway")
        .object("proxy.engine")
        .evidence("it carries connections itself (`builtin`)")
        .consequence("there is nothing that an Envoy could start with")
        .fix(Fix::text(
            "have the gateway be with an Envoy: `proxy: {engine: envoy}`",
        ))
}
