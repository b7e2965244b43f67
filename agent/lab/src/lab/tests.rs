use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::*;
use crate::topology::{GATEWAY, HOSTS};

/// Namespaces need root. Says why and passes without it, unless CI requires the tier.
fn root() -> bool {
    if std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
    {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|tier| tier == "netns"),
        "namespaces need root"
    );
    eprintln!("skipped: namespaces need root");
    false
}

fn socket(lab: &Lab, node: &str, port: u16) -> UdpSocket {
    let bind = move || {
        let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        socket
    };
    lab.worker(node).unwrap().run(bind).unwrap()
}

/// Sends until it arrives, and says from where. What is still on its way from an earlier question is
/// passed over: on a busy machine that was asked more than once.
fn reaches(from: &UdpSocket, to: &UdpSocket, address: IpAddr, tries: u32) -> Option<SocketAddr> {
    static QUESTIONS: AtomicU64 = AtomicU64::new(0);
    let question = QUESTIONS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let target = SocketAddr::new(address, to.local_addr().unwrap().port());
    (0..tries).find_map(|_| {
        _ = from.send_to(&question, target);
        let mut heard = [0; 16];
        loop {
            let (length, from) = to.recv_from(&mut heard).ok()?;
            if heard[..length] == question {
                return Some(from);
            }
        }
    })
}

#[test]
fn the_edge_is_behind_nat_and_the_lab_leaves_nothing() {
    if !root() {
        return;
    }
    let begun = Instant::now();
    let (mut lab, _) = Lab::build(Topology::edge(), "/bin/false".into()).unwrap();
    eprintln!("built in {:?}", begun.elapsed());
    let [host, gateway, client] = ["edge-a", "gateway", "client"].map(|n| socket(&lab, n, 7000));
    let host_address = crate::topology::host_address(HOSTS[0]).unwrap();

    // From a host outwards, through NAT; and back only on that path.
    let seen = reaches(&host, &gateway, GATEWAY.into(), 10).expect("the gateway hears the host");
    assert_eq!(
        seen.ip(),
        "198.51.100.1".parse::<IpAddr>().unwrap(),
        "not translated"
    );
    // As a slow answer would leave it behind: nobody takes it for the client's word below.
    host.send_to(b"late", (GATEWAY, 7000)).unwrap();
    gateway.send_to(b"back", seen).unwrap();
    assert!(
        host.recv_from(&mut [0; 16]).is_ok(),
        "the answer comes back"
    );
    assert_eq!(
        reaches(&gateway, &host, host_address.into(), 3),
        None,
        "no way in"
    );

    // The client is on the LAN with one leg and on the WAN with the other.
    let seen = reaches(&client, &host, host_address.into(), 10).unwrap();
    assert_eq!(seen.ip(), "10.20.14.50".parse::<IpAddr>().unwrap());
    let seen = reaches(&client, &gateway, GATEWAY.into(), 10).unwrap();
    assert_eq!(seen.ip(), "198.51.100.50".parse::<IpAddr>().unwrap());

    lab.cut(HOSTS[0]).unwrap();
    assert_eq!(reaches(&client, &host, host_address.into(), 2), None, "cut");
    lab.heal(HOSTS[0]).unwrap();
    assert!(
        reaches(&client, &host, host_address.into(), 20).is_some(),
        "healed"
    );

    let mut sleep = Command::new("sleep");
    sleep.arg("600");
    lab.start("edge-b", "sleep", sleep).unwrap();
    assert_eq!(lab.fallen(), None);
    lab.kill_host("edge-b").unwrap();
    assert!(lab.process("edge-b", "sleep").is_err());

    let mut fails = Command::new("sh");
    fails.args(["-c", "echo 'no\u{1b}[31m luck' >&2; exit 3"]);
    lab.start("edge-c", "agent", fails).unwrap();
    lab.process("edge-c", "agent")
        .unwrap()
        .wait(Duration::from_secs(5))
        .unwrap();
    let fallen = lab.fallen().unwrap();
    assert!(
        fallen.contains("agent on edge-c") && fallen.contains("no\\u{1b}[31m luck"),
        "{fallen}"
    );

    let begun = Instant::now();
    assert_eq!(lab.take_down(), Vec::<String>::new());
    eprintln!("down in {:?}", begun.elapsed());
}

#[test]
fn a_node_that_does_not_exist_is_named() {
    if !root() {
        return;
    }
    let (mut lab, _) = Lab::build(Topology::lan(), "/bin/false".into()).unwrap();
    assert_eq!(
        lab.cut("edge-z").unwrap_err().to_string(),
        "there is no node edge-z"
    );
    let missing = lab
        .start("client", "x", Command::new("no-such-program"))
        .unwrap_err();
    let problem = kedge_core::Coded::problem(&missing);
    assert_eq!(
        problem.code,
        kedge_core::Code::LabToolMissing,
        "{problem:?}"
    );
}
