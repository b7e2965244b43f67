//! `wg-quick` with `kedge-wg` in place of wireguard-go.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;
use crate::wg;

use std::fs;

use tunnel::*;
use wg::{LIMIT, Maker, Wg};

/// An address that only the gateway has, and no route leads to.
const FAR: &str = "203.0.113.5";

fn gateway(site: &Site) -> Wg<'_> {
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
        key(2).to_base64().as_str(),
        key(1).public(),
    );
    let addresses = [GATEWAY, GATEWAY_V4].map(|address| match address.contains(':') {
        true => format!("{address}/64"),
        false => format!("{address}/16"),
    });
    let far = format!("{FAR}/32");
    Wg::make(&site.gateway, Maker::Kedge).up(&configuration, &[&addresses[0], &addresses[1], &far])
}

fn configuration(allowed: &str) -> String {
    format!(
        "[Interface]\nPrivateKey = {}\nAddress = {HOST}/128, {HOST_V4}/32\nMTU = 1400\n\
         \n[Peer]\nPublicKey = {}\nAllowedIPs = {allowed}\nEndpoint = {GATEWAY_WAN}:{PORT}\n",
        key(1).to_base64().as_str(),
        key(2).public(),
    )
}

#[test]
fn wg_quick_brings_a_tunnel_up_saves_it_and_takes_it_down() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let _gateway = gateway(&site);
    let _echo = site.echo();
    let ours = Wg::named(&site.host);
    let narrow = configuration(&format!("{GATEWAY}/128, {GATEWAY_V4}/32"));
    let file = ours.file(&format!("{}.conf", ours.name), &narrow);
    let path = file.to_str().unwrap();
    ours.run("wg-quick", &["up", path]);
    let probe = socket(&site.host, HOST_V4);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY_V4));
    let link = ours.run("ip", &["link", "show", &ours.name]);
    assert!(link.contains("mtu 1400"), "{link}");
    // What is stripped is what `wg` takes.
    let stripped = ours.run("wg-quick", &["strip", path]);
    assert!(!stripped.contains("Address") && stripped.contains("AllowedIPs"));
    ours.configure("syncconf", &stripped);
    assert!(answered(&probe, GATEWAY_V4));
    // What is saved has what changed since.
    ours.set(&format!("peer {} persistent-keepalive 17", key(2).public()));
    ours.run("wg-quick", &["save", path]);
    let saved = fs::read_to_string(&file).unwrap();
    assert!(saved.contains("PersistentKeepalive = 17"), "{saved}");
    assert!(
        saved.contains(&format!("Endpoint = {GATEWAY_WAN}:{PORT}")),
        "{saved}"
    );
    ours.run("wg-quick", &["down", path]);
    eventually("nothing is left", LIMIT, || {
        !ours.exists() && !ours.socket().exists()
    });
    ours.run("wg-quick", &["up", path]);
    eventually("and up again", LIMIT, || answered(&probe, GATEWAY_V4));
    ours.run("wg-quick", &["down", path]);
}

#[test]
fn wg_quick_leads_everything_into_the_tunnel_but_the_tunnel() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let gateway = gateway(&site);
    let _echo = UdpEcho::start(&site.gateway, &[FAR]);
    let ours = Wg::named(&site.host);
    let all = configuration("0.0.0.0/0, ::/0");
    let file = ours.file(&format!("{}.conf", ours.name), &all);
    let path = file.to_str().unwrap();
    ours.run("wg-quick", &["up", path]);
    let probe = socket(&site.host, HOST_V4);
    eventually("far away, through the tunnel", LIMIT, || {
        answered(&probe, FAR)
    });
    assert_ne!(ours.show("fwmark").trim_end(), "off");
    let rules = ours.run("ip", &["-4", "rule", "show"]);
    assert!(rules.contains("not from all fwmark"), "{rules}");
    // Its own datagrams go by the mark alone.
    let seen = gateway.of_peer("endpoints", &key(1)).unwrap();
    assert!(seen.starts_with("198.51.100.1:"), "{seen}");
    // A port that is opened anew has the mark as well.
    ours.set("listen-port 4444");
    eventually("over another port", LIMIT, || answered(&probe, FAR));
    ours.run("wg-quick", &["down", path]);
    eventually("nothing is left", LIMIT, || !ours.exists());
    let rules = ours.run("ip", &["-4", "rule", "show"]);
    assert!(!rules.contains("fwmark"), "{rules}");
}
