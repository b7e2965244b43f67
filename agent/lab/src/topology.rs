//! Which nodes a lab has and how they are wired.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

/// A lab on paper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The Ethernet segments, each a bridge in the namespace of a node.
    pub segments: Vec<Segment>,
    /// The nodes, each a namespace.
    pub nodes: Vec<NodePlan>,
}

/// An Ethernet segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its name, which is also its bridge's.
    pub name: &'static str,
    /// The node whose namespace the bridge is in.
    pub home: &'static str,
    /// The address of that node on the segment, when it routes there.
    pub address: Option<IpNet>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Its name.
    pub name: &'static str,
    /// Its links to segments.
    pub legs: Vec<Leg>,
    /// Its routes: destination and gateway.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// Whether it forwards packets.
    pub forwards: bool,
    /// The link whose address everything takes that leaves by it.
    pub masquerade: Option<&'static str>,
}

/// A link from a node to a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Its name in the node.
    pub link: &'static str,
    /// The segment.
    pub segment: &'static str,
    /// The node's address there.
    pub address: IpNet,
}

/// The control-plane hosts of the edge.
pub const HOSTS: [&str; 3] = ["edge-a", "edge-b", "edge-c"];

/// The gateway's public address.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

/// The manager's public address.
pub const MANAGER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// The first address of the edge's pool.
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 20, 14, 10);

/// What is behind both gateways of [`Topology::gateways`].
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 5);

/// The two hosts of [`Topology::pair`].
pub const ENDS: [&str; 2] = ["one", "two"];

/// The two routers of [`Topology::routers`].
pub const ROUTERS: [&str; 2] = ["tor-a", "tor-b"];

/// The address of the router at a place in [`ROUTERS`].
#[must_use]
pub fn router_address(at: usize) -> Ipv4Addr {
    lan(u8::try_from(at).unwrap_or(u8::MAX).saturating_add(1))
}

/// The address of the host at a place in [`ENDS`].
#[must_use]
pub fn end_address(at: usize) -> Ipv4Addr {
    let last = u8::try_from(at).unwrap_or(u8::MAX).saturating_add(1);
    Ipv4Addr::new(192, 0, 2, last)
}

/// A host's address on its LAN.
#[must_use]
pub fn host_address(host: &str) -> Option<Ipv4Addr> {
    let index = HOSTS.iter().position(|name| *name == host)?;
    Some(Ipv4Addr::new(
        10,
        20,
        14,
        11_u8.saturating_add(u8::try_from(index).ok()?),
    ))
}

impl Topology {
    /// An edge LAN behind a NAT router, and a load-balancer side across the internet.
    ///
    /// ```text
    ///  edge-a .11   edge-b .12   edge-c .13                      gateway .7   manager .9
    ///     └───────────┴──── lan ────┴──── router .1                   └──── lb ────┘
    ///      10.20.14.0/24     │             │ NAT .1                  203.0.113.0/24
    ///                     client .50       └───── wan ──── internet ───────┘
    ///                        └──────────────────── .50   198.51.100.0/24
    /// ```
    ///
    /// Nothing beyond the router has a route to the LAN: only what a host began comes back.
    #[must_use]
    pub fn edge() -> Self {
        let host = |name: &'static str| NodePlan {
            name,
            legs: host_address(name)
                .map(|address| leg("eth0", "lan", address))
                .into_iter()
                .collect(),
            routes: vec![(EVERYWHERE, lan(1).into())],
            ..NodePlan::default()
        };
        let beyond = |name, address: Ipv4Addr| NodePlan {
            name,
            legs: vec![leg("eth0", "lb", address)],
            routes: vec![(EVERYWHERE, INTERNET_LB.into())],
            ..NodePlan::default()
        };
        let mut nodes = vec![
            NodePlan {
                name: "lan",
                ..NodePlan::default()
            },
            NodePlan {
                name: "internet",
                forwards: true,
                ..NodePlan::default()
            },
            NodePlan {
                name: "router",
                legs: vec![leg("lan0", "lan", lan(1)), leg("wan0", "wan", wan(1))],
                routes: vec![(EVERYWHERE, wan(254).into())],
                forwards: true,
                masquerade: Some("wan0"),
            },
            beyond("gateway", GATEWAY),
            beyond("manager", MANAGER),
            NodePlan {
                name: "client",
                legs: vec![leg("lan0", "lan", lan(50)), leg("wan0", "wan", wan(50))],
                routes: vec![(EVERYWHERE, wan(254).into())],
                ..NodePlan::default()
            },
        ];
        nodes.extend(HOSTS.map(host));
        let segment = |name, home, address: Option<Ipv4Addr>| Segment {
            name,
            home,
            address: address.map(on_24),
        };
        Self {
            segments: vec![
                segment("lan", "lan", None),
                segment("wan", "internet", Some(wan(254))),
                segment("lb", "internet", Some(INTERNET_LB)),
            ],
            nodes,
        }
    }

    /// The LAN alone: three hosts and a client. What the benches run on.
    #[must_use]
    pub fn lan() -> Self {
        let mut edge = Self::edge();
        edge.segments.retain(|segment| segment.name == "lan");
        edge.nodes.retain(|node| node.name == "lan" || on_lan(node));
        for node in &mut edge.nodes {
            node.legs.retain(|leg| leg.segment == "lan");
            node.routes.clear();
        }
        edge.nodes.retain(|node| node.name != "router");
        edge
    }

    /// Two hosts on a segment of their own: what a tunnel is measured on.
    #[must_use]
    pub fn pair() -> Self {
        let end = |(at, name): (usize, &'static str)| NodePlan {
            name,
            legs: vec![leg("eth0", "wire", end_address(at))],
            ..NodePlan::default()
        };
        let bridge = NodePlan {
            name: "wire",
            ..NodePlan::default()
        };
        let ends = ENDS.into_iter().enumerate().map(end);
        Self {
            segments: vec![Segment {
                name: "wire",
                home: "wire",
                address: None,
            }],
            nodes: std::iter::once(bridge).chain(ends).collect(),
        }
    }

    /// The three hosts and two routers on their LAN: what BGP and BFD are measured on.
    #[must_use]
    pub fn routers() -> Self {
        let mut lan = Self::lan();
        lan.nodes.retain(|node| node.name != "client");
        let router = |(at, name): (usize, &'static str)| NodePlan {
            name,
            legs: vec![leg("eth0", "lan", router_address(at))],
            ..NodePlan::default()
        };
        lan.nodes
            .extend(ROUTERS.into_iter().enumerate().map(router));
        lan
    }

    /// A host with two gateways to the same network, each of which masquerades towards it: an answer
    /// comes back the way its question went.
    ///
    /// ```text
    ///   edge .11 ──┬── .21  a  .1 ──┬── .5 server
    ///              └── .22  b  .2 ──┘
    ///  10.20.14.0/24               10.9.0.0/24
    /// ```
    #[must_use]
    pub fn gateways() -> Self {
        let host = |name, link, segment, address| NodePlan {
            name,
            legs: vec![leg(link, segment, address)],
            ..NodePlan::default()
        };
        let gateway = |name, number: u8| NodePlan {
            name,
            legs: vec![
                leg("eth0", "site", lan(20 + number)),
                leg("back0", "back", Ipv4Addr::new(10, 9, 0, number)),
            ],
            forwards: true,
            masquerade: Some("back0"),
            ..NodePlan::default()
        };
        let bridges = ["site", "back"];
        let bridge = |name| NodePlan {
            name,
            ..NodePlan::default()
        };
        let hosts = [
            host("edge", "eth0", "site", lan(11)),
            gateway("a", 1),
            gateway("b", 2),
            host("server", "eth0", "back", SERVER),
        ];
        Self {
            segments: bridges
                .map(|name| Segment {
                    name,
                    home: name,
                    address: None,
                })
                .into(),
            nodes: bridges.map(bridge).into_iter().chain(hosts).collect(),
        }
    }

    /// Gateways, a manager, a client and two hosts on one segment: what load balancing is measured on.
    ///
    /// ```text
    ///   edge-a .11   edge-b .12   manager .9   gateway .21   builtin .22   haproxy .23   client .50
    ///      └────────────┴────────────┴─── 10.20.14.0/24 ─────────┴────────────┴─────────────┘
    /// ```
    #[must_use]
    pub fn balancers() -> Self {
        let mut all = Self::lan();
        all.nodes.retain(|node| node.name != "edge-c");
        let host = |(name, number): (&'static str, u8)| NodePlan {
            name,
            legs: vec![leg("eth0", "lan", lan(number))],
            ..NodePlan::default()
        };
        let more = [
            ("manager", 9),
            ("gateway", 21),
            ("builtin", 22),
            ("haproxy", 23),
        ];
        all.nodes.extend(more.map(host));
        all
    }

    /// The node's plan.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The node that holds the bridge of a segment.
    #[must_use]
    pub fn home(&self, segment: &str) -> Option<&'static str> {
        self.segments
            .iter()
            .find(|found| found.name == segment)
            .map(|found| found.home)
    }
}

fn on_lan(node: &NodePlan) -> bool {
    node.legs.iter().any(|leg| leg.segment == "lan")
}

fn leg(link: &'static str, segment: &'static str, address: Ipv4Addr) -> Leg {
    Leg {
        link,
        segment,
        address: on_24(address),
    }
}

fn on_24(address: Ipv4Addr) -> IpNet {
    Ipv4Net::new_assert(address, 24).into()
}

/// The address of a host on the LAN by its last byte.
#[must_use]
pub const fn lan_address(host: u8) -> Ipv4Addr {
    lan(host)
}

const fn lan(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 20, 14, host)
}

const fn wan(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, host)
}

const INTERNET_LB: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const EVERYWHERE: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_leg_has_its_segment_and_every_address_is_unique() {
        for topology in [
            Topology::edge(),
            Topology::lan(),
            Topology::pair(),
            Topology::gateways(),
            Topology::routers(),
            Topology::balancers(),
        ] {
            let mut seen = BTreeSet::new();
            for node in &topology.nodes {
                assert!(
                    node.name.len() <= 15,
                    "{}: a port's name is a link's name",
                    node.name
                );
                for leg in &node.legs {
                    assert!(topology.home(leg.segment).is_some(), "{}", leg.segment);
                    assert!(seen.insert(leg.address.addr()), "{} twice", leg.address);
                }
                for (_, gateway) in &node.routes {
                    assert!(
                        node.legs.iter().any(|leg| leg.address.contains(gateway)),
                        "{}: {gateway} is not on-link",
                        node.name
                    );
                }
            }
            for segment in &topology.segments {
                assert!(topology.node(segment.home).is_some());
                assert!(
                    segment
                        .address
                        .is_none_or(|address| seen.insert(address.addr()))
                );
            }
        }
    }

    #[test]
    fn nothing_beyond_the_router_knows_the_lan() {
        let edge = Topology::edge();
        let lan: IpNet = "10.20.14.0/24".parse().unwrap();
        for name in ["internet", "gateway", "manager"] {
            let node = edge.node(name).unwrap();
            assert!(!node.legs.iter().any(|leg| lan.contains(&leg.address)));
            assert!(node.routes.iter().all(|(to, _)| *to == EVERYWHERE));
        }
        assert!(
            edge.segments
                .iter()
                .all(|segment| segment.address.is_none_or(|a| !lan.contains(&a)))
        );
    }

    #[test]
    fn the_bench_lan_is_the_hosts_and_the_client() {
        let names: Vec<_> = Topology::lan().nodes.iter().map(|node| node.name).collect();
        assert_eq!(names, ["lan", "client", "edge-a", "edge-b", "edge-c"]);
    }
}
