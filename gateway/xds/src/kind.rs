//! The kinds of resources Envoy is told.

/// A kind of resource, in the order in which new ones are told: what a resource names comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`.
    Secret,
    /// `envoy.config.cluster.v3.Cluster`.
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`; named as the cluster whose members it lists.
    Endpoint,
    /// `envoy.config.listener.v3.Listener`.
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration`.
    Route,
}

impl Kind {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 5] = [
        Self::Secret,
        Self::Cluster,
        Self::Endpoint,
        Self::Listener,
        Self::Route,
    ];

    /// What stands in `type_url`.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoint => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The kind a `type_url` names.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// The word used for it as a label of metrics and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Cluster => "cluster",
            Self::Endpoint => "endpoint",
            Self::Listener => "listener",
            Self::Route => "route",
        }
    }

    /// Whether a first request without names asks for everything there is (xDS protocol, "How the
    /// client specifies what resources to return").
    #[must_use]
    pub const fn is_listed(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }
}
