//! The ports where an HTTPLoadBalancer is asked: those that its gateway has for all, or the ones that its listeners
//! name at an address of its own.

use std::num::NonZeroU16;

use kedge_crd::{
    gateway::GatewayHttp,
    http::{HttpListener, HttpLoadBalancerSpec, HttpProtocol},
};

/// A port of plain HTTP and one of TLS: between the two requests are sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door<P> {
    /// The port of plain HTTP.
    pub http: Option<P>,
    /// The port of TLS.
    pub https: Option<P>,
    /// What it is asked for there; everything when empty.
    pub listeners: Vec<HttpListener>,
    /// What is served there is called after its load balancer, and after this: nothing for the first one.
    pub called: String,
}

/// A port that is asked for, and the field that says so.
pub type Asked = (NonZeroU16, &'static str);

impl<P> Door<P> {
    /// The same with something else of each port.
    pub fn map<Q>(self, mut each: impl FnMut(P) -> Q) -> Door<Q> {
        Door {
            http: self.http.map(&mut each),
            https: self.https.map(each),
            listeners: self.listeners,
            called: self.called,
        }
    }
}

/// Where an EdgeGateway has its ports.
pub const PORT: &str = "spec.http.port";
pub const TLS_PORT: &str = "spec.http.tlsPort";

/// The doors that are asked for. Listeners without a port are the gateway's ports; of those with one the first of
/// plain HTTP belongs to the first of TLS, and so on.
pub fn doors(spec: &HttpLoadBalancerSpec, gateway: &GatewayHttp) -> Vec<Door<Asked>> {
    let (named, plain): (Vec<&HttpListener>, Vec<&HttpListener>) =
        spec.listeners.iter().partition(|it| it.port.is_some());
    let mut doors = Vec::new();
    if !plain.is_empty() || named.is_empty() {
        doors.push(Door {
            http: Some((gateway.http_port(), PORT)),
            https: Some((gateway.https_port(), TLS_PORT)),
            listeners: plain.into_iter().cloned().collect(),
            called: String::new(),
        });
    }
    let of = |protocol| {
        let all = named.iter().copied();
        all.filter(move |it: &&HttpListener| it.protocol == protocol)
    };
    let (mut http, mut https) = (of(HttpProtocol::Http), of(HttpProtocol::Https));
    loop {
        let pair = [http.next(), https.next()];
        let [plain, secure] = pair.map(|it| Some((it?.port?, "port in spec.listeners")));
        let Some((port, _)) = plain.or(secure) else {
            return doors;
        };
        let called = match doors.is_empty() {
            true => String::new(),
            false => format!(":{port}"),
        };
        doors.push(Door {
            http: plain,
            https: secure,
            listeners: pair.into_iter().flatten().cloned().collect(),
            called,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Each door: its ports, and what is called after it.
    fn of(listeners: Value) -> Vec<(Option<u16>, Option<u16>, usize, String)> {
        let spec = serde_json::from_value(json!({"listeners": listeners})).unwrap();
        let doors = doors(&spec, &GatewayHttp::default()).into_iter();
        let doors = doors.map(|door| door.map(|(port, _)| port.get()));
        let shown = |it: Door<u16>| (it.http, it.https, it.listeners.len(), it.called);
        doors.map(shown).collect()
    }

    #[test]
    fn listeners_that_name_ports_are_doors_of_their_own() {
        let first = |http, https, many| (http, https, many, String::new());
        assert_eq!(of(json!([])), [first(Some(80), Some(443), 0)]);
        assert_eq!(
            of(json!([{"protocol": "HTTP"}])),
            [first(Some(80), Some(443), 1)]
        );
        assert_eq!(
            of(json!([
                {"protocol": "HTTPS", "port": 443},
                {"protocol": "HTTP", "port": 8080},
                {"protocol": "HTTP", "port": 80},
            ])),
            [
                first(Some(8080), Some(443), 2),
                (Some(80), None, 1, ":80".to_owned())
            ]
        );
        assert_eq!(
            of(json!([{"protocol": "HTTPS", "port": 8443}, {"protocol": "HTTP"}])),
            [
                first(Some(80), Some(443), 1),
                (None, Some(8443), 1, ":8443".to_owned())
            ]
        );
    }
}
