//! Thousands of damaged configuration files of every role: each is read within its bounds, and
//! what is refused is refused with a code and a place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use kedge_cli::files;
use kedge_core::Area;
use kedge_host::{
    Role,
    layers::{ConfigError, Override, Sources},
};

const AGENT: &str = "\
version: 1
vips:
  api:
    addresses: [10.20.14.10, 10.20.14.9]
    vrid: 51
    priority: 200
    members: kedge
    advert_interval: 100ms
    health: {url: 'https://127.0.0.1:9345/ping', interval: 1s, timeout: 2s, rise: 1, fall: 5}
    interface: eth0
    preempt: true
    checksum: message
  web: {addresses: [10.20.14.20], members: mixed, priority: 100, unhealthy_priority: 50, health: none}
manager:
  url: https://203.0.113.9:9443
  token_file: /etc/kedge/token
  name: edge-a
  host_ref: {api_group: elemental.cattle.io, kind: ElementalHost, name: edge-a}
tunnel:
  listen_port: 51820
  interface: kedge1
  mtu: 1400
  addresses: ['10.9.0.2/32']
  allowed: ['10.9.0.0/16']
  peers:
    gw: {public_key: tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=, endpoint: 'gw:51820', allowed_ips: ['10.9.0.1/32'], keepalive: 25s}
node: {name: other}
report: {primary: 10.20.14.11, exclude: [10.0.0.0/16], exclude_interfaces: [docker0]}
";
const GATEWAY: &str = "\
version: 1
name: gw-0
manager: {url: 'https://203.0.113.9:9443', token_file: /etc/kedge/token}
tunnel: {listen_port: 51820, interface: kedge0, mtu: 1420}
";
const MANAGER: &str = "\
version: 1
dir: /var/lib/kedge/objects
listen: 127.0.0.1:9443
trust_domain: kedge.local
";
const FILES: [(Role, &str); 3] = [
    (Role::Agent, AGENT),
    (Role::Gateway, GATEWAY),
    (Role::Manager, MANAGER),
];

/// What a damaged or a hostile file may have in it.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\t",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "#",
    "&a ",
    "*a",
    "!!str ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 9\n",
    "<<: ",
    "? ",
    "~",
    "null",
    "true",
    "-1",
    "0",
    "256",
    "65536",
    "1e999",
    ".nan",
    "0x7fffffffffffffffff",
    "99999999999999999999999999",
    "1.5",
    "\u{0}",
    "\u{7f}",
    "\u{feff}",
    "\u{202e}",
    "\u{1f980}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "a: {a: {a: {a: ",
    "fe80::1%eth0",
    "0.0.0.0/0",
    "999999999999h",
    "-5ms",
    "../../x",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

/// One to four wounds: bytes replaced, pieces put in, ranges cut out or repeated.
fn wounded(good: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = good.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let until = (at + random.below(24)).min(bytes.len());
        match random.below(6) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 => drop(bytes.drain(at..until)),
            2 => {
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at.max(1)),
            4 => {
                // The rest of a value.
                let end = bytes[at..].iter().position(|b| b"\n,]}".contains(b));
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at + end.unwrap_or(0), piece.bytes());
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

fn well_told(error: &ConfigError, place: &str, shown: &str) {
    assert!(!error.problems().is_empty(), "{shown}");
    for problem in error.problems() {
        assert_eq!(problem.code.area(), Area::CFG, "{problem:?}\n{shown}");
        let text = format!("{} {}", problem.what, problem.evidence.join(" "));
        assert!(text.contains(place), "no place: {problem:?}\n{shown}");
        assert!(!problem.consequence.is_empty(), "{problem:?}\n{shown}");
        assert!(
            problem.what.len() < 1_000,
            "{} characters\n{shown}",
            problem.what.len()
        );
    }
}

#[test]
fn ten_thousand_damaged_files_are_read_or_refused_with_code_and_place() {
    // On memory where there is some: what is tested is no disk.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    for (role, good) in FILES {
        let path = dir.path().join(format!("{role}.yaml"));
        let place = path.display().to_string();
        let sources = Sources::file(&path);
        fs::write(&path, good).unwrap();
        files::load(role, &sources).unwrap();
        let mut random = Random(7);
        let (mut held, mut refused, mut slowest) = (0, 0, Duration::ZERO);
        for _ in 0..10_000 {
            let bytes = wounded(good, &mut random);
            let shown = String::from_utf8_lossy(&bytes);
            fs::write(&path, &bytes).unwrap();
            let start = Instant::now();
            match files::load(role, &sources) {
                Ok(_) => held += 1,
                Err(error) => {
                    refused += 1;
                    well_told(&error, &place, &shown);
                }
            }
            slowest = slowest.max(start.elapsed());
        }
        assert!(held > 100 && refused > 1_000, "{role}: {held} {refused}");
        assert!(slowest < Duration::from_secs(5), "{role}: {slowest:?}");
    }
}

#[test]
fn values_of_flags_and_variables_are_refused_by_their_name() {
    let keys = [
        (Role::Agent, "vips.api.vrid"),
        (Role::Agent, "vips.api.addresses"),
        (Role::Agent, "vips.api.health"),
        (Role::Agent, "vips"),
        (Role::Agent, "tunnel.peers.gw.allowed_ips"),
        (Role::Gateway, "tunnel.listen_port"),
        (Role::Gateway, "manager.url"),
        (Role::Manager, "listen"),
        (Role::Manager, "trust_domain"),
        (Role::Manager, "no.such.key"),
        (Role::Manager, "..."),
    ];
    let mut refused = 0;
    for (role, key) in keys {
        for piece in PIECES {
            let value = piece.replace('\u{0}', "\u{1}");
            let mut sources = Sources::file(Path::new("/nonexistent/nothing.yaml"));
            let flag = Override::set(&format!("{key}={value}")).unwrap();
            sources.overrides.push(flag);
            if let Err(error) = files::load(role, &sources) {
                well_told(&error, "flag --set", &format!("{key}={value}"));
                refused += 1;
            }
            let name = format!("KEDGE_SET_{}", key.replace('.', "__").to_uppercase());
            let mut sources = Sources::file(Path::new("/nonexistent/nothing.yaml"));
            sources.environment.push((name.clone(), value.clone()));
            if let Err(error) = files::load(role, &sources) {
                well_told(&error, &name, &format!("{name}={value}"));
            }
        }
    }
    assert!(refused > keys.len() * PIECES.len() / 2, "{refused}");
}
