//! Routes in a table of the kernel that no packet of this host follows: a routing daemon takes them from
//! there and tells its neighbours.
//!
//! They are of the kind `blackhole`, which needs no interface, and carry our protocol number
//! ([`crate::PROTOCOL`]). Nothing else in that table is touched.

use std::{collections::BTreeSet, io, net::IpAddr};

use kedge_core::{Code, Coded, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage as Message,
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType},
};

use crate::{
    PROTOCOL, privilege,
    rtnl::{Requests, family},
};

/// A route: its table, an address, and how many of its bits count.
pub type Route = (u32, IpAddr, u8);

/// Every route of that kind that is ours, in whatever table.
#[derive(Debug)]
pub struct Tables {
    requests: Requests,
    /// As the kernel has them, as far as anybody here knows.
    routes: Option<BTreeSet<Route>>,
}

/// The kernel does not do something with a table.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses to {what}")]
pub struct TableError {
    what: String,
    #[source]
    source: io::Error,
}

impl Coded for TableError {
    fn problem(&self) -> Problem {
        let problem = privilege::problem(Code::BgpTable, self.to_string(), &self.source);
        problem.consequence(
            "the routing daemon of this host announces something else than this host has",
        )
    }
}

impl Tables {
    /// Those of the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> Result<Self, TableError> {
        let requests = Requests::open();
        let requests = requests.map_err(|source| error("tell of its routes".to_owned(), source))?;
        Ok(Self {
            requests,
            routes: None,
        })
    }

    /// Looks at what the kernel has the next time, whatever it had before.
    pub fn doubt(&mut self) {
        self.routes = None;
    }

    /// Has the kernel hold exactly `wanted` of ours. What goes, goes first. Where that is what it held
    /// last nothing is asked.
    ///
    /// # Errors
    ///
    /// The kernel refused; what was done before stays.
    pub fn fit(&mut self, wanted: &BTreeSet<Route>) -> Result<(), TableError> {
        if self.routes.as_ref() == Some(wanted) {
            return Ok(());
        }
        self.routes = None;
        let found = self.read();
        let found = found.map_err(|source| error("tell of its routes".to_owned(), source))?;
        for gone in found.difference(wanted) {
            let message = Message::DelRoute(message(*gone));
            match self.requests.change(message, 0) {
                Err(source) if source.raw_os_error() != Some(libc::ESRCH) => {
                    let (table, address, _) = gone;
                    let what = format!("take the route to {address} from table {table}");
                    return Err(error(what, source));
                }
                Ok(()) | Err(_) => {}
            }
        }
        for new in wanted.difference(&found) {
            let (table, address, _) = new;
            let what = || format!("add a route to {address} to table {table}");
            let message = Message::NewRoute(message(*new));
            let added = self.requests.change(message, NLM_F_CREATE | NLM_F_EXCL);
            added.map_err(|source| error(what(), source))?;
        }
        self.routes = Some(wanted.clone());
        Ok(())
    }

    fn read(&mut self) -> io::Result<BTreeSet<Route>> {
        let mut found = BTreeSet::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            // Kernels that know filters tell no more than ours.
            message.header.protocol = RouteProtocol::from(PROTOCOL);
            self.requests.dump(Message::GetRoute(message), |object| {
                if let Message::NewRoute(message) = object {
                    found.extend(own(&message));
                }
            })?;
        }
        Ok(found)
    }
}

fn error(what: String, source: io::Error) -> TableError {
    TableError { what, source }
}

fn message((table, address, length): Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = family(address);
    header.destination_prefix_length = length;
    // What does not fit the header stands in the attribute, which wins.
    header.table = u8::try_from(table).unwrap_or_default();
    header.protocol = RouteProtocol::from(PROTOCOL);
    header.scope = RouteScope::Universe;
    header.kind = RouteType::BlackHole;
    message.attributes = vec![
        RouteAttribute::Destination(address.into()),
        RouteAttribute::Table(table),
    ];
    message
}

/// A route of ours, if it is one of the kind: those of the tunnel are others.
fn own(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    let attributes = || message.attributes.iter();
    let table = attributes().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    let is_ours =
        header.protocol == RouteProtocol::from(PROTOCOL) && header.kind == RouteType::BlackHole;
    let address = attributes().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })?;
    let table = table.unwrap_or(u32::from(header.table));
    is_ours.then_some((table, address, header.destination_prefix_length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{Lease, Namespace, Worker};

    #[test]
    fn the_kernel_holds_what_is_wanted_and_what_others_put_there_stays() {
        if privilege::check().is_err() {
            return;
        }
        let lease = Lease::take().unwrap();
        let namespace = Namespace::create(&lease.namespace("table")).unwrap();
        let worker = Worker::start(&namespace).unwrap();
        worker
            .run(|| {
                let ip = |line: &str| {
                    let mut ip = std::process::Command::new("ip");
                    let output = ip.args(line.split(' ')).output().unwrap();
                    String::from_utf8_lossy(&output.stdout).into_owned()
                };
                ip("link set lo up");
                ip("route add blackhole 192.0.2.77 table 107 proto static");
                let route = |table, text: &str| {
                    let address: IpAddr = text.parse().unwrap();
                    (table, address, if address.is_ipv4() { 32 } else { 128 })
                };
                let mut tables = Tables::open().unwrap();
                let all = BTreeSet::from([
                    route(107, "192.0.2.1"),
                    route(107, "2001:db8::1"),
                    route(70_000, "192.0.2.2"),
                ]);
                tables.fit(&all).unwrap();
                assert_eq!(tables.read().unwrap(), all);
                let shown = ip("route show table 107");
                assert!(shown.contains("blackhole 192.0.2.1 proto 107"), "{shown}");
                // Another process takes over what this one left, wherever it stands.
                let mut next = Tables::open().unwrap();
                let one = BTreeSet::from([route(107, "2001:db8::1")]);
                next.fit(&one).unwrap();
                assert_eq!(next.read().unwrap(), one);
                let shown = ip("route show table 107");
                assert_eq!(shown.lines().count(), 1, "{shown}");
                assert!(shown.contains("192.0.2.77 proto static"), "{shown}");
                // Somebody took one away: it is back once that is looked at.
                ip("-6 route del blackhole 2001:db8::1 table 107");
                next.fit(&one).unwrap();
                assert!(next.read().unwrap().is_empty());
                next.doubt();
                next.fit(&one).unwrap();
                assert_eq!(next.read().unwrap(), one);
                next.fit(&BTreeSet::new()).unwrap();
                assert!(next.read().unwrap().is_empty());
            })
            .unwrap();
    }
}
