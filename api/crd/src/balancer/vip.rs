//! The VIP of a LoadBalancer.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use kedge_core::{
    Span,
    vip::{AdvertInterval, OutOfRange, Vrid},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::Family;

/// The VIP of a LoadBalancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.health) || !has(self.check)",
    "message": "set health or check, not both",
}]))]
pub struct Vip {
    /// The pool it is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<PoolRef>,
    /// The address: a user's, otherwise chosen once from the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The family of the address; the pool's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The address of the other family, for both at once. The endpoint is the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondAddress>,
    /// The interface on the hosts; chosen by on-link prefix when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub interface: Option<String>,
    /// How hosts agree on who holds it; `VRRPv3` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<VipProtocol>,
    /// The virtual router identifier: a user's, otherwise chosen once, unique in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrid: Option<Vrid>,
    /// The advertisement interval in steps of 0.01; 0.1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advert_interval_seconds: Option<AdvertSeconds>,
    /// Whether a fitter host takes the VIP from one that works; no when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<bool>,
    /// What decides whether a host is fit; `auto` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// A probe of one's own that decides instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<VipCheck>,
    /// The place of each host in the order of priorities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, u8>,
}

/// A VIP's address of the other family. A pool holds one family, so it has a pool of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.poolRef) || has(self.address)",
    "message": "second needs poolRef or address",
}]))]
pub struct SecondAddress {
    /// The pool it is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<PoolRef>,
    /// The address: a user's, otherwise chosen once from the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// An advertisement interval as a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct AdvertSeconds(AdvertInterval);

impl AdvertSeconds {
    /// The interval.
    #[must_use]
    pub const fn interval(self) -> AdvertInterval {
        self.0
    }
}

impl From<AdvertInterval> for AdvertSeconds {
    fn from(interval: AdvertInterval) -> Self {
        Self(interval)
    }
}

impl TryFrom<f64> for AdvertSeconds {
    type Error = OutOfRange;

    fn try_from(seconds: f64) -> Result<Self, OutOfRange> {
        // A tenth of a second has no exact binary form: round to the microsecond first.
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let micros = (duration.as_nanos() + 500) / 1000;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        AdvertInterval::try_from(Duration::from_micros(micros)).map(Self)
    }
}

impl From<AdvertSeconds> for f64 {
    fn from(seconds: AdvertSeconds) -> Self {
        Self::from(seconds.0.centis()) / 100.0
    }
}

impl JsonSchema for AdvertSeconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AdvertSeconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "number", "minimum": 0.01, "maximum": 40.95, "multipleOf": 0.01
        })
    }
}

/// What decides whether a host is fit for a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// The API server on the host.
    #[default]
    Auto,
    /// Nothing.
    None,
}

/// A probe that decides whether a host is fit for a VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.url.startsWith('https://') || self.url.startsWith('http://')",
    "message": "url must begin with http:// or https://",
}]))]
pub struct VipCheck {
    /// What is asked for, on the host itself.
    #[schemars(length(min = 8, max = 512))]
    pub url: String,
    /// Between two probes; `500ms` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub interval: Option<Span>,
    /// For one probe; `1s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub timeout: Option<Span>,
    /// Failures after which the host is unfit; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub fall: Option<u8>,
    /// Successes after which it is fit again; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub rise: Option<u8>,
}

/// How hosts agree on who holds a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VipProtocol {
    /// VRRP version 3 (RFC 9568).
    #[default]
    #[serde(rename = "VRRPv3")]
    Vrrp3,
    /// VRRP version 2, for routers that know no other.
    #[serde(rename = "VRRPv2")]
    Vrrp2,
    /// Each fit host announces it to the routers.
    #[serde(rename = "BGP")]
    Bgp,
}

/// A pool of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolRef {
    /// The API group; `kedge.dev` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub api_group: Option<String>,
    /// The kind; `VIPPool` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// The name, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_seconds_in_steps_of_ten_milliseconds() {
        let read = |text: &str| serde_json::from_str::<AdvertSeconds>(text).ok();
        assert_eq!(read("0.1").unwrap().interval(), AdvertInterval::DEFAULT);
        assert_eq!(read("40.95").unwrap().interval().centis(), 4095);
        assert_eq!(
            serde_json::to_string(&read("0.07").unwrap()).unwrap(),
            "0.07"
        );
        for bad in ["0", "-1", "0.005", "41", "1e300", "0.105"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
