//! How far tenants are kept apart.

use kedge_core::{Code, Fix, Problem};
use kedge_host::{layers::Origins, section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// How far tenants are kept apart. A change ends the connections to hosts of all tenants.
    TenantsFile {
        /// `shared`, one network of all hosts, or `namespace`: the hosts of each tenant in a network namespace
        /// of its own (`/run/kedge/netns/TENANT`), where addresses may be those of another tenant's hosts and
        /// from where nothing else can be reached. That needs CAP_SYS_ADMIN.
        isolation: Isolation,
    }
}

/// How far tenants are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantsConfig {
    /// What is between them.
    pub isolation: Isolation,
}

/// What is between tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// What the gateway forwards and each host accepts.
    #[default]
    Shared,
    /// A network namespace for each.
    Namespace,
}

impl TenantsFile {
    pub(super) fn fill(&mut self) {
        self.isolation.get_or_insert_default();
    }

    /// `relays` says whether other gateways pass packets of hosts on to this one.
    pub(super) fn check(
        self,
        relays: bool,
        origins: &Origins,
    ) -> Result<TenantsConfig, Vec<Problem>> {
        let isolation = self.isolation.unwrap_or_default();
        if isolation == Isolation::Namespace && relays {
            let what = "tenants that are kept apart are not passed on to other gateways";
            let mut problem = Problem::new(Code::ConfigRule, what)
                .object("tenants.isolation")
                .fix(Fix::text(
                    "leave tunnel.gateways out: hosts go over to another gateway by themselves",
                ));
            if let Some(origin) = origins.get("tenants.isolation") {
                problem = problem.evidence(origin);
            }
            return Err(vec![problem]);
        }
        Ok(TenantsConfig { isolation })
    }
}
