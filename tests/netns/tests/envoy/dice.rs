//! Offers of all kinds, made by chance.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_control::{
    frontend::{
        Affinity, ClientIp, Frontend, Health, Limits, Offer, Policy, Pool, PoolMember, Protocol,
        ProxyProtocol,
    },
    site::HttpVersion,
};

use super::site::number;

/// Numbers that are the same for the same seed (xorshift).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Frontends and pools of all kinds; some of them collide.
    pub fn offer(&mut self, address: IpAddr) -> Offer {
        let pools = (0..self.below(8)).map(|index| self.pool(index)).collect();
        let frontends = (0..self.below(12))
            .map(|index| self.frontend(index, address))
            .collect();
        let from = ["10.20.14.2/32", "2001:db8::/32"].map(|net| net.parse().unwrap());
        let proxy_protocol = (self.below(3) == 0).then(|| ProxyProtocol { from: from.into() });
        Offer {
            frontends,
            pools,
            proxy_protocol,
            ..Offer::default()
        }
    }

    fn pool(&mut self, index: u64) -> Pool {
        let member = |dice: &mut Self| PoolMember {
            host: format!("host-{}", dice.below(6)),
            address: match dice.below(2) {
                0 => IpAddr::from([198, 18, 0, u8::try_from(1 + dice.below(200)).unwrap()]),
                _ => format!("fd6b::{:x}", 1 + dice.below(200)).parse().unwrap(),
            },
            port: number(u16::try_from(1 + dice.below(65_535)).unwrap()),
            weight: u8::try_from(dice.below(129)).unwrap(),
            draining: dice.below(4) == 0,
        };
        Pool {
            name: format!("pool-{index}"),
            tenant: self.of(&["one", "two"]).to_owned(),
            members: (0..self.below(5)).map(|_| member(self)).collect(),
            policy: self.of(&[Policy::RoundRobin, Policy::LeastConnections, Policy::Maglev]),
            affinity: self.of(&[Affinity::None, Affinity::ClientIp]),
            health: self.of(&[true, false]).then(|| Health {
                interval_seconds: self.of(&[0.01, 0.5, 3_600.0]),
                timeout_seconds: self.of(&[0.01, 0.2, 1.0]),
                fall: self.of(&[1, 2, 255]),
                rise: self.of(&[1, 2, 255]),
            }),
            limits: Limits {
                connections: self.of(&[1, 20_000, u32::MAX]),
                idle_seconds: self.of(&[0, 1, u32::MAX]),
            },
            http: self.of(&[HttpVersion::One, HttpVersion::Two]),
        }
    }

    fn ranges(&mut self) -> Vec<IpNet> {
        let ranges = [
            "0.0.0.0/0",
            "::/0",
            "192.0.2.0/24",
            "10.20.14.1/32",
            "2001:db8::/33",
            // With an address, and twice.
            "192.0.2.77/24",
        ];
        let count = self.of(&[0, 0, 1, 3, 64]);
        (0..count)
            .map(|_| self.of(&ranges).parse().unwrap())
            .collect()
    }

    fn frontend(&mut self, index: u64, address: IpAddr) -> Frontend {
        let names = [
            "a.example",
            "b.example",
            "xn--bcher-kva.example",
            "*.bad",
            "Bad",
            "",
        ];
        let server_names = (0..self.below(4))
            .map(|_| self.of(&names).to_owned())
            .collect();
        Frontend {
            name: format!("frontend-{index}"),
            tenant: self.of(&["one", "two"]).to_owned(),
            // Some are addresses that the gateway does not have, as where another holds the VIP.
            address: self.of(&[
                address,
                "10.20.14.99".parse().unwrap(),
                "fd00::99".parse().unwrap(),
            ]),
            port: number(u16::try_from(20_000 + self.below(20)).unwrap()),
            protocol: match self.below(5) {
                0 => Protocol::Udp,
                1 | 2 => Protocol::TlsPassthrough { server_names },
                _ => Protocol::Tcp,
            },
            pool: format!("pool-{}", self.below(8)),
            client_ip: self.of(&[ClientIp::Hidden, ClientIp::ProxyV1, ClientIp::ProxyV2]),
            source_ranges: self.ranges(),
        }
    }
}
