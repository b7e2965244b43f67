//! The map: every crate, the folder it lives in, and what it may see.
//!
//! Crates that have no code yet stand here too, so that the first line of each lands in the right
//! place. `ARCHITECTURE.md` says what each room is for.

/// A crate.
pub struct Room {
    /// Its name.
    pub name: &'static str,
    /// Its folder.
    pub path: &'static str,
    /// Whether it may touch nothing outside itself.
    pub pure: bool,
    /// The crates of ours it may depend on.
    pub sees: &'static [&'static str],
}

/// Foreign crates that only some rooms may use.
pub struct Reserved {
    /// The foreign crates.
    pub crates: &'static [&'static str],
    /// The rooms that may use them.
    pub rooms: &'static [&'static str],
    /// Why nobody else may.
    pub why: &'static str,
}

const fn room(name: &'static str, path: &'static str, sees: &'static [&'static str]) -> Room {
    Room {
        name,
        path,
        pure: false,
        sees,
    }
}

const fn pure(name: &'static str, path: &'static str, sees: &'static [&'static str]) -> Room {
    Room {
        name,
        path,
        pure: true,
        sees,
    }
}

/// Every room.
pub const ROOMS: &[Room] = &[
    // Contracts.
    pure("kedge-core", "api/core", &[]),
    pure("kedge-crd", "api/crd", &["kedge-core"]),
    pure("kedge-control", "api/control", &["kedge-core"]),
    room("kedge-api-lease", "api/lease", &["kedge-core"]),
    // The host.
    room("kedge-net", "appliance/net", &["kedge-core"]),
    room(
        "kedge-host",
        "appliance/host",
        &["kedge-core", "kedge-control"],
    ),
    // Who owns an address.
    pure("kedge-vip-proto", "vip/proto", &["kedge-core"]),
    room(
        "kedge-vip-speaker",
        "vip/speaker",
        // How a BFD session stands, as both roles tell it (docs/adr/0063).
        &[
            "kedge-core",
            "kedge-control",
            "kedge-net",
            "kedge-vip-proto",
        ],
    ),
    // Edge to load-balancing cluster.
    pure("kedge-tunnel-proto", "tunnel/proto", &["kedge-core"]),
    room(
        "kedge-tunnel-device",
        "tunnel/device",
        // How a device stands, as both roles tell it (docs/adr/0063).
        &[
            "kedge-core",
            "kedge-control",
            "kedge-net",
            "kedge-tunnel-proto",
        ],
    ),
    // The gateway: no Kubernetes.
    room(
        "kedge-gateway-dataplane",
        "gateway/dataplane",
        &["kedge-core", "kedge-control", "kedge-net"],
    ),
    room(
        "kedge-gateway-xds",
        "gateway/xds",
        &["kedge-core", "kedge-control"],
    ),
    room(
        "kedge-gateway-hub",
        "gateway/hub",
        &[
            "kedge-core",
            "kedge-control",
            "kedge-host",
            "kedge-net",
            "kedge-tunnel-device",
            "kedge-tunnel-proto",
            // BFD with the hosts (docs/adr/0030).
            "kedge-vip-speaker",
            "kedge-gateway-dataplane",
            "kedge-gateway-xds",
        ],
    ),
    // The edge service and the people who use it.
    room(
        "kedge-agent-daemon",
        "agent/daemon",
        &[
            "kedge-core",
            "kedge-control",
            "kedge-host",
            "kedge-net",
            "kedge-vip-proto",
            "kedge-vip-speaker",
            "kedge-tunnel-device",
            "kedge-tunnel-proto",
        ],
    ),
    // The agent in the user's own cluster (docs/adr/0084).
    room(
        "kedge-agent-cluster",
        "agent/cluster",
        &[
            "kedge-core",
            "kedge-crd",
            "kedge-control",
            "kedge-api-lease",
            "kedge-host",
        ],
    ),
    room(
        "kedge-agent-lab",
        "agent/lab",
        &[
            "kedge-core",
            "kedge-crd",
            "kedge-control",
            "kedge-host",
            "kedge-net",
            // The hosts of a storm (docs/adr/0034).
            "kedge-tunnel-proto",
            // A neighbour that only listens, and the machine of BFD alone (docs/adr/0073).
            "kedge-vip-proto",
            // What an Envoy is told, and the other way to tell it (docs/adr/0095).
            "kedge-gateway-xds",
        ],
    ),
    room(
        "kedge-agent-cli",
        "agent/cli",
        &[
            "kedge-core",
            "kedge-crd",
            "kedge-control",
            "kedge-net",
            "kedge-host",
            "kedge-vip-proto",
            "kedge-vip-speaker",
            "kedge-tunnel-proto",
            "kedge-tunnel-device",
            "kedge-gateway-dataplane",
            "kedge-gateway-hub",
            "kedge-gateway-xds",
            "kedge-agent-cluster",
            "kedge-agent-daemon",
            "kedge-agent-lab",
            "kedge-manager-controller",
        ],
    ),
    // Decisions; no packet passes here, and no edge crate is known.
    room(
        "kedge-manager-controller",
        "manager/controller",
        &[
            "kedge-core",
            "kedge-crd",
            "kedge-control",
            "kedge-api-lease",
        ],
    ),
    // Tools and proof: they may see everything, nothing may see them.
    room("xtask", "packaging/xtask", &[]),
    // The journal's catalogue is made of the codes.
    room("kedge-packaging-dist", "packaging/dist", &["kedge-core"]),
    room(
        "kedge-tests-fuzz",
        "tests/fuzz",
        &[
            "kedge-core",
            "kedge-net",
            "kedge-tunnel-proto",
            "kedge-vip-proto",
        ],
    ),
    room(
        "kedge-tests-sim",
        "tests/sim",
        &[
            "kedge-core",
            "kedge-control",
            "kedge-vip-proto",
            "kedge-tunnel-proto",
        ],
    ),
    room("kedge-tests-netns", "tests/netns", EVERYTHING),
    room("kedge-tests-kube", "tests/kube", EVERYTHING),
    // It starts where that ends: the same LAN, hosts and probes, with booted hosts.
    room(
        "kedge-tests-boot",
        "tests/boot",
        &[
            "kedge-agent-cli",
            "kedge-net",
            "kedge-packaging-dist",
            "kedge-tests-netns",
        ],
    ),
];

const EVERYTHING: &[&str] = &[
    "kedge-core",
    "kedge-crd",
    "kedge-control",
    "kedge-net",
    "kedge-host",
    "kedge-vip-proto",
    "kedge-vip-speaker",
    "kedge-tunnel-proto",
    "kedge-tunnel-device",
    "kedge-gateway-dataplane",
    "kedge-gateway-hub",
    "kedge-gateway-xds",
    "kedge-agent-cluster",
    "kedge-agent-daemon",
    "kedge-agent-lab",
    "kedge-agent-cli",
    "kedge-manager-controller",
];

/// What a pure crate may not depend on.
pub const IMPURE: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "hyper",
    "axum",
    "tonic",
    "rustls",
    "libc",
    "rustix",
    "nix",
    "socket2",
    "rand",
    "getrandom",
    "notify",
    "tempfile",
    "kube",
    "zbus",
    "rtnetlink",
    "tracing-subscriber",
];

/// Foreign crates with a home.
pub const RESERVED: &[Reserved] = &[
    Reserved {
        crates: &[
            "rtnetlink",
            "netlink-sys",
            "netlink-proto",
            "netlink-packet-core",
            "netlink-packet-route",
            "netlink-packet-wireguard",
            "netlink-packet-generic",
            "nftables",
        ],
        rooms: &["kedge-net"],
        why: "only kedge-net speaks netlink and nftables",
    },
    Reserved {
        crates: &["libc", "nix", "socket2", "tun-rs"],
        rooms: &["kedge-net", "kedge-tests-netns"],
        why: "only kedge-net makes system calls of its own (tests forge packets)",
    },
    Reserved {
        crates: &["figment", "zbus", "sd-notify"],
        rooms: &["kedge-host"],
        why: "only kedge-host reads configuration and speaks D-Bus and to systemd",
    },
    Reserved {
        crates: &["kube", "k8s-openapi", "kube-client", "kube-runtime"],
        rooms: &[
            "kedge-manager-controller",
            "kedge-api-lease",
            "kedge-agent-cluster",
            "kedge-agent-lab",
            "kedge-tests-kube",
        ],
        why: "Kubernetes ends at the manager and the in-cluster watcher (the lab measures the \
              manager against a real one, docs/adr/0016)",
    },
    Reserved {
        crates: &["kube-cel", "cel"],
        rooms: &["kedge-crd"],
        why: "the rules of our kinds are asked in one place, kedge_crd::validate",
    },
    Reserved {
        crates: &["boringtun"],
        rooms: &["kedge-tunnel-proto"],
        why: "the Noise core is hidden behind kedge-tunnel-proto",
    },
    Reserved {
        crates: &["tonic", "prost", "envoy-types"],
        rooms: &["kedge-gateway-xds"],
        why: "xDS compiles once, in kedge-gateway-xds",
    },
    Reserved {
        crates: &["anyhow"],
        rooms: &["kedge-agent-cli", "kedge-packaging-dist", "xtask"],
        why: "libraries have error types; anyhow is for the top of binaries",
    },
    Reserved {
        crates: &["serde_yaml", "serde_yml", "openssl", "native-tls", "neli"],
        rooms: &[],
        why: "not in this project (docs/adr/0003)",
    },
];
