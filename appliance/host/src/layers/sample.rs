//! A role's file as the agent's looks, for the tests of this module.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{
    Code, Name, Problem, Span,
    vip::{Priority, Vrid},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Auto, Origins, RoleFile};
use crate::Role;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vips: Option<BTreeMap<Name, VipFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) manager: Option<ManagerFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tunnel: Option<TunnelFile>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VipFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) addresses: Option<Vec<IpAddr>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vrid: Option<Auto<Vrid>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<Auto<Priority>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<Members>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advert_interval: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preempt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Members {
    Kedge,
    Mixed,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManagerFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_file: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TunnelFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) listen_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mtu: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peers: Option<BTreeMap<Name, PeerFile>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endpoint: Option<String>,
}

impl RoleFile for SampleFile {
    const ROLE: Role = Role::Agent;
    type Config = Vec<(Name, Vrid)>;

    fn filled(mut self) -> Self {
        self.version.get_or_insert(1);
        self.tunnel
            .get_or_insert_default()
            .listen_port
            .get_or_insert(0);
        self
    }

    fn check(self, origins: &Origins) -> Result<Self::Config, Vec<Problem>> {
        let mut vrids: BTreeMap<Vrid, Name> = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, vip) in self.vips.unwrap_or_default() {
            let Some(Auto::Value(vrid)) = vip.vrid else {
                continue;
            };
            if let Some(other) = vrids.insert(vrid, name.clone()) {
                let at = |name: &Name| origins.of_key(&format!("vips.{name}.vrid")).to_owned();
                problems.push(
                    Problem::new(Code::ConfigDuplicateVrid, format!("VRID {vrid} twice"))
                        .evidence(at(&other))
                        .evidence(at(&name)),
                );
            }
        }
        if problems.is_empty() {
            Ok(vrids.into_iter().map(|(vrid, name)| (name, vrid)).collect())
        } else {
            Err(problems)
        }
    }
}
