//! What agent and gateway tell scrapers at an address of their own: real processes, asked over TCP in their
//! namespaces, and the guide that says what there is.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::fallback;

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream, UdpSocket},
};

use fallback::{GATEWAYS, Site, tunnel, until};
use kedge_tests_netns::{asked::Asked as _, eventually, flood::Flood, lan::Host, quietly, secs};

const GUIDE: &str = include_str!("../../../docs/guide/tunnel-tools.md");
const LISTEN: &str = "metrics: {listen: '127.0.0.1:9445'}\n";
const AT: &str = "127.0.0.1:9445";

/// What a host answers to `GET path`, head and body; nothing where nobody listens.
fn get(host: &Host, at: &str, path: &str) -> Option<(String, String)> {
    let at: SocketAddr = at.parse().unwrap();
    let mut stream = host.run(move || TcpStream::connect(at)).ok()?;
    stream.set_read_timeout(Some(secs(10))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: metrics\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Some((head.to_owned(), body.to_owned()))
}

fn scrape(host: &Host) -> String {
    // The control socket answers first.
    quietly("metrics are told", secs(5), || get(host, AT, "/").is_some());
    let (head, body) = get(host, AT, "/metrics").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0";
    assert!(head.to_lowercase().contains(kind), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    body
}

/// The value of the metric with these labels.
fn value(text: &str, metric: &str) -> Option<f64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '))?;
    Some(rest.parse().unwrap())
}

/// The names that have a value, without what all have before.
fn names(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        name.strip_prefix("kedge_tunnel_").unwrap().to_owned()
    };
    samples.map(name).collect()
}

/// Those that the guide names, in the first column of its table.
fn documented() -> BTreeSet<String> {
    let table = GUIDE.split("| `kedge_tunnel_…` |").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let firsts = rows.map(|row| row.split('|').nth(1).unwrap());
    let names = firsts.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn what_both_roles_tell_over_tcp_is_what_the_guide_names() {
    let site = Site::new();
    let mut gateways = [site.gateway(0), site.gateway(1)];
    gateways[0].configure(&format!("{}{LISTEN}", site.gateway_configuration()));
    let extra = format!(
        "{LISTEN}tunnel: {{failover: {{prefixes: [10.9.0.0/24], gateways: [gw-a, gw-b]}}}}\n"
    );
    let agent = site.start(&mut gateways, &extra);
    until(&agent, "gw-a", "udp", secs(15));
    until(&agent, "gw-b", "udp", secs(15));
    eventually("a gateway is active", secs(10), || {
        tunnel(&agent, "gw-a")["gateway"]["active"] == true
    });
    // A change of the key has metrics of its own, and goes on for as long as nobody answers for it.
    let rotated = agent.kedge("tunnel rotate-key -o json");
    println!("{rotated:?}");
    eventually("the agent tells of two keys", secs(10), || {
        agent.kedge("tunnel list -o json").json()["keyChange"].is_object()
    });
    // A packet that is nobody's to send: the gateway drops it.
    let astray = site.edge.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
    let drops = "kedge_tunnel_drops_total{peer=\"site/edge\",reason=\"source_not_allowed\"}";
    eventually("a drop is counted", secs(5), || {
        astray.send_to(&[1], (GATEWAYS[0], 9)).unwrap();
        value(&scrape(&site.gateways[0]), drops) > Some(0.0)
    });
    let mut told = BTreeSet::new();
    eventually("each metric has a value", secs(10), || {
        told = &names(&scrape(&site.edge)) | &names(&scrape(&site.gateways[0]));
        told.is_superset(&documented())
    });
    assert_eq!(told, documented());

    let (edge, gateway) = (scrape(&site.edge), scrape(&site.gateways[0]));
    println!("{edge}\n{gateway}");
    for line in [
        "kedge_tunnel_up{peer=\"gw-a\"}",
        "kedge_tunnel_path_info{peer=\"gw-b\",path=\"udp\"}",
        "kedge_tunnel_gateway_active{peer=\"gw-a\"}",
        "kedge_tunnel_data_plane_info{mode=\"userspace\"}",
    ] {
        assert_eq!(value(&edge, line), Some(1.0), "{line}");
    }
    assert_eq!(
        value(&gateway, "kedge_tunnel_up{peer=\"site/edge\"}"),
        Some(1.0)
    );
    assert!(value(&edge, "kedge_tunnel_workers") >= Some(1.0));
    assert!(
        value(
            &gateway,
            "kedge_tunnel_bytes_total{peer=\"site/edge\",direction=\"in\"}"
        ) > Some(0.0)
    );
    // Nothing that tells one from the other but the name.
    for text in [&edge, &gateway] {
        assert!(
            !text.contains("203.0.113.") && !text.contains("51820"),
            "{text}"
        );
        assert!(!text.contains(&gateways[0].key().to_string()), "{text}");
    }
}

#[test]
fn nothing_but_metrics_is_told_there_and_the_address_follows_the_configuration() {
    let site = Site::new();
    let mut gateways = [site.gateway(0)];
    let agent = site.start(&mut gateways, LISTEN);
    scrape(&site.edge);
    for path in ["/v1/status", "/v1/tunnels", "/v1/config", "/"] {
        let (head, body) = get(&site.edge, AT, path).unwrap();
        assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
        assert_eq!(body, "", "{path}");
    }
    let elsewhere = "10.1.0.2:9446";
    agent.configure(&site.agent_configuration("metrics: {listen: '10.1.0.2:9446'}\n"));
    agent.reload();
    eventually("they are told elsewhere", secs(10), || {
        get(&site.edge, elsewhere, "/metrics").is_some_and(|(head, _)| head.contains(" 200 "))
    });
    eventually("and there no more", secs(5), || {
        get(&site.edge, AT, "/metrics").is_none()
    });
    // Somebody else has the address: the agent says so and goes on.
    let taken = site.edge.run(|| std::net::TcpListener::bind(AT).unwrap());
    agent.configure(&site.agent_configuration(LISTEN));
    agent.reload();
    eventually("it is said that the address is taken", secs(10), || {
        agent.log().contains("metrics cannot be told there")
    });
    drop(taken);
    assert!(agent.kedge("status").out.contains("Tunnel"));
    agent.configure(&site.agent_configuration(""));
    agent.reload();
    eventually("nowhere any more", secs(10), || {
        get(&site.edge, elsewhere, "/metrics").is_none()
            && get(&site.edge, AT, "/metrics").is_none()
    });
}

#[test]
fn a_gateway_under_load_tells_it_in_metrics_and_status_and_that_it_is_over() {
    let site = Site::new();
    let mut gateways = [site.gateway(0)];
    gateways[0].configure(&format!("{}{LISTEN}", site.gateway_configuration()));
    let mut agent = site.start(&mut gateways, "");
    let [gateway] = &gateways;
    until(&agent, "gw-a", "udp", secs(15));
    let host = &site.gateways[0];
    let of = |name: &str| value(&scrape(host), &format!("kedge_tunnel_{name}"));
    for name in ["under_load", "under_load_begun_total", "cookies_sent_total"] {
        assert_eq!(of(name), Some(0.0), "{name}");
    }
    assert!(!gateway.kedge("status").out.contains("UNDER LOAD"));
    let from = site.edge.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
    let to = SocketAddr::new(site.gateways[0].address().into(), 51_820);
    let flood = Flood::start(from, gateway.key(), to);
    eventually("it is under load", secs(15), || {
        of("under_load") == Some(1.0)
    });
    // The host comes back from another port of the address that the flood is from: it has to prove itself.
    agent.kill();
    agent.start();
    until(&agent, "gw-a", "udp", secs(20));
    assert!(of("cookies_sent_total") > Some(0.0));
    assert!(of("cookies_proven_total") > Some(0.0));
    for line in ["status", "tunnel list"] {
        let said = gateway.kedge(line).out;
        println!("{said}");
        assert!(
            said.contains("UNDER LOAD") && said.contains("cookies sent"),
            "{line}: {said}"
        );
    }
    let told = gateway.kedge("status -o json").json();
    assert_eq!(told["guard"]["underLoad"], true, "{told}");
    println!("{} initiations", flood.end());
    // Nobody calls any more, and it is known all the same.
    eventually("the load is over", secs(5), || {
        of("under_load") == Some(0.0)
    });
    assert_eq!(of("under_load_begun_total"), Some(1.0));
    assert!(!gateway.kedge("status").out.contains("UNDER LOAD"));
}
