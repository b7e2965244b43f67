//! The mistakes people make: every one is found at its line and column, and where there is
//! something to mean, it is named.

use super::{sample::SampleFile, *};

/// A file, the place of its mistake as `line:column`, and what must stand in the fix or in what
/// happened.
struct Typo {
    text: &'static str,
    at: &'static str,
    told: &'static str,
}

const fn typo(text: &'static str, at: &'static str, told: &'static str) -> Typo {
    Typo { text, at, told }
}

#[rustfmt::skip]
const TYPOS: &[Typo] = &[
    // Keys at the top.
    typo("vip: {}\n", "1:1", "did you mean `vips`?"),
    typo("Vips: {}\n", "1:1", "did you mean `vips`?"),
    typo("vipss: {}\n", "1:1", "did you mean `vips`?"),
    typo("version: 1\nvpis: {}\n", "2:1", "did you mean `vips`?"),
    typo("verison: 1\n", "1:1", "did you mean `version`?"),
    typo("host_name: a\n", "1:1", "did you mean `hostname`?"),
    typo("hostName: a\n", "1:1", "did you mean `hostname`?"),
    typo("host: a\n", "1:1", "did you mean `hostname`?"),
    typo("tunel: {}\n", "1:1", "did you mean `tunnel`?"),
    typo("tunnels: {}\n", "1:1", "did you mean `tunnel`?"),
    typo("managr: {}\n", "1:1", "did you mean `manager`?"),
    typo("manger: {}\n", "1:1", "did you mean `manager`?"),
    typo("xyzzy: {}\n", "1:1", "keys allowed here: version, hostname, vips"),
    // Keys of a VIP.
    typo("vips:\n  api:\n    adresses: []\n", "3:5", "did you mean `addresses`?"),
    typo("vips:\n  api:\n    address: []\n", "3:5", "did you mean `addresses`?"),
    typo("vips:\n  api:\n    addreses: []\n", "3:5", "did you mean `addresses`?"),
    typo("vips:\n  api:\n    vird: 51\n", "3:5", "did you mean `vrid`?"),
    typo("vips:\n  api:\n    VRID: 51\n", "3:5", "did you mean `vrid`?"),
    typo("vips:\n  api:\n    vr_id: 51\n", "3:5", "did you mean `vrid`?"),
    typo("vips:\n  api:\n    prio: 200\n", "3:5", "did you mean `priority`?"),
    typo("vips:\n  api:\n    priorty: 200\n", "3:5", "did you mean `priority`?"),
    typo("vips:\n  api:\n    interval: 1s\n", "3:5", "did you mean `advert_interval`?"),
    typo("vips:\n  api:\n    advertInterval: 1s\n", "3:5", "did you mean `advert_interval`?"),
    typo("vips:\n  api:\n    advert-interval: 1s\n", "3:5", "did you mean `advert_interval`?"),
    typo("vips:\n  api:\n    advert_intervall: 1s\n", "3:5", "did you mean `advert_interval`?"),
    typo("vips:\n  api:\n    memebers: kedge\n", "3:5", "did you mean `members`?"),
    typo("vips:\n  api:\n    preemt: true\n", "3:5", "did you mean `preempt`?"),
    typo("vips:\n  api:\n    nterface: eth0\n", "3:5", "did you mean `interface`?"),
    typo("vips: {api: {vrid: 51, prioity: 3}}\n", "1:24", "did you mean `priority`?"),
    // Keys deeper down.
    typo("manager: {uri: x}\n", "1:11", "did you mean `url`?"),
    typo("manager:\n  token-file: x\n", "2:3", "did you mean `token_file`?"),
    typo("manager:\n  tokenFile: x\n", "2:3", "did you mean `token_file`?"),
    typo("manager:\n  token: x\n", "2:3", "did you mean `token_file`?"),
    typo("tunnel:\n  port: 1\n", "2:3", "did you mean `listen_port`?"),
    typo("tunnel:\n  listenport: 1\n", "2:3", "did you mean `listen_port`?"),
    typo("tunnel:\n  MTU: 1\n", "2:3", "did you mean `mtu`?"),
    typo("tunnel:\n  peer: {}\n", "2:3", "did you mean `peers`?"),
    typo("tunnel:\n  peers:\n    gw-0:\n      publickey: x\n", "4:7", "did you mean `public_key`?"),
    typo("tunnel:\n  peers:\n    gw-0:\n      end_point: x\n", "4:7", "did you mean `endpoint`?"),
    typo("tunnel:\n  peers:\n    gw-0:\n      endpiont: x\n", "4:7", "did you mean `endpoint`?"),
    // Values out of a list.
    typo("vips: {api: {members: keedge}}\n", "1:23", "did you mean `kedge`?"),
    typo("vips: {api: {members: Mixed}}\n", "1:23", "did you mean `mixed`?"),
    typo("vips: {api: {members: everyone}}\n", "1:23", "values allowed here: kedge, mixed"),
    // Values out of range or of another type.
    typo("vips:\n  api:\n    vrid: 0\n", "3:11", "vrid must be 1 to 255, not 0"),
    typo("vips:\n  api:\n    vrid: 256\n", "3:11", "vrid must be 1 to 255, not 256"),
    typo("vips:\n  api:\n    vrid: -1\n", "3:11", "vrid must be 1 to 255, not -1"),
    typo("vips:\n  api:\n    vrid: atuo\n", "3:11", "`auto`"),
    typo("vips:\n  api:\n    vrid: [51]\n", "3:5", "whole number"),
    typo("vips:\n  api:\n    priority: 300\n", "3:15", "priority must be 1 to 255, not 300"),
    typo("vips:\n  api:\n    priority: high\n", "3:15", "`auto`"),
    typo("vips:\n  api:\n    advert_interval: 100\n", "3:22", "not a duration"),
    typo("vips:\n  api:\n    advert_interval: 1 s\n", "3:22", "not a duration"),
    typo("vips:\n  api:\n    advert_interval: fast\n", "3:22", "not a duration"),
    typo("vips:\n  api:\n    addresses: [10.20.14.256]\n", "3:17", "IP address"),
    typo("vips:\n  api:\n    addresses: [10.20.14.10/24]\n", "3:17", "IP address"),
    typo("vips:\n  api:\n    addresses: 10.20.14.10\n", "3:16", "list"),
    typo("vips:\n  api:\n    preempt: maybe\n", "3:14", "`true` or `false`"),
    typo("vips:\n  Api: {}\n", "2:3", "is not a name"),
    typo("vips:\n  api.v4: {}\n", "2:3", "is not a name"),
    typo("vips:\n  - api\n", "2:3", "a map of names"),
    typo("tunnel: {listen_port: 65536}\n", "1:23", "0 to 65535"),
    typo("tunnel: {listen_port: -1}\n", "1:23", "0 to 65535"),
    typo("tunnel: {mtu: much}\n", "1:15", "0 to 65535"),
    typo("tunnel: {mtu: 1420.5}\n", "1:15", "0 to 65535"),
    typo("tunnel: 51820\n", "1:9", "a map of names"),
    // YAML itself.
    typo("vips:\n  api: {vrid: 51\nversion: 1\n", "2:15", "51 version"),
    typo("vips:\n\tapi: {}\n", "2:2", "tabs"),
    typo("version: 1\n version: 2\n", "1:10", "not a whole number"),
    typo("version: 1\nversion: 2\n", "2:1", "version"),
    typo("vips:\n  api: {}\n  api: {}\n", "3:3", "api"),
    typo("hostname: \"edge\n", "2:1", "quoted"),
    typo("hostname: [a, b\n", "1:11", "a text"),
    typo("vips:\n  api:\n    vrid: 51\n   priority: 3\n", "4:4", ""),
    typo("- version: 1\n", "1:1", ""),
    typo("just words\n", "1:1", ""),
    typo("hostname: *unknown\n", "1:11", ""),
    typo("hostname: &a x\n", "1:14", "no anchors"),
    typo("version: 1\n---\nversion: 2\n", "3:1", "single YAML document"),
];

#[test]
fn every_mistake_is_found_at_its_line_and_column_and_told() {
    const { assert!(TYPOS.len() >= 60) };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml");
    let mut wrong = Vec::new();
    for typo in TYPOS {
        fs::write(&path, typo.text).unwrap();
        let problems = load_from::<SampleFile>(&Sources::file(&path))
            .map(|_| Vec::new())
            .unwrap_or_else(ConfigError::into_problems);
        let [problem] = problems.as_slice() else {
            wrong.push(format!("{:?}: {} problems", typo.text, problems.len()));
            continue;
        };
        let place = format!("{}:{}: ", path.display(), typo.at);
        let fix = problem.fix.as_ref().unwrap();
        let at = problem.what.strip_prefix(&path.display().to_string());
        let told = problem.what.contains(typo.told) || fix.text.contains(typo.told);
        let underlined = problem
            .evidence
            .first()
            .is_some_and(|evidence| evidence.contains('^'));
        if !problem.what.starts_with(&place) || !told || !underlined {
            wrong.push(format!(
                "{:?}: expected {} {:?}, got {at:?}; fix {:?}\n{}",
                typo.text,
                typo.at,
                typo.told,
                fix.text,
                problem.evidence.join("\n")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
