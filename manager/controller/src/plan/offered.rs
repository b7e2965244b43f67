//! What gateways serve of one namespace, part by part.

use std::net::IpAddr;

use kedge_control::{
    frontend::{Frontend, Offer, Pool},
    site::Site,
};

/// A part of what a gateway serves. Where an address is unspecified, every instance puts its own there.
#[derive(Clone, Debug, PartialEq)]
pub enum Offered {
    /// A way in.
    Frontend(Frontend),
    /// Backends.
    Pool(Pool),
    /// Names whose HTTP is served.
    Site(Site),
}

/// What an instance at that address serves of these.
pub fn at<'a>(offered: impl Iterator<Item = &'a Offered>, address: IpAddr) -> Offer {
    let here = |of: IpAddr| if of.is_unspecified() { address } else { of };
    let mut offer = Offer::default();
    for part in offered {
        match part {
            Offered::Frontend(frontend) => {
                let list = match frontend.source_ranges.is_empty() {
                    true => &mut offer.frontends,
                    false => &mut offer.restricted,
                };
                list.push(Frontend {
                    address: here(frontend.address),
                    ..frontend.clone()
                });
            }
            Offered::Pool(pool) => offer.pools.push(pool.clone()),
            Offered::Site(site) => offer.sites.push(Site {
                address: here(site.address),
                ..site.clone()
            }),
        }
    }
    for list in [&mut offer.frontends, &mut offer.restricted] {
        list.sort_by(|one, other| one.name.cmp(&other.name));
    }
    offer.pools.sort_by(|one, other| one.name.cmp(&other.name));
    offer.sites.sort_by(|one, other| one.name.cmp(&other.name));
    offer
}
