//! The suite, run by a client outside.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use kedge_tests_kube::assets::Program;
use kedge_tests_netns::lan::Host;

use crate::{cluster::Cluster, is_shared};

/// The suite, and its way to the API server.
pub struct Suite<'a> {
    client: &'a Host,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl<'a> Suite<'a> {
    /// The suite at a client. The calling thread is where the API server is.
    pub fn new(cluster: &Cluster, client: &'a Host) -> Self {
        let to = cluster.server.address();
        let listener = client.run(move || TcpListener::bind(to).unwrap());
        thread::spawn(move || relay(&listener, to));
        Self {
            client,
            kubeconfig: cluster.server.kubeconfig("admin"),
            folder: cluster.server.folder().to_owned(),
        }
    }

    /// Whether everything that is asked of it passes.
    pub fn run(&self) -> bool {
        let mut command = Command::new(Program::GatewaySuite.path().unwrap());
        let kept = std::env::var_os("KEDGE_CONFORMANCE_LOGS").map(PathBuf::from);
        let log = kept.as_ref().unwrap_or(&self.folder).join("suite.log");
        let out = fs::File::create(&log).unwrap();
        let report = self.folder.join("report.yaml");
        let more = std::env::var("KEDGE_CONFORMANCE_ARGS").unwrap_or_default();
        let is_whole = std::env::var_os("KEDGE_TEST_LONG").is_some();
        let left_out = SEVERAL.iter().filter(|_| is_shared());
        let left_out: Vec<&str> = left_out.copied().collect();
        let part = (!is_whole && more.is_empty())
            .then(|| format!("-test.run=^TestConformance$/^({})$", PART.join("|")));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(["-test.v", "-test.timeout=15m", "-gateway-class=kedge"])
            .arg(format!("-skip-tests={}", left_out.join(",")))
            .args(part)
            .args([
                "-conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS",
                "-organization=kedge",
                "-project=kedge",
            ])
            .args([
                "-url=https://github.com/kedge-dev/kedge",
                "-version=v0.1.0",
                "-cleanup-base-resources=false",
            ])
            .args(["-contact=@kedge-dev/maintainers"])
            .arg(format!("-usable-address={NAMED}"))
            .args(["-unusable-address=198.51.100.1"])
            .arg(format!("-report-output={}", report.display()))
            .args(more.split_whitespace())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        let mut child = self.client.spawn(command);
        let ended = child.wait().unwrap();
        let said = fs::read_to_string(&log).unwrap();
        for line in said.lines() {
            if line.trim_start().starts_with("--- ") {
                println!("{line}");
            }
        }
        if let Some(kept) = kept {
            let _ = fs::copy(&report, kept.join("report.yaml"));
        }
        let is_there =
            |name: &&str| said.contains(&format!("    --- PASS: TestConformance/{name} ("));
        let asked = PART.iter().filter(|name| !left_out.contains(name));
        let missing: Vec<&&str> = asked.filter(|name| !is_there(name)).collect();
        if more.is_empty() && !missing.is_empty() {
            println!("did not pass: {missing:?}");
            return false;
        }
        ended.success()
    }
}

/// The last of the pool's addresses: none that a Gateway has by chance.
const NAMED: &str = "203.0.113.191";

/// What needs an address for each Gateway.
const SEVERAL: [&str; 4] = [
    "GatewayStaticAddresses",
    "HTTPRouteListenerPortMatching",
    "HTTPRouteMultipleGateways",
    "TLSRouteHostnameIntersection",
];

/// A part that has one of each kind: the whole takes two minutes (`KEDGE_TEST_LONG=1`). No two of them make routes
/// of one name: those of the first may be held by our finalizer still when the second makes its own.
const PART: [&str; 26] = [
    "GRPCExactMethodMatching",
    "GRPCRouteListenerHostnameMatching",
    "GRPCRouteWeight",
    "GatewayObservedGenerationBump",
    "GatewaySecretReferenceGrantSpecific",
    "GatewayStaticAddresses",
    "GatewayWithAttachedRoutes",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteCrossNamespace",
    "HTTPRouteHTTPSListener",
    "HTTPRouteHostnameIntersection",
    "HTTPRouteInvalidNonExistentBackendRef",
    "HTTPRouteListenerPortMatching",
    "HTTPRouteMatchingAcrossRoutes",
    "HTTPRouteMultipleGateways",
    "HTTPRouteReferenceGrant",
    "HTTPRouteRequestMirror",
    "HTTPRouteRewritePath",
    "HTTPRouteServiceTypes",
    "HTTPRouteTimeoutRequest",
    "HTTPRouteWeight",
    "TLSRouteHostnameIntersection",
    "TLSRouteInvalidBackendRefNonexistent",
    "TLSRouteInvalidReferenceGrant",
    "TLSRouteListenerTerminateNotSupported",
    "TLSRouteSimpleSameNamespace",
];

/// Passes connections on to the API server, which the thread's own namespace has.
fn relay(listener: &TcpListener, to: SocketAddr) {
    for client in listener.incoming().flatten() {
        let Ok(server) = TcpStream::connect(to) else {
            continue;
        };
        for (from, into) in [(&client, &server), (&server, &client)] {
            let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut into);
                let _ = into.shutdown(std::net::Shutdown::Write);
            });
        }
    }
}
