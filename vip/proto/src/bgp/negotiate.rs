//! What both sides agree on by their OPENs (RFC 4271 section 6.2, RFC 5492).

use super::Config;
use crate::wire::bgp::{
    Capability, Context, ExtendedNextHop, Family, HoldTime, Notification, Open, codes,
};

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How messages read.
    pub context: Context,
    /// The kinds of routes: IPv4, IPv6.
    pub families: [bool; 2],
    /// After how much silence the other is gone.
    pub hold_time: HoldTime,
    /// Marks stand around routes that are sent again (RFC 7313).
    pub enhanced_refresh: bool,
    /// A NOTIFICATION is a restart to the neighbour, but for the hard one (RFC 8538).
    pub hard_reset: bool,
    /// The neighbour may restart without a word, and calls anew (RFC 4724).
    pub restarts: bool,
}

impl Agreed {
    /// Whether routes of a family are exchanged.
    #[must_use]
    pub const fn speaks(&self, family: Family) -> bool {
        let [four, six] = self.families;
        match family {
            Family::Ipv4 => four,
            Family::Ipv6 => six,
        }
    }
}

/// What we can do. Graceful restart is without any routes: we have none of others to keep, and ours
/// must go when we do.
#[must_use]
pub fn capabilities(config: &Config) -> Vec<Capability> {
    let mut all = Vec::new();
    for family in Family::ALL {
        if config.speaks(family) {
            all.push(Capability::of(family));
        }
    }
    all.push(Capability::RouteRefresh);
    if config.extended_next_hop {
        all.push(Capability::ExtendedNextHop(vec![
            ExtendedNextHop::IPV4_OVER_IPV6,
        ]));
    }
    all.push(Capability::GracefulRestart {
        restarted: false,
        notification: true,
        seconds: 0,
        families: Vec::new(),
    });
    all.push(Capability::FourOctetAs(config.local_as));
    all.push(Capability::EnhancedRouteRefresh);
    all
}

/// What we agree on with a neighbour that said `open`.
///
/// # Errors
///
/// On nothing: it is to be told so.
pub fn negotiate(config: &Config, open: &Open) -> Result<Agreed, Notification> {
    if !config.peer_as.holds(open.asn, config.local_as) {
        return Err(refused(codes::PEER_AS, Vec::new()));
    }
    let is_internal = config.is_internal();
    if is_internal && open.router_id == config.router_id {
        return Err(refused(codes::IDENTIFIER, Vec::new()));
    }
    let families = Family::ALL.map(|family| config.speaks(family) && open.speaks(family));
    if families == [false, false] {
        let wanted = Family::ALL
            .into_iter()
            .filter(|family| config.speaks(*family));
        let data = wanted.flat_map(|family| {
            let [high, low] = family.afi().to_be_bytes();
            [1, 4, high, low, 0, 1]
        });
        return Err(refused(codes::CAPABILITY, data.collect()));
    }
    let context = Context {
        internal: is_internal,
        four_octet: open.four_octet(),
        extended_next_hop: config.extended_next_hop && open.extended_next_hop(),
    };
    Ok(Agreed {
        context,
        families,
        hold_time: config.hold_time.min(open.hold_time),
        enhanced_refresh: open.can(&Capability::EnhancedRouteRefresh),
        hard_reset: open.keeps_at_notification(),
        restarts: open.restarts(),
    })
}

fn refused(subcode: u8, data: Vec<u8>) -> Notification {
    Notification::new(codes::OPEN, subcode, data)
}
