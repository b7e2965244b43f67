//! A good object of each of our kinds, with most of its fields set.

use serde_json::{Value, json};

use crate::kinds::Kind;

/// A good object of that kind, named `good`.
#[must_use]
pub fn good(kind: &str) -> Value {
    let namespaced = Kind::of(kind).is_some_and(|kind| kind.namespaced);
    let mut metadata = json!({"name": "good"});
    if let Some(metadata) = metadata.as_object_mut().filter(|_| namespaced) {
        metadata.insert("namespace".to_owned(), Value::from("default"));
    }
    json!({
        "apiVersion": Kind::api_version(),
        "kind": kind,
        "metadata": metadata,
        "spec": spec(kind),
    })
}

fn spec(kind: &str) -> Value {
    match kind {
        "Tenant" => json!({
            "namespace": "tenant-good",
            "enrollment": {
                "ttl": "1h", "maxHosts": 10, "hostLabels": {"site": "a"}, "approval": "Manual",
                "allowElementalKeys": true,
                "denied": [{"keyHash": HASH, "reason": "stolen", "since": "2026-01-01T00:00:00Z"}],
            },
            "gatewayRef": {"name": "edge", "namespace": "kedge-system"},
            "dns": {"domain": "lb.example.net", "provider": "RFC2136", "allowedHostnames": ["shop.example.com", "*"]},
            "allowedPools": ["lan"],
            "limits": {"hosts": 10, "loadBalancers": 5, "ports": 20},
            "issuers": [{"name": "letsencrypt", "kind": "ClusterIssuer", "group": "cert-manager.io"}],
            "drain": {"timeout": "5m", "hook": "PreTerminate"},
        }),
        "EdgeHost" => json!({
            "tenant": "a",
            "identity": {
                "uid": "f0a1b2c3-0000-4000-8000-000000000000", "publicKey": "PEM",
                "serial": "01", "generation": 1, "renewalID": "r", "issued": "2026-01-01T00:00:00Z",
            },
            "hostRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ElementalHost", "name": "m-1",
            },
            "tunnel": {
                "publicKeys": [KEY], "addresses": ["fd6b:6564:6765::1/128", "198.18.0.1/32"],
                "gatewayRef": {"name": "edge"}, "allowedCIDRs": ["10.1.0.0/16"],
            },
            "access": "Active", "exposures": true, "vrrp": {"priority": 200}, "maintenance": true,
            "config": {"generation": 3, "digest": HASH},
        }),
        "EdgeGateway" => json!({
            "tunnel": {
                "listenPorts": [51820],
                "publicEndpoints": [{"instance": "a", "host": "gw.example.net", "port": 51820, "listen": "192.0.2.1"}],
                "cidrs": ["198.18.0.0/16"], "addressing": "PerTenant", "mtu": 1420, "keepaliveSeconds": 25,
                "mode": "Userspace",
            },
            "proxyProtocol": {"from": ["192.0.2.8/32", "2001:db8::/64"]},
            "envoy": {
                "replicas": 2, "drain": "1m",
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "128Mi"}},
            },
            "service": {
                "type": "LoadBalancer", "class": "metal", "annotations": {"a.example/b": "c"},
                "addresses": ["192.0.2.1"],
            },
            "ports": {"range": {"from": 30000, "to": 30999}},
            "http": {"port": 8080, "tlsPort": 8443},
            "instances": [{
                "name": "a", "identity": {"uid": "u", "publicKey": "PEM", "serial": "01", "generation": 1}, "publicKeys": [KEY],
                "addresses": ["198.18.0.2/32"], "config": {"generation": 1, "digest": HASH},
            }],
        }),
        "LoadBalancer" => json!({
            "clusterName": "a",
            "mode": "VIP",
            "endpointPolicy": "Keep",
            "targetKind": {"apiGroup": "cluster.x-k8s.io", "kind": "Machine"},
            "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            "preset": "rke2",
            "ports": [{"name": "api", "port": 6443}, {"name": "join", "port": 9345, "targetPort": 9345}],
            "vip": {
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "lan"},
                "family": "IPv4", "interface": "eth0", "protocol": "VRRPv3",
                "advertIntervalSeconds": 0.07, "preempt": false, "health": "auto", "slots": {"h": 1},
            },
            "gatewayRef": {"name": "edge"},
            "hostAddress": {"types": ["InternalIP"], "family": "IPv4", "interface": "eth0", "host": "h"},
            "dns": {"hostname": "api.example.net", "ttl": "1m"},
            "drain": {"timeout": "1m", "hook": "PreDrain"},
            "managementAccess": "Gateway",
            "infrastructureRef": {"apiGroup": "infrastructure.example.net", "kind": "FooLoadBalancer", "name": "x"},
            "listeners": {"api": 30001},
        }),
        "TCPLoadBalancer" => json!({
            "source": {"kind": "Service", "namespace": "web", "name": "shop", "uid": "u"},
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "appProtocol": "H2C", "listenerPort": 30002},
            ],
            "endpoints": [
                {"hostSelector": {"matchLabels": {"a": "b"}}, "ports": [{"name": "dns", "port": 30053}]},
                {"addresses": ["10.0.0.1"], "ports": [{"name": "dns-tcp", "port": 30053}]},
            ],
            "sourceRanges": ["192.0.2.0/24", "2001:db8::/32"],
            "exposure": "External", "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            "proxyProtocol": "V2",
            "healthCheck": {"interval": "5s", "timeout": "2s", "fall": 3, "rise": 2},
            "policy": "Maglev",
        }),
        "HTTPLoadBalancer" => json!({
            "source": {"kind": "Ingress", "namespace": "web", "name": "shop"},
            "hostnames": ["shop.example.net", "*.shop.example.net", "*"],
            "rules": [{
                "hosts": ["shop.example.net"], "paths": [{"path": "/", "type": "Prefix"}],
                "method": "GET", "headers": {"x-canary": "1"}, "query": {"lang": "de"},
                "headerExpressions": {"x-build": "[0-9]+"}, "queryExpressions": {"page": "[0-9]+"},
                "grpc": true, "mirrors": [{"name": "audit", "port": 80, "millionths": 1000}],
                "cors": {
                    "allowOrigins": ["https://*.example.net"], "allowMethods": ["PUT"], "allowHeaders": ["x-a"],
                    "exposeHeaders": ["x-b"], "allowCredentials": true, "maxAge": "10m",
                },
                "backends": [{
                    "name": "shop", "port": 80, "weight": 9,
                    "requestHeaders": {"set": {"a": "b"}}, "responseHeaders": {"remove": ["x"]},
                }],
                "rewrite": {"hostname": "shop.internal", "path": {"prefix": "/"}},
                "requestHeaders": {"set": {"a": "b"}, "add": {"c": "d"}, "remove": ["e"]},
                "responseHeaders": {"remove": ["server"]}, "timeout": "10s", "backendTimeout": "1s",
            }, {
                "paths": [{"path": "/old.*", "type": "RegularExpression"}],
                "redirect": {
                    "scheme": "http", "hostname": "www.example.net", "port": 8080, "path": {"full": "/new"},
                    "statusCode": 301,
                },
            }],
            "tls": [
                {"hosts": ["shop.example.net"], "secretRef": "shop-tls"},
                {"hosts": ["*.shop.example.net"], "issuer": "acme"},
                {"hosts": ["raw.shop.example.net"], "passthrough": true},
            ],
            "httpsRedirect": true,
            "listeners": [
                {"protocol": "HTTP", "hosts": ["shop.example.net"]}, {"protocol": "HTTPS"},
            ],
        }),
        "VIPPool" => json!({
            "addresses": ["10.0.0.10", "10.0.0.20-10.0.0.30", "10.0.1.0/28"],
            "prefix": 16, "gateway": "10.0.0.1", "excludedAddresses": ["10.0.1.3"],
            "allocateReservedIPAddresses": true, "addressReuseGracePeriodSeconds": 300,
            "network": {"interfaceSelector": "eth*", "vlan": 12},
            "vrid": {"from": 1, "to": 50}, "advertise": "ARP",
        }),
        _ => Value::Null,
    }
}

const HASH: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
