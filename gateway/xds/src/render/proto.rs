//! Small pieces of Envoy's protocol buffers.

use std::{net::IpAddr, time::Duration};

use envoy_types::pb::{
    envoy::config::core::v3::{
        Address, AggregatedConfigSource, ApiVersion, ConfigSource, SocketAddress, TcpKeepalive,
        address, config_source::ConfigSourceSpecifier, socket_address::PortSpecifier,
    },
    google::protobuf::{self, Any, BoolValue, UInt32Value},
};
use prost::{Message, Name};

/// A message as it stands in an extension.
pub fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

/// Where to connect to, or to listen.
pub fn address(ip: IpAddr, port: u16) -> Address {
    let socket = SocketAddress {
        address: ip.to_string(),
        port_specifier: Some(PortSpecifier::PortValue(u32::from(port))),
        ..SocketAddress::default()
    };
    Address {
        address: Some(address::Address::SocketAddress(socket)),
    }
}

/// What comes by the same stream.
pub fn over_ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

pub fn span(span: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

pub const fn number(value: u32) -> UInt32Value {
    UInt32Value { value }
}

pub const fn yes() -> BoolValue {
    BoolValue { value: true }
}

pub const fn no() -> BoolValue {
    BoolValue { value: false }
}

/// A peer that is gone without a word is noticed within about a minute.
pub const fn keepalive() -> TcpKeepalive {
    TcpKeepalive {
        keepalive_probes: Some(number(3)),
        keepalive_time: Some(number(30)),
        keepalive_interval: Some(number(10)),
    }
}
