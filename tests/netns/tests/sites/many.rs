//! Many certificates on one port.

use std::{fs, time::Instant};

use kedge_control::site::{Certificate, Site};
use kedge_gateway_xds::render;
use kedge_tests_netns::{eventually, secs};

use super::{
    browser, lab,
    offered::{HTTPS, offer, route, secure, site},
};

#[test]
fn one_of_many_certificates_comes_and_nobody_elses_connection_goes() {
    let Some(lab) = lab() else { return };
    let many = if std::env::var_os("KEDGE_TEST_LONG").is_some() {
        1_000
    } else {
        100
    };
    let named = |number: usize| -> Site {
        let tenant = ["one", "two"][number % 2];
        let name = format!("s{number}.example");
        let routes = vec![route("/", &[("a", 1)]), route("/b", &[("b", 1)])];
        secure(site(&lab, tenant, &[&name], routes))
    };
    let sites: Vec<Site> = (0..=many).map(named).collect();
    let (first, last) = (sites[0].clone(), sites[many].clone());
    let mut offered = offer(&lab, sites[..many].to_vec());
    let start = Instant::now();
    let rendered = render(&offered, &lab.alive());
    println!("{many} sites are rendered in {:?}", start.elapsed());
    assert_eq!(rendered.refused, []);
    let bytes: usize = rendered
        .resources
        .iter()
        .map(|one| one.revision.length)
        .sum();
    println!("they are {bytes} bytes");
    lab.server.wanted.declare([]);
    let envoy = lab.envoy();
    let before = memory(envoy.id());
    lab.server.wanted.declare(rendered.resources);
    let certificates: Vec<Certificate> = [&first, &last]
        .iter()
        .flat_map(|site| site.certificates.clone())
        .collect();
    let browser = browser(&lab, &certificates);
    let is_served = |host: &str| {
        let answer = browser.tls(HTTPS, host, host, "GET /");
        answer.is_some_and(|answer| answer.status == 200)
    };
    eventually("the first is served", secs(60), || is_served("s0.example"));
    eventually("everything is settled", secs(60), || {
        lab.server.wanted.pending().is_empty()
    });
    let kilobytes = memory(envoy.id()) - before;
    println!("Envoy took {} kB for each", kilobytes / many);
    let mut open = browser.secure_socket(HTTPS, "s0.example", "/ws").unwrap();
    assert!(open.lives());
    offered.sites.push(last);
    lab.declare(&offered, &lab.alive());
    let host = format!("s{many}.example");
    eventually("one more is served", secs(30), || is_served(&host));
    assert!(open.lives(), "another's certificate closed a connection");
    offered.sites.pop();
    lab.declare(&offered, &lab.alive());
    eventually("it is gone", secs(30), || !is_served(&host));
    assert!(open.lives());
    assert!(is_served("s0.example"));
}

/// What a process has in memory, kB.
fn memory(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
