//! What the rules of our kinds accept and refuse.

use super::Case;

const fn fine(kind: &'static str, new: &'static str) -> Case {
    Case {
        kind,
        old: None,
        new,
        refused: None,
    }
}

const fn bad(kind: &'static str, new: &'static str, message: &'static str) -> Case {
    Case {
        kind,
        old: None,
        new,
        refused: Some(message),
    }
}

const fn change(kind: &'static str, old: &'static str, new: &'static str) -> Case {
    Case {
        kind,
        old: Some(old),
        new,
        refused: None,
    }
}

const fn bad_change(
    kind: &'static str,
    old: &'static str,
    new: &'static str,
    message: &'static str,
) -> Case {
    Case {
        kind,
        old: Some(old),
        new,
        refused: Some(message),
    }
}

const LB: &str = "LoadBalancer";
const TCP: &str = "TCPLoadBalancer";
const HTTP: &str = "HTTPLoadBalancer";
const POOL: &str = "VIPPool";
const HOST: &str = "EdgeHost";
const GATEWAY: &str = "EdgeGateway";
const TENANT: &str = "Tenant";
const SET: &str = r#"{"spec": {"endpoint": {"host": "10.0.0.9", "port": 6443}}}"#;

/// What is accepted and refused. Each rule stands here with a document it refuses, and each with
/// one beside it that it does not.
pub const CASES: &[Case] = &[
    // Who a load balancer is for, and where it is reached.
    bad(LB, r#"{"spec": {"clusterName": null}}"#, "equired"),
    bad_change(
        LB,
        "{}",
        r#"{"spec": {"clusterName": "b"}}"#,
        "clusterName is immutable",
    ),
    change(LB, "{}", SET),
    change(
        LB,
        r#"{"spec": {"endpoint": {"host": "", "port": 6443}}}"#,
        SET,
    ),
    change(
        LB,
        r#"{"spec": {"endpoint": {"host": "a", "port": 0}}}"#,
        SET,
    ),
    bad_change(LB, SET, "{}", "endpoint is immutable once it is set"),
    bad_change(
        LB,
        SET,
        r#"{"spec": {"endpoint": {"host": "10.0.0.8", "port": 6443}}}"#,
        "endpoint is immutable once it is set",
    ),
    change(
        LB,
        SET,
        r#"{"spec": {"endpointPolicy": "FollowTarget", "endpoint": {"host": "10.0.0.8", "port": 6443}}}"#,
    ),
    change(LB, "{}", r#"{"spec": {"mode": "HostAddress"}}"#),
    bad_change(
        LB,
        SET,
        r#"{"spec": {"mode": "HostAddress", "endpoint": {"host": "10.0.0.9", "port": 6443}}}"#,
        "mode is immutable once an endpoint is set",
    ),
    change(
        LB,
        r#"{"status": {"conditions": [{"type": "Exists", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
        r#"{"spec": {"mode": "HostAddress"}}"#,
    ),
    bad_change(
        LB,
        r#"{"status": {"conditions": [{"type": "Exists", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
        r#"{"spec": {"mode": "HostAddress"}}"#,
        "mode is immutable once the load balancer exists",
    ),
    // Its VIP: a wish for one of two, then what was chosen for it.
    bad(
        LB,
        r#"{"spec": {"vip": {"address": "10.0.0.9"}}}"#,
        "set vip.poolRef or vip.address",
    ),
    bad(
        LB,
        r#"{"spec": {"vip": {"second": {}}}}"#,
        "second needs poolRef or address",
    ),
    fine(
        LB,
        r#"{"spec": {"vip": {"second": {"poolRef": {"name": "lan-6"}}}}}"#,
    ),
    fine(
        LB,
        r#"{"spec": {"vip": {"poolRef": null, "address": "10.0.0.9"}}}"#,
    ),
    change(
        LB,
        "{}",
        r#"{"spec": {"vip": {"address": "10.0.0.9", "vrid": 7}}}"#,
    ),
    bad(
        LB,
        r#"{"spec": {"vip": {"poolRef": null, "address": "10.0.0.256"}}}"#,
        "must be an IP address",
    ),
    bad(
        LB,
        r#"{"spec": {"vip": {"check": {"url": "https://localhost/"}}}}"#,
        "set health or check",
    ),
    fine(
        LB,
        r#"{"spec": {"vip": {"health": null, "check": {"url": "https://localhost/", "interval": "500ms"}}}}"#,
    ),
    bad(
        LB,
        r#"{"spec": {"vip": {"health": null, "check": {"url": "file:///etc"}}}}"#,
        "url must begin with http",
    ),
    bad(LB, r#"{"spec": {"vip": {"vrid": 256}}}"#, "255"),
    bad(
        LB,
        r#"{"spec": {"vip": {"advertIntervalSeconds": 0.105}}}"#,
        "multiple of",
    ),
    // Its gateway and its ports.
    bad(
        LB,
        r#"{"spec": {"mode": "Tunnel", "managementAccess": null, "gatewayRef": null}}"#,
        "gatewayRef is required",
    ),
    bad(
        LB,
        r#"{"spec": {"gatewayRef": null}}"#,
        "gatewayRef is required",
    ),
    bad(
        LB,
        r#"{"spec": {"shortcut": "LAN"}}"#,
        "shortcut is for mode Tunnel",
    ),
    fine(LB, r#"{"spec": {"mode": "Tunnel", "shortcut": "LAN"}}"#),
    fine(LB, r#"{"spec": {"shortcut": "None"}}"#),
    fine(
        LB,
        r#"{"spec": {"gatewayRef": null, "managementAccess": "Endpoint"}}"#,
    ),
    bad(
        LB,
        r#"{"spec": {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}}"#,
        "ports must be unique by name",
    ),
    bad(
        LB,
        r#"{"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}}"#,
        "ports must be unique by port",
    ),
    bad(
        LB,
        r#"{"spec": {"ports": [{"name": "a", "port": 0}]}}"#,
        "1",
    ),
    bad(
        LB,
        r#"{"spec": {"drain": {"timeout": "60"}}}"#,
        "must be a number with a unit",
    ),
    bad(
        LB,
        r#"{"spec": {"drain": {"timeout": "25h"}}}"#,
        "timeout is at most 24h",
    ),
    bad(
        LB,
        r#"{"spec": {"drain": {"timeout": "1d"}}}"#,
        "timeout is at most 24h",
    ),
    fine(LB, r#"{"spec": {"drain": {"timeout": "24h"}}}"#),
    bad(
        TENANT,
        r#"{"spec": {"drain": {"timeout": "24.5h"}}}"#,
        "timeout is at most 24h",
    ),
    bad(LB, r#"{"spec": {"mode": "Magic"}}"#, "VIP"),
    // Traffic of tenants.
    bad(
        TCP,
        r#"{"spec": {"ports": [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "TCP"}]}}"#,
        "ports must be unique by number and protocol",
    ),
    bad(
        TCP,
        r#"{"spec": {"ports": [{"name": "a"}]}}"#,
        "port is required",
    ),
    // Its user took it away, and the manager's field is still there.
    change(
        TCP,
        "{}",
        r#"{"spec": {"ports": [{"name": "a", "listenerPort": 30002}]}}"#,
    ),
    bad(
        TCP,
        r#"{"spec": {"endpoints": [{"hostSelector": {}, "addresses": ["10.0.0.1"]}]}}"#,
        "set hostSelector or addresses",
    ),
    bad(
        TCP,
        r#"{"spec": {"endpoints": [{"ports": []}]}}"#,
        "set hostSelector or addresses",
    ),
    bad_change(
        TCP,
        "{}",
        r#"{"spec": {"source": {"name": "other"}}}"#,
        "source is immutable",
    ),
    change(TCP, r#"{"spec": {"source": null}}"#, "{}"),
    bad(
        TCP,
        r#"{"spec": {"endpoints": [{"addresses": ["host"]}]}}"#,
        "must be an IP address",
    ),
    // Whose clients it is for: by prefixes, each once.
    fine(
        TCP,
        r#"{"spec": {"sourceRanges": ["0.0.0.0/0", "192.0.2.7/32"]}}"#,
    ),
    bad(
        TCP,
        r#"{"spec": {"sourceRanges": ["192.0.2.7"]}}"#,
        "must be prefixes",
    ),
    bad(
        TCP,
        r#"{"spec": {"sourceRanges": ["10.0.0.0/8", "10.0.0.0/8"]}}"#,
        "a prefix stands twice",
    ),
    bad(
        TCP,
        r#"{"spec": {"healthCheck": {"interval": "soon"}}}"#,
        "must be a number with a unit",
    ),
    bad(
        HTTP,
        r#"{"spec": {"hostnames": ["Shop.example.net"]}}"#,
        "hostnames must be DNS names",
    ),
    bad(
        HTTP,
        r#"{"spec": {"hostnames": ["a.*.example.net"]}}"#,
        "hostnames must be DNS names",
    ),
    bad_change(
        HTTP,
        "{}",
        r#"{"spec": {"source": null}}"#,
        "source is immutable",
    ),
    bad(
        HTTP,
        r#"{"spec": {"rules": [{"paths": [{"path": "a"}]}]}}"#,
        "path must begin with /",
    ),
    bad(
        HTTP,
        r#"{"spec": {"rules": [{"redirect": {"port": 1}, "backends": [{"name": "a", "port": 1}]}]}}"#,
        "set redirect or backends",
    ),
    fine(
        HTTP,
        r#"{"spec": {"rules": [{"redirect": {"scheme": "https", "path": {"full": "/a"}}}]}}"#,
    ),
    bad(
        HTTP,
        r#"{"spec": {"rules": [{"rewrite": {"path": {"full": "/a", "prefix": "/b"}}}]}}"#,
        "set full or prefix",
    ),
    bad(
        HTTP,
        r#"{"spec": {"rules": [{"rewrite": {"path": {}}}]}}"#,
        "set full or prefix",
    ),
    bad(
        HTTP,
        r#"{"spec": {"rules": [{"timeout": "soon"}]}}"#,
        "must be a number with a unit",
    ),
    fine(
        HTTP,
        r#"{"spec": {"address": {"pool": "public", "sharedBy": "shop/edge"}}}"#,
    ),
    fine(
        HTTP,
        r#"{"spec": {"address": {"pool": "public", "ip": "2001:db8::7"}, "listeners": [
            {"protocol": "HTTP", "port": 80}, {"protocol": "HTTP", "port": 8080}]}}"#,
    ),
    bad(
        HTTP,
        r#"{"spec": {"address": {"pool": "public", "ip": "203.0.113"}}}"#,
        "must be an IP address",
    ),
    fine(HTTP, r#"{"spec": {"tls": [{"passthrough": true}]}}"#),
    bad(
        HTTP,
        r#"{"spec": {"tls": [{"secretRef": "a", "passthrough": true}]}}"#,
        "set secretRef, issuer or passthrough",
    ),
    bad(
        HTTP,
        r#"{"spec": {"tls": [{"secretRef": "a", "issuer": "b"}]}}"#,
        "set secretRef, issuer or passthrough",
    ),
    bad(
        HTTP,
        r#"{"spec": {"tls": [{"hosts": ["a.b"]}]}}"#,
        "set secretRef, issuer or passthrough",
    ),
    // Pools.
    bad(
        POOL,
        r#"{"spec": {"addresses": ["10.0.0.1", "fd00::1"]}}"#,
        "addresses must be of one family",
    ),
    fine(
        POOL,
        r#"{"spec": {"addresses": ["fd00::1-fd00::9"], "prefix": 64, "gateway": "fd00::ff"}}"#,
    ),
    bad(
        POOL,
        r#"{"spec": {"gateway": "fd00::1"}}"#,
        "gateway must be of the addresses' family",
    ),
    bad(
        POOL,
        r#"{"spec": {"gateway": "here"}}"#,
        "must be an IP address",
    ),
    bad(POOL, r#"{"spec": {"prefix": 33}}"#, "prefix is at most 32"),
    bad(
        POOL,
        r#"{"spec": {"vrid": {"from": 9, "to": 8}}}"#,
        "from must not be above to",
    ),
    bad(POOL, r#"{"spec": {"addresses": []}}"#, "at least 1"),
    // Hosts, gateways, tenants.
    bad_change(
        HOST,
        "{}",
        r#"{"spec": {"tenant": "b"}}"#,
        "tenant is immutable",
    ),
    change(
        HOST,
        r#"{"spec": {"tenant": null, "hostRef": null, "identity": null}}"#,
        "{}",
    ),
    bad_change(
        HOST,
        "{}",
        r#"{"spec": {"hostRef": {"name": "m-2"}}}"#,
        "hostRef is bound once",
    ),
    bad_change(
        HOST,
        "{}",
        r#"{"spec": {"identity": {"uid": "other"}}}"#,
        "identity.uid is immutable",
    ),
    change(
        HOST,
        "{}",
        r#"{"spec": {"identity": {"generation": 2}, "access": "Banned"}}"#,
    ),
    bad(
        HOST,
        r#"{"spec": {"tunnel": {"addresses": ["10.0.0.1"]}}}"#,
        "must be prefixes",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"ports": {"range": {"from": 2, "to": 1}}}}"#,
        "from must not be above to",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"tunnel": {"cidrs": ["all"]}}}"#,
        "must be prefixes",
    ),
    // Whoever may say who a client is: somebody, each once, and not everybody.
    fine(
        GATEWAY,
        r#"{"spec": {"proxyProtocol": {"from": ["192.0.2.8/32", "2001:db8::/64"]}}}"#,
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"proxyProtocol": {"from": null}}}"#,
        "equired",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"proxyProtocol": {"from": ["192.0.2.8"]}}}"#,
        "must be prefixes",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"proxyProtocol": {"from": ["192.0.2.8/32", "192.0.2.8/32"]}}}"#,
        "a prefix stands twice",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"proxyProtocol": {"from": ["192.0.2.8/32", "::/0"]}}}"#,
        "must not be everybody",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"service": {"addresses": ["all"]}}}"#,
        "must be an IP address",
    ),
    bad(
        GATEWAY,
        r#"{"spec": {"envoy": {"drain": "-1s"}}}"#,
        "must be a number with a unit",
    ),
    bad_change(
        TENANT,
        "{}",
        r#"{"spec": {"namespace": "b"}}"#,
        "namespace is immutable",
    ),
    bad_change(
        TENANT,
        r#"{"spec": {"namespace": null}}"#,
        "{}",
        "namespace is immutable",
    ),
    change(
        TENANT,
        "{}",
        r#"{"spec": {"enrollment": {"denied": null}}}"#,
    ),
    bad(
        TENANT,
        r#"{"spec": {"dns": {"allowedHostnames": ["a.*.b"]}}}"#,
        "allowedHostnames must be DNS names",
    ),
    fine(
        TENANT,
        r#"{"spec": {"dns": {"allowedHostnames": ["a.b", "*.c"]}}}"#,
    ),
    bad(
        TENANT,
        r#"{"spec": {"dns": {"domain": null}}}"#,
        "domain is required",
    ),
    fine(
        TENANT,
        r#"{"spec": {"dns": {"domain": null, "provider": "None"}}}"#,
    ),
    bad(
        TENANT,
        r#"{"spec": {"enrollment": {"ttl": "an hour"}}}"#,
        "must be a number with a unit",
    ),
];
