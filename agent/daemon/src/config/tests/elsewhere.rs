//! Everything but VIPs.

use super::*;

#[test]
fn every_mistake_elsewhere_is_located_and_coded() {
    let peer = |rest: &str| format!("tunnel: {{peers: {{gw: {{public_key: {KEY}, {rest}}}}}}}");
    for (yaml, code, words) in [
        (
            "version: 2".to_owned(),
            Code::ConfigOutOfRange,
            "version must be 1, not 2",
        ),
        (
            "manager: {url: 'https://'}".to_owned(),
            Code::ConfigOutOfRange,
            "not a manager's address",
        ),
        (
            "manager: {url: 'https://u:p@h/'}".to_owned(),
            Code::ConfigOutOfRange,
            "not a manager's address",
        ),
        (
            "manager: {token_file: /x}".to_owned(),
            Code::ConfigRule,
            "manager.url",
        ),
        (
            "manager: {url: 'https://h', name: 'A'}".to_owned(),
            Code::ConfigOutOfRange,
            "not a name",
        ),
        (
            "manager: {url: 'https://h', host_ref: {kind: K, name: n}}".to_owned(),
            Code::ConfigRule,
            "manager.host_ref.api_group",
        ),
        (
            "tunnel: {listen_port: 65536}".to_owned(),
            Code::ConfigOutOfRange,
            "65536",
        ),
        (
            "tunnel: {mtu: 1279}".to_owned(),
            Code::ConfigOutOfRange,
            "1280 to 9000, not 1279",
        ),
        (
            "tunnel: {mtu: 9001}".to_owned(),
            Code::ConfigOutOfRange,
            "1280 to 9000, not 9001",
        ),
        (
            "tunnel: {data_plane: fast}".to_owned(),
            Code::ConfigOutOfRange,
            "fast",
        ),
        (
            "tunnel: {data_plane: kernel, noise_core: own}".to_owned(),
            Code::ConfigRule,
            "its own handshakes",
        ),
        (
            "tunnel: {data_plane: kernel, offload_send: off}".to_owned(),
            Code::ConfigRule,
            "never leave the kernel",
        ),
        (
            "tunnel: {interface: 'a/b'}".to_owned(),
            Code::ConfigOutOfRange,
            "interface name",
        ),
        (
            "tunnel: {allowed: ['0.0.0.0/0']}".to_owned(),
            Code::ConfigRule,
            "every packet",
        ),
        (
            "tunnel: {addresses: ['127.0.0.1/8']}".to_owned(),
            Code::ConfigOutOfRange,
            "a device",
        ),
        (
            "tunnel: {peers: {gw: {}}}".to_owned(),
            Code::ConfigRule,
            "gw.allowed_ips",
        ),
        (
            "tunnel: {peers: {gw: {allowed_ips: ['10.9.0.1/32'], public_key: abc}}}".to_owned(),
            Code::ConfigOutOfRange,
            "WireGuard key",
        ),
        (peer("allowed_ips: []"), Code::ConfigRule, "gets no packet"),
        (
            peer("allowed_ips: ['10.9.0.1/33']"),
            Code::ConfigOutOfRange,
            "10.9.0.1/33",
        ),
        (
            peer("allowed_ips: ['10.9.0.1/32'], endpoint: 'gw'"),
            Code::ConfigOutOfRange,
            "is not host:port",
        ),
        (
            peer("allowed_ips: ['10.9.0.1/32'], endpoint: 'gw:0'"),
            Code::ConfigOutOfRange,
            "is not host:port",
        ),
        (
            peer("allowed_ips: ['10.9.0.1/32'], keepalive: 1.5s"),
            Code::ConfigOutOfRange,
            "whole seconds",
        ),
        (
            format!(
                "tunnel: {{peers: {{a: {{public_key: {KEY}, allowed_ips: ['10.9.0.1/32']}}, \
                 b: {{public_key: {KEY}, allowed_ips: ['10.9.0.2/32']}}}}}}"
            ),
            Code::ConfigRule,
            "same public key",
        ),
        (
            "report: {primary: nowhere}".to_owned(),
            Code::ConfigOutOfRange,
            "nowhere",
        ),
        (
            "peer_link: {port: 7112}".to_owned(),
            Code::ConfigRule,
            "need a key_file",
        ),
        (
            "peer_link: {key_file: /k, port: 0}".to_owned(),
            Code::ConfigOutOfRange,
            "nonzero",
        ),
        ("node: {nmae: x}".to_owned(), Code::ConfigUnknownKey, "nmae"),
        (
            "vips: {'Api': {}}".to_owned(),
            Code::ConfigOutOfRange,
            "not a name",
        ),
    ] {
        let problems = load(&yaml).unwrap_err();
        let text = told(&problems[0]);
        assert!(text.contains(words), "{yaml}: {text}");
        assert_eq!(problems[0].code, code, "{yaml}: {text}");
        assert!(
            text.contains("agent.yaml:1") || !problems[0].object.is_empty(),
            "{text}"
        );
    }
}
