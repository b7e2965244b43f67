//! Who has which address, port and name.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    num::NonZeroU16,
};

use kedge_control::{
    frontend::{Frontend, Protocol},
    site::{Site, is_host},
};

use super::check::Reason;

/// Who has which address, port and name. Whoever comes first has it.
#[derive(Default)]
pub struct Taken<'a> {
    places: BTreeMap<SocketAddr, (Use, &'a str)>,
    /// Names that are passed through.
    passed: BTreeMap<(SocketAddr, &'a str), &'a str>,
    /// Names that are served.
    sites: BTreeMap<(SocketAddr, &'a str), &'a Site>,
}

/// What an address and port is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// One TCP frontend.
    Alone,
    /// TLS, by names.
    Tls,
    /// HTTP, by names.
    Http,
}

impl<'a> Taken<'a> {
    pub fn frontend(&mut self, frontend: &'a Frontend) -> Result<(), Reason> {
        let at = SocketAddr::new(frontend.address, frontend.port.get());
        match &frontend.protocol {
            Protocol::Udp => return Err(Reason::Unsupported("Envoy carries no UDP here")),
            Protocol::Tcp => {
                if let Some((_, by)) = self.places.get(&at) {
                    return Err(Reason::PortInUse {
                        by: (*by).to_owned(),
                    });
                }
                self.places.insert(at, (Use::Alone, &frontend.name));
            }
            Protocol::TlsPassthrough { .. } if !frontend.source_ranges.is_empty() => {
                // The listener is everybody's whose names are there.
                return Err(Reason::Unsupported(
                    "clients are told apart by their addresses where a port is one frontend's alone",
                ));
            }
            Protocol::TlsPassthrough { server_names } => {
                self.is_free(at, Use::Tls)?;
                self.names(at, &frontend.name, server_names)?;
                self.places.entry(at).or_insert((Use::Tls, &frontend.name));
            }
        }
        Ok(())
    }

    /// `secured` are the names with a certificate.
    pub fn site(&mut self, site: &'a Site, secured: &[&'a str]) -> Result<(), Reason> {
        let at = |port: NonZeroU16| SocketAddr::new(site.address, port.get());
        let tls = site.https.filter(|_| !secured.is_empty()).map(at);
        let plain = site.http.map(at);
        if plain.is_some() && plain == tls {
            return Err(Reason::Invalid("plain HTTP and TLS are on one port"));
        }
        let mut names: BTreeSet<(SocketAddr, &'a str)> = BTreeSet::new();
        if let Some(at) = plain {
            self.is_free(at, Use::Http)?;
            names.extend(site.hosts.iter().map(|host| (at, &**host)));
            if site.redirect && tls.is_some() {
                names.extend(secured.iter().map(|name| (at, *name)));
            }
        }
        if let Some(at) = tls {
            self.is_free(at, Use::Tls)?;
            names.extend(secured.iter().map(|name| (at, *name)));
        }
        for place in &names {
            let passed = self.passed.get(place).copied();
            let other = self.sites.get(place);
            let other = other.filter(|other| other.tenant != site.tenant);
            if let Some(by) = passed.or_else(|| other.map(|other| &*other.name)) {
                return Err(Reason::NameInUse {
                    name: place.1.to_owned(),
                    by: by.to_owned(),
                });
            }
        }
        for (at, of) in [(plain, Use::Http), (tls, Use::Tls)] {
            if let Some(at) = at {
                self.places.entry(at).or_insert((of, &site.name));
            }
        }
        for place in names {
            self.sites.entry(place).or_insert(site);
        }
        Ok(())
    }

    fn is_free(&self, at: SocketAddr, wanted: Use) -> Result<(), Reason> {
        match self.places.get(&at) {
            Some((of, by)) if *of != wanted => Err(Reason::PortInUse {
                by: (*by).to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// A name leads to one pool where it is asked for: clusters are called after both.
    fn names(&mut self, at: SocketAddr, by: &'a str, names: &'a [String]) -> Result<(), Reason> {
        if names.is_empty() {
            return Err(Reason::Invalid("no name is passed through"));
        }
        let mut own = BTreeSet::new();
        for name in names {
            if !is_host(name) || name == "*" || !own.insert(name) {
                return Err(Reason::Invalid(
                    "a server name is no lower-case DNS name of its own, with `*` as its first label or without",
                ));
            }
            if let Some(by) = self.passed.get(&(at, &**name)) {
                return Err(Reason::NameInUse {
                    name: name.clone(),
                    by: (*by).to_owned(),
                });
            }
        }
        for name in names {
            self.passed.insert((at, name), by);
        }
        Ok(())
    }
}
