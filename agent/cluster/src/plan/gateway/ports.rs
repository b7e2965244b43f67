//! The ports at which a tenant's gateway serves HTTP, as far as the manager says.

use kedge_crd::{HttpLoadBalancerSpec, http::HttpProtocol};

use crate::snapshot::{HttpOffer, Snapshot};

/// The ports; `None` where nothing says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    plain: Option<i32>,
    secure: Option<i32>,
}

impl Ports {
    /// What the load balancers that there are say.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut ports = Self::default();
        for offer in snapshot.offered.iter().flat_map(|it| it.http.values()) {
            ports.learn(offer);
        }
        ports
    }

    /// Why a port is none for a listener.
    pub fn refuse(self, port: i32, is_secure: bool) -> Option<String> {
        let (own, other) = match is_secure {
            true => (self.secure, self.plain),
            false => (self.plain, self.secure),
        };
        let what = if is_secure { "HTTPS" } else { "HTTP" };
        match (own, other) {
            (Some(own), _) if own != port => Some(format!("the gateway serves {what} at {own}")),
            (None, Some(other)) if other == port => {
                Some(format!("the gateway does not serve {what} at {other}"))
            }
            _ => None,
        }
    }

    fn learn(&mut self, offer: &HttpOffer) {
        let (Some(spec), Some(said)) = (&offer.spec, &offer.status) else {
            return;
        };
        // At an address of its own it is served at whichever it asks for.
        if spec.address.is_some() {
            return;
        }
        let Some(ingress) = said.ingress.first() else {
            return;
        };
        let ports: Vec<i32> = ingress
            .ports
            .iter()
            .map(|it| i32::from(it.port.get()))
            .collect();
        // The manager names the port of HTTP first, and neither where it is not asked for.
        let asked = (
            is_asked(spec, HttpProtocol::Http),
            is_asked(spec, HttpProtocol::Https) && !spec.tls.is_empty(),
        );
        match (asked, &ports[..]) {
            ((true, true), &[plain, secure]) => {
                (self.plain, self.secure) = (Some(plain), Some(secure));
            }
            ((true, false), &[plain]) => self.plain = Some(plain),
            ((false, true), &[secure]) => self.secure = Some(secure),
            _ => {}
        }
    }
}

fn is_asked(spec: &HttpLoadBalancerSpec, protocol: HttpProtocol) -> bool {
    spec.listeners.is_empty() || spec.listeners.iter().any(|it| it.protocol == protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_for_what_the_gateway_serves_there() {
        let both = Ports {
            plain: Some(80),
            secure: Some(443),
        };
        let plain = Ports {
            secure: None,
            ..both
        };
        let cases = [
            (both, 80, false, true),
            (both, 443, true, true),
            (both, 443, false, false),
            (both, 8443, true, false),
            (plain, 8443, true, true),
            (plain, 80, true, false),
            (Ports::default(), 8080, false, true),
        ];
        for (ports, port, is_secure, is_fine) in cases {
            let refused = ports.refuse(port, is_secure);
            assert_eq!(refused.is_none(), is_fine, "{ports:?} {port} {is_secure}");
        }
    }
}
