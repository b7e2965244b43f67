//! What was heard, and what of it is wrong. No I/O. What a router proves itself with is counted and
//! never kept.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use kedge_control::local::{ScannedRouter, VridScan, VridUse};
use kedge_core::{Code, Fix, Problem};
use kedge_vip_proto::wire::{
    checksum::Forms,
    vrrp::{Heard, Version},
};

/// Every router that was heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    heard: BTreeMap<Place, BTreeMap<(IpAddr, String), ScannedRouter>>,
    malformed: BTreeMap<String, u64>,
    routers: usize,
}

/// A VIP of this host.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    pub name: String,
    pub interface: Option<String>,
    pub vrid: u8,
    pub addresses: Vec<IpAddr>,
}

/// Interface, IPv6 or not, VRID: what two virtual routers must not share.
type Place = (String, bool, u8);

impl Census {
    /// Takes an advertisement.
    pub fn hear(&mut self, interface: &str, heard: &Heard<'_>) {
        let received = &heard.received;
        let advert = &received.advert;
        let place = (
            interface.to_owned(),
            received.src.is_ipv6(),
            advert.vrid.get(),
        );
        let station = (received.src, received.mac.to_string());
        let here = self.heard.entry(place).or_default();
        if !here.contains_key(&station) {
            if self.routers >= AT_MOST {
                *self
                    .malformed
                    .entry("too_many_routers".to_owned())
                    .or_default() += 1;
                return;
            }
            self.routers += 1;
        }
        let before = here.get(&station).map_or(0, |router| router.adverts);
        let auth = match advert.version {
            _ if heard.trailer.is_some() => "signed",
            Version::Two { password: Some(_) } => "password",
            Version::Two { password: None } | Version::Three => "none",
        };
        let router = ScannedRouter {
            address: received.src,
            mac: received.mac.to_string(),
            version: advert.version.number(),
            priority: advert.priority.map_or(0, kedge_core::vip::Priority::get),
            advert_interval_seconds: advert.interval.duration().as_secs_f64(),
            addresses: advert.addresses.iter().collect(),
            checksum: match received.forms {
                Forms::Message => "message",
                Forms::PseudoHeader => "pseudoHeader",
                Forms::Both => "both",
            }
            .to_owned(),
            auth: auth.to_owned(),
            unicast: !received.dst.is_multicast(),
            adverts: before + 1,
        };
        here.insert(station, router);
    }

    /// Counts what was no advertisement.
    pub fn malformed(&mut self, reason: &str) {
        *self.malformed.entry(reason.to_owned()).or_default() += 1;
    }

    /// Everything that was heard, beside what is ours.
    pub fn tell(self, interfaces: Vec<String>, span: Duration, ours: &[Ours]) -> VridScan {
        let mut used: BTreeMap<Place, VridUse> = BTreeMap::new();
        let entry = |(interface, ipv6, vrid): &Place| VridUse {
            interface: interface.clone(),
            vrid: *vrid,
            family: if *ipv6 { "IPv6" } else { "IPv4" }.to_owned(),
            ours: String::new(),
            routers: Vec::new(),
        };
        for (place, routers) in self.heard {
            let mut told = entry(&place);
            told.routers = routers.into_values().collect();
            used.insert(place, told);
        }
        for vip in ours {
            let Some(interface) = vip.interface.clone() else {
                continue;
            };
            if interfaces.contains(&interface) {
                let ipv6 = vip.addresses.first().is_some_and(IpAddr::is_ipv6);
                let place = (interface, ipv6, vip.vrid);
                let told = used.entry(place.clone()).or_insert_with(|| entry(&place));
                vip.name.clone_into(&mut told.ours);
            }
        }
        let free: BTreeMap<String, u8> = interfaces
            .iter()
            .filter_map(|name| Some((name.clone(), free(&used, name)?)))
            .collect();
        let problems = used
            .values()
            .flat_map(|here| {
                let vip = ours.iter().find(|vip| vip.name == here.ours);
                let free = free.get(&here.interface).copied();
                let routers = here.routers.iter();
                routers.filter_map(move |router| problem(here, router, vip?, free))
            })
            .collect();
        VridScan {
            interfaces,
            seconds: span.as_secs_f64(),
            items: used.into_values().collect(),
            free,
            malformed: self.malformed,
            problems,
        }
    }
}

/// A VRID nobody was heard with, of neither family, and none of ours.
fn free(used: &BTreeMap<Place, VridUse>, interface: &str) -> Option<u8> {
    let taken = |vrid: u8| {
        used.values()
            .any(|here| here.interface == interface && here.vrid == vrid)
    };
    (FIRST..=u8::MAX).chain(1..FIRST).find(|vrid| !taken(*vrid))
}

/// What is wrong with a router on a VRID of ours.
fn problem(
    here: &VridUse,
    router: &ScannedRouter,
    vip: &Ours,
    free: Option<u8>,
) -> Option<Problem> {
    let family = vip.addresses.first()?.is_ipv6();
    let own: Vec<&IpAddr> = vip
        .addresses
        .iter()
        .filter(|address| address.is_ipv6() == family)
        .collect();
    let shared = router
        .addresses
        .iter()
        .filter(|one| own.contains(one))
        .count();
    if shared == own.len() && shared == router.addresses.len() {
        return None;
    }
    let (vrid, name) = (here.vrid, &vip.name);
    let who = format!("{} ({})", router.mac, router.address);
    let theirs: Vec<String> = router.addresses.iter().map(IpAddr::to_string).collect();
    let advertises = format!(
        "it advertises {} with priority {}, version {}",
        theirs.join(", "),
        router.priority,
        router.version
    );
    if shared > 0 {
        let what = format!("{who} is a member of {name} with another list of addresses");
        return Some(
            Problem::warning(Code::VipVridInUse, what)
                .object(format!("vips/{name}"))
                .evidence(advertises)
                .consequence("the election works, but who wins serves only his own list")
                .fix(Fix::text("configure the same addresses on all hosts")),
        );
    }
    let fix = match free {
        Some(free) => format!(
            "give {name} another VRID, the same on all of its hosts, such as `vips.{name}.vrid: \
             {free}`, and reload"
        ),
        None => format!("give {name} an interface of its own: every VRID is taken"),
    };
    Some(
        Problem::new(
            Code::VipVridInUse,
            format!("VRID {vrid} of {name} is used by {who}, which is no member"),
        )
        .object(format!("vips/{name}"))
        .evidence(advertises)
        .consequence("the two disturb each other's election")
        .fix(Fix::text(fix)),
    )
}

/// Low numbers are what routers are given by hand.
const FIRST: u8 = 100;
/// A flood of sources is cut off.
const AT_MOST: usize = 4_096;

#[cfg(test)]
mod tests {
    use kedge_core::{
        Severity,
        vip::{AdvertInterval, Priority, Vrid},
    };
    use kedge_vip_proto::wire::{
        Addresses, Mac, ip,
        vrrp::{Advert, Received},
    };

    use super::*;

    fn hear(census: &mut Census, last: u8, vrid: u8, priority: u8, vip: &str) {
        let received = Received {
            src: [10, 20, 14, last].into(),
            dst: ip::group(false),
            ttl: 255,
            mac: Mac([2, 0, 0, 0, 0, last]),
            forms: Forms::PseudoHeader,
            advert: Advert {
                version: Version::Three,
                vrid: Vrid::new(vrid).unwrap(),
                priority: Priority::new(priority).ok(),
                interval: AdvertInterval::DEFAULT,
                addresses: Addresses::new(&[vip.parse().unwrap()]).unwrap(),
            },
        };
        let heard = Heard {
            received,
            pdu: &[],
            trailer: None,
        };
        census.hear("eth0", &heard);
    }

    fn ours(vrid: u8) -> Ours {
        Ours {
            name: "api".to_owned(),
            interface: Some("eth0".to_owned()),
            vrid,
            addresses: vec!["10.20.14.10".parse().unwrap(), "fd00::10".parse().unwrap()],
        }
    }

    fn told(census: Census, ours: Ours) -> VridScan {
        census.tell(vec!["eth0".to_owned()], Duration::from_secs(3), &[ours])
    }

    #[test]
    fn a_member_is_no_problem_and_a_stranger_on_our_vrid_is_named() {
        let mut census = Census::default();
        hear(&mut census, 12, 51, 200, "10.20.14.10");
        hear(&mut census, 12, 51, 200, "10.20.14.10");
        hear(&mut census, 1, 52, 100, "10.20.14.1");
        let scan = told(census.clone(), ours(51));
        assert!(scan.problems.is_empty(), "{:?}", scan.problems);
        assert_eq!(
            (
                scan.items[0].ours.as_str(),
                scan.items[0].routers[0].adverts
            ),
            ("api", 2)
        );
        assert_eq!(scan.items[1].ours, "");
        let scan = told(census, ours(52));
        let [problem] = scan.problems.as_slice() else {
            panic!("{:?}", scan.problems);
        };
        assert_eq!(problem.severity, Severity::Error);
        assert_eq!(
            problem.what,
            "VRID 52 of api is used by 02:00:00:00:00:01 (10.20.14.1), which is no member"
        );
        let fix = &problem.fix.as_ref().unwrap().text;
        assert!(fix.contains("`vips.api.vrid: 100`"), "{fix}");
    }

    #[test]
    fn a_free_vrid_is_free_of_both_families_and_of_ours() {
        let mut census = Census::default();
        hear(&mut census, 12, 100, 200, "10.20.14.20");
        let scan = told(census, ours(101));
        assert_eq!(scan.free["eth0"], 102);
        assert!(
            scan.items
                .iter()
                .any(|here| here.ours == "api" && here.routers.is_empty())
        );
    }

    #[test]
    fn another_list_is_a_warning_and_a_flood_is_cut_off() {
        let mut census = Census::default();
        let received = |census: &mut Census| hear(census, 12, 51, 200, "10.20.14.10");
        received(&mut census);
        let mut more = ours(51);
        more.addresses.insert(1, "10.20.14.11".parse().unwrap());
        let scan = told(census.clone(), more);
        assert_eq!(scan.problems[0].severity, Severity::Warning);
        census.routers = AT_MOST;
        hear(&mut census, 13, 51, 200, "10.20.14.10");
        received(&mut census);
        let scan = told(census, ours(51));
        assert_eq!(scan.malformed["too_many_routers"], 1);
        assert_eq!(scan.items[0].routers.len(), 1);
        assert_eq!(scan.items[0].routers[0].adverts, 2);
    }
}
