//! The addresses of peers' endpoints. Names are looked up beside the loop, again and again: a
//! gateway may move.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use kedge_core::{Code, Fix, Problem};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout},
};
use tracing::info;

use crate::config::Endpoint;

/// Every endpoint and what is known of it.
#[derive(Debug)]
pub(super) struct Names {
    known: BTreeMap<Endpoint, Known>,
    lookups: JoinSet<(Endpoint, Result<SocketAddr, String>)>,
    resolver: Resolver,
}

/// Finds the first address of `name:port`, if there is one; it may take its time.
type Resolver = fn(&str) -> io::Result<Option<SocketAddr>>;

impl Default for Names {
    /// Asks the machine's resolver.
    fn default() -> Self {
        Self::asking(|endpoint| Ok(endpoint.to_socket_addrs()?.next()))
    }
}

#[derive(Debug)]
struct Known {
    address: Option<SocketAddr>,
    error: Option<String>,
    /// When to look it up (again); `None` for an address, and while a lookup is under way.
    due: Option<Instant>,
}

impl Names {
    fn asking(resolver: Resolver) -> Self {
        Self {
            known: BTreeMap::new(),
            lookups: JoinSet::new(),
            resolver,
        }
    }

    /// Wants the addresses of exactly these endpoints, and looks up what is due.
    pub fn want<'a>(&mut self, endpoints: impl Iterator<Item = &'a Endpoint>) {
        let mut before = std::mem::take(&mut self.known);
        for endpoint in endpoints {
            let known = before.remove(endpoint).unwrap_or_else(|| {
                let address = endpoint.as_str().parse().ok();
                Known {
                    address,
                    error: None,
                    due: address.is_none().then(Instant::now),
                }
            });
            self.known.insert(endpoint.clone(), known);
        }
        while let Some(done) = self.lookups.try_join_next() {
            if let Ok((endpoint, found)) = done {
                self.found(&endpoint, found);
            }
        }
        for (endpoint, known) in &mut self.known {
            if known.due.is_some_and(|due| due <= Instant::now()) {
                known.due = None;
                self.lookups.spawn(look_up(endpoint.clone(), self.resolver));
            }
        }
    }

    /// The address of an endpoint, once it is known.
    pub fn address(&self, endpoint: &Endpoint) -> Option<SocketAddr> {
        self.known.get(endpoint)?.address
    }

    /// Names that cannot be looked up.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.known.iter().filter_map(|(endpoint, known)| {
            let error = known.error.as_ref()?;
            let consequence = match known.address {
                Some(address) => format!("its last address {address} is used on"),
                None => "the peer is not called".to_owned(),
            };
            Some(
                Problem::warning(
                    Code::TunNoAnswer,
                    format!("the address of the peer at {endpoint} cannot be found"),
                )
                .evidence(error.clone())
                .consequence(consequence)
                .fix(
                    Fix::text("check the name and the host's name servers").command(format!(
                        "getent ahosts {}",
                        endpoint
                            .as_str()
                            .rsplit_once(':')
                            .map_or("", |(host, _)| host)
                    )),
                ),
            )
        })
    }

    fn found(&mut self, endpoint: &Endpoint, found: Result<SocketAddr, String>) {
        let Some(known) = self.known.get_mut(endpoint) else {
            return;
        };
        match found {
            Ok(address) => {
                if known.address != Some(address) {
                    info!(%endpoint, from = ?known.address, to = %address, "peer endpoint");
                }
                known.address = Some(address);
                known.error = None;
                known.due = Some(Instant::now() + AGAIN);
            }
            Err(error) => {
                known.error = Some(error);
                known.due = Some(Instant::now() + RETRY);
            }
        }
    }
}

async fn look_up(endpoint: Endpoint, resolver: Resolver) -> (Endpoint, Result<SocketAddr, String>) {
    let text = endpoint.as_str().to_owned();
    let found = timeout(LIMIT, spawn_blocking(move || resolver(&text))).await;
    let first = match found {
        Ok(Ok(Ok(first))) => first.ok_or_else(|| "the name has no address".to_owned()),
        Ok(Ok(Err(error))) => Err(error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).to_string()),
    };
    (endpoint, first)
}

const LIMIT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn addresses_are_known_at_once_and_names_soon() {
        let mut names = Names::default();
        let (address, name) = (endpoint("203.0.113.7:51820"), endpoint("localhost:51820"));
        let both = [address.clone(), name.clone()];
        names.want(both.iter());
        assert_eq!(
            names.address(&address),
            Some("203.0.113.7:51820".parse().unwrap())
        );
        let limit = Instant::now() + LIMIT * 2;
        while names.address(&name).is_none() {
            assert!(Instant::now() < limit, "localhost has an address");
            tokio::time::sleep(Duration::from_millis(5)).await;
            names.want(both.iter());
        }
        assert!(names.address(&name).unwrap().ip().is_loopback());
        assert_eq!(names.problems().count(), 0);
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_a_problem_and_forgotten_when_unwanted() {
        // A resolver of our own: the machine's would ask a name server.
        let mut names = Names::asking(|_| Err(io::Error::other("nobody knows it")));
        let nowhere = endpoint("nowhere.invalid:1");
        let limit = Instant::now() + LIMIT * 2;
        while names.problems().count() == 0 {
            assert!(Instant::now() < limit, "the lookup fails");
            names.want([&nowhere].into_iter());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let problem = names.problems().next().unwrap();
        assert_eq!(problem.code, Code::TunNoAnswer);
        assert_eq!(problem.evidence, ["nobody knows it"]);
        names.want(std::iter::empty());
        assert_eq!(names.problems().count(), 0);
    }
}
