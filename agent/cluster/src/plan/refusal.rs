//! Why a Service is not offered.

use std::fmt;

/// Why a Service is not offered. Nothing of it is served then: a wish that is not understood may be
/// the one that closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its type has no node ports.
    Type { kind: String },
    /// Another implementation serves it.
    Answered { by: Vec<String> },
    /// It has no ports.
    NoPorts,
    /// It has more ports than a TCPLoadBalancer takes.
    TooManyPorts { count: usize },
    /// None of its ports has a protocol that is served.
    Protocol { protocol: String },
    /// A port without a node port.
    NoNodePort { port: String },
    /// A client's address in `loadBalancerSourceRanges` that nobody can read.
    SourceRange { value: String },
    /// More of them than a TCPLoadBalancer takes.
    TooManySourceRanges { count: usize },
    /// A time after which a client may change its backend.
    AffinityTimeout { seconds: i32 },
    /// An affinity nobody knows.
    Affinity { value: String },
    /// A policy nobody knows.
    TrafficPolicy { value: String },
    /// A family nobody knows.
    Family { value: String },
    /// An address the gateway does not have.
    Address { wanted: String, has: Vec<String> },
    /// What is no address.
    NoAddress { wanted: String },
    /// More addresses of a pool than one.
    OneAddress { wanted: String },
    /// An annotation that cannot be honoured.
    Annotation { key: String, why: &'static str },
}

impl Refusal {
    /// The reason of the condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Type { .. } => "TypeNotSupported",
            Self::Answered { .. } => "AnsweredByAnother",
            Self::NoPorts => "NoPorts",
            Self::TooManyPorts { .. } => "TooManyPorts",
            Self::Protocol { .. } => "ProtocolNotSupported",
            Self::NoNodePort { .. } => "NodePortRequired",
            Self::SourceRange { .. } => "SourceRangeInvalid",
            Self::TooManySourceRanges { .. } => "TooManySourceRanges",
            Self::AffinityTimeout { .. } => "AffinityTimeoutNotSupported",
            Self::Affinity { .. } | Self::TrafficPolicy { .. } | Self::Family { .. } => {
                "UnknownValue"
            }
            Self::Address { .. } | Self::NoAddress { .. } | Self::OneAddress { .. } => {
                "AddressNotAvailable"
            }
            Self::Annotation { .. } => "AnnotationNotSupported",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { kind } => write!(
                f,
                "spec.type {kind} has no node ports; make it NodePort or LoadBalancer"
            ),
            Self::Answered { by } => write!(
                f,
                "status.loadBalancer was written by {}; give the Service a loadBalancerClass",
                by.join(", ")
            ),
            Self::NoPorts => f.write_str("spec.ports is empty"),
            Self::TooManyPorts { count } => {
                write!(
                    f,
                    "spec.ports has {count} ports, and {MAX_PORTS} are served"
                )
            }
            Self::Protocol { protocol } => {
                write!(f, "spec.ports: {protocol} is not served, TCP and UDP are")
            }
            Self::NoNodePort { port } => write!(
                f,
                "spec.ports: {port} has no nodePort, and hosts are reached by it; leave \
                 allocateLoadBalancerNodePorts out"
            ),
            Self::SourceRange { value } => write!(
                f,
                "spec.loadBalancerSourceRanges: {value:?} is no prefix such as 192.0.2.0/24, so nobody is let in"
            ),
            Self::TooManySourceRanges { count } => write!(
                f,
                "spec.loadBalancerSourceRanges has {count} prefixes, and {MAX_SOURCES} are taken"
            ),
            Self::AffinityTimeout { seconds } => write!(
                f,
                "spec.sessionAffinityConfig: a client stays with its host for as long as the hosts \
                 stay, not for {seconds} s; leave the timeout at {AFFINITY_TIMEOUT} s"
            ),
            Self::Affinity { value } => {
                write!(f, "spec.sessionAffinity: {value:?} is not known")
            }
            Self::TrafficPolicy { value } => {
                write!(f, "spec.externalTrafficPolicy: {value:?} is not known")
            }
            Self::Family { value } => write!(f, "spec.ipFamilies: {value:?} is not known"),
            Self::Address { wanted, has } if has.is_empty() => write!(
                f,
                "the address {wanted} is asked for, and the manager names none of the gateway's"
            ),
            Self::Address { wanted, has } => write!(
                f,
                "the address {wanted} is asked for, and the gateway has {}",
                has.join(", ")
            ),
            Self::NoAddress { wanted } => write!(f, "{wanted:?} is no address"),
            Self::OneAddress { wanted } => write!(
                f,
                "a Service has one address of a pool, and {wanted} are asked for"
            ),
            Self::Annotation { key, why } => write!(f, "annotation {key}: {why}"),
        }
    }
}

/// As many ports as a TCPLoadBalancer takes.
pub const MAX_PORTS: usize = 32;
/// As many prefixes of clients as it takes.
pub const MAX_SOURCES: usize = 64;
/// The timeout an API server fills in for `sessionAffinity: ClientIP`.
pub const AFFINITY_TIMEOUT: i32 = 10_800;
