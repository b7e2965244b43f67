//! What a seed makes of a world before anything goes wrong.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use kedge_core::vip::{AdvertInterval, Priority, Vrid};
use kedge_vip_proto::{
    vrrp::{ChecksumPolicy, Config},
    wire::{Addresses, Mac},
};

use crate::{frame::vip, random::Random};

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// One configuration per host.
    pub configs: Vec<Config>,
    /// Whether the LAN speaks IPv6.
    pub ipv6: bool,
    /// The advertisement interval of all.
    pub interval: AdvertInterval,
    /// The shortest and the longest way of a frame.
    pub delay: (Duration, Duration),
    /// How late a timer may be served.
    pub lateness: Duration,
    /// How often the kernel refuses an address, in percent.
    pub refusals: u64,
}

impl Setup {
    /// The world of `random`.
    #[must_use]
    pub fn any(random: &mut Random) -> Self {
        let hosts = 2 + random.index(4);
        let interval = AdvertInterval::from_centis(random.pick(&[1, 10, 10, 10, 100])).unwrap();
        let adv = interval.duration();
        let slowest = random.between(Duration::from_micros(50), adv / 5);
        let fastest = if random.chance(40) {
            slowest
        } else {
            slowest / 5
        };
        let preempt = random.chance(30);
        let gated = random.chance(50);
        let first_claim = random.chance(20);
        let has_owner = random.chance(10);
        let equal = random.chance(15);
        let wait = random.pick(&[Duration::ZERO, Duration::ZERO, adv * 8]);
        let checksums = [
            ChecksumPolicy::Auto,
            ChecksumPolicy::Auto,
            ChecksumPolicy::PseudoHeader,
        ];
        let configs = (0..hosts).map(|host| {
            let slot = if equal {
                0
            } else {
                u8::try_from(host).unwrap()
            };
            let priority = if has_owner && host == 0 {
                255
            } else {
                254 - 12 * slot
            };
            Config {
                interval,
                preempt,
                gated,
                first_claim,
                proves: true,
                owner: priority == 255,
                startup_wait: wait,
                link_up_wait: wait,
                checksum: random.pick(&checksums),
                ..config(Priority::new(priority).unwrap())
            }
        });
        let mut configs: Vec<Config> = configs.collect();
        let refusals = random.pick(&[0, 0, 0, 5]);
        let ipv6 = random.chance(30);
        for config in &mut configs {
            config.addresses = Addresses::new(&[vip(ipv6)]).unwrap();
        }
        Self {
            ipv6,
            configs,
            interval,
            delay: (fastest, slowest),
            lateness: adv / 20,
            refusals,
        }
    }

    /// A world of `priorities` without any wait: 100 ms adverts, 0.2 ms of wire.
    #[must_use]
    pub fn plain(priorities: &[u8]) -> Self {
        let delay = Duration::from_micros(200);
        Self {
            ipv6: false,
            configs: priorities
                .iter()
                .map(|value| Config {
                    startup_wait: Duration::ZERO,
                    link_up_wait: Duration::ZERO,
                    ..config(Priority::new(*value).unwrap())
                })
                .collect(),
            interval: AdvertInterval::DEFAULT,
            delay: (delay, delay),
            lateness: Duration::ZERO,
            refusals: 0,
        }
    }
}

/// The source address of a host.
#[must_use]
pub fn source(host: usize, ipv6: bool) -> IpAddr {
    let last = 11 + u8::try_from(host).unwrap();
    if ipv6 {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(10, 20, 14, last).into()
    }
}

/// The hardware address of a host.
#[must_use]
pub fn mac(host: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, 11 + u8::try_from(host).unwrap()])
}

fn config(priority: Priority) -> Config {
    let addresses = Addresses::new(&[vip(false)]).unwrap();
    Config::new(Vrid::new(51).unwrap(), addresses, priority)
}
