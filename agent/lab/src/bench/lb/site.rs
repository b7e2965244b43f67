//! A manager over a directory, a gateway with an Envoy beside it, and two hosts that have enrolled.
//!
//! ```text
//!   client .50 ──► gateway .21: Envoy ── tunnels ──► edge-a .11, edge-b .12
//!          └────► builtin .22: an Envoy that checks hosts and knows of no tunnel
//! ```

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kedge_host::Role;

use super::{
    super::{
        said::said,
        tunnel::standing::{configure, root},
    },
    ends::{BackEnd, asked},
    envoy::set,
    gateway::{GATEWAY, envoy_beside},
    services::End,
};
use crate::{error::LabError, lab::Lab, stage::Stage, topology::lan_address};

/// What runs on the lab.
pub(super) struct Site {
    objects: PathBuf,
    _ends: [(BackEnd, BackEnd); 2],
}

impl Site {
    /// Starts everything and waits until both hosts are used.
    pub(super) fn start(lab: &mut Lab, envoy: &Path, stage: &Stage) -> Result<Self, LabError> {
        let end = |lab: &Lab, node, end: End| -> Result<_, LabError> {
            let answering = BackEnd::answering(lab, node, any(ANSWERS), end.byte())?;
            Ok((answering, BackEnd::echoing(lab, node, any(ECHOES))?))
        };
        let [a, b] = EDGES;
        let site = Self {
            objects: lab.root(MANAGER).join("objects"),
            _ends: [end(lab, a, End::A)?, end(lab, b, End::B)?],
        };
        site.write("site.yaml", SITE)?;
        site.write(
            "web.yaml",
            &balancer("web", &[("answer", 80, ANSWERS), ("echo", 81, ECHOES)]),
        )?;
        let address = lan_address(9);
        configure(
            lab,
            MANAGER,
            Role::Manager,
            &format!("version: 1\nlisten: {address}:9443\n"),
        )?;
        site.start_manager(lab)?;
        let socket = root(lab, MANAGER).socket(Role::Manager);
        stage.eventually("the manager's socket", SOON, || {
            let opened = std::os::unix::net::UnixStream::connect(&socket);
            opened.map(drop).map_err(|error| error.to_string())
        })?;
        let manager =
            format!("manager: {{url: 'https://{address}:9443', token_file: /etc/kedge/token}}\n");
        token(lab, GATEWAY, &["--gateway", "gw"])?;
        let text = format!(
            "name: gw-0\ntunnel: {{listen_port: 51820}}\nproxy: {{engine: envoy}}\n{manager}"
        );
        configure(lab, GATEWAY, Role::Gateway, &text)?;
        site.start_gateway(lab)?;
        envoy_beside(lab, (GATEWAY, GATEWAY, "envoy"), envoy, |_| (), stage)?;
        for edge in EDGES {
            token(lab, edge, &["--tenant", "shop"])?;
            let text = format!("node: {{name: {edge}}}\n{manager}");
            configure(lab, edge, Role::Agent, &text)?;
            lab.start_kedge(edge, "agent", ["agent"])?;
        }
        until_both_answer(lab, served(80), stage)?;
        Ok(site)
    }

    /// An Envoy that is told by the same gateway, and waits as long as Envoy waits by default before it calls
    /// again. It serves the gateway's address on another node.
    pub(super) fn patient_envoy(
        lab: &mut Lab,
        envoy: &Path,
        stage: &Stage,
    ) -> Result<(), LabError> {
        let gateway: ipnet::IpNet = IpAddr::from(lan_address(21)).into();
        let add = move || kedge_net::link::Links::open()?.add_address("lo", gateway);
        lab.worker(OTHER)?.run(add)??;
        let admin = lab.root(OTHER).join("patient.sock");
        let change = |bootstrap: &mut serde_json::Value| {
            let text = admin.display().to_string();
            set(bootstrap, "/admin/address/pipe/path", text.into());
            let place = "/dynamic_resources/ads_config/grpc_services/0/envoy_grpc";
            let service = bootstrap.pointer_mut(place);
            let service = service.and_then(serde_json::Value::as_object_mut);
            service.map(|service| service.remove("retry_policy"));
        };
        envoy_beside(lab, (GATEWAY, OTHER, "patient"), envoy, change, stage)?;
        Ok(())
    }

    pub(super) fn start_manager(&self, lab: &mut Lab) -> Result<(), LabError> {
        let objects = self.objects.display().to_string();
        lab.start_kedge(MANAGER, MANAGER, ["manager", "--dir", &objects])
    }

    pub(super) fn start_gateway(&self, lab: &mut Lab) -> Result<(), LabError> {
        lab.start_kedge(GATEWAY, GATEWAY, [GATEWAY])
    }

    /// Wants one service more, on this port.
    pub(super) fn add(&self, port: u16) -> Result<(), LabError> {
        let name = format!("more-{port}");
        let text = balancer(&name, &[("answer", port, ANSWERS)]);
        self.write(&format!("{name}.yaml"), &text)
    }

    /// Wants so many services more, in one file; returns the port of the last.
    pub(super) fn fill(&self, many: u16) -> Result<u16, LabError> {
        let all: Vec<u16> = (MORE..MORE + many).collect();
        let texts = all.chunks(PORTS).map(|chunk| {
            let names: Vec<String> = chunk.iter().map(|port| format!("p{port}")).collect();
            let ports = names.iter().zip(chunk);
            let ports: Vec<_> = ports
                .map(|(name, port)| (&**name, *port, ANSWERS))
                .collect();
            let first = chunk.first().copied().unwrap_or_default();
            balancer(&format!("many-{first}"), &ports)
        });
        let texts: Vec<String> = texts.collect();
        self.write("many.yaml", &texts.join("---\n"))?;
        Ok(MORE + many.saturating_sub(1))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), LabError> {
        let file = self.objects.join(name);
        fs::create_dir_all(&self.objects).map_err(LabError::file(&self.objects))?;
        fs::write(&file, text).map_err(LabError::file(&file))
    }
}

/// Waits until both hosts have answered there.
pub(super) fn until_both_answer(
    lab: &mut Lab,
    at: SocketAddr,
    stage: &Stage,
) -> Result<(), LabError> {
    let mut heard = Vec::new();
    let what = format!("both hosts answer at {at}");
    stage.eventually(&what, SOON, || {
        if let Some(fallen) = lab.fallen() {
            return Err(fallen);
        }
        heard.push(asked(lab, CLIENT, at)?);
        let is_both = End::BOTH.iter().all(|end| heard.contains(&end.byte()));
        is_both.then_some(()).ok_or_else(|| format!("{heard:?}"))
    })
}

/// Where a service of the gateway listens.
pub(super) fn served(port: u16) -> SocketAddr {
    (lan_address(21), port).into()
}

/// Where a host answers, without a tunnel.
pub(super) fn directly(end: End) -> IpAddr {
    match end {
        End::A => lan_address(11),
        End::B => lan_address(12),
    }
    .into()
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

/// Makes a token at the manager's socket, and puts it where a role expects it.
fn token(lab: &Lab, node: &str, scope: &[&str]) -> Result<(), LabError> {
    let mut command = Command::new(lab.kedge());
    command.args(["token", "create"]).args(scope);
    command.arg("--root").arg(lab.root(MANAGER));
    let token = said(command, "")?;
    let file = root(lab, node).config_dir().join("token");
    let folder = file.parent().unwrap_or(&file);
    fs::create_dir_all(folder).map_err(LabError::file(folder))?;
    fs::write(&file, token).map_err(LabError::file(&file))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).map_err(LabError::file(&file))
}

fn balancer(name: &str, ports: &[(&str, u16, u16)]) -> String {
    let list = |of: fn(&(&str, u16, u16)) -> u16| {
        let ports = ports
            .iter()
            .map(|it| format!("{{name: {}, port: {}}}", it.0, of(it)));
        ports.collect::<Vec<_>>().join(", ")
    };
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: TCPLoadBalancer\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  ports: [{}]\n  endpoints:\n  \
         - hostSelector: {{matchLabels: {{role: web}}}}\n    ports: [{}]\n",
        list(|it| it.1),
        list(|it| it.2)
    )
}

const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec:
  namespace: shop
  enrollment: {hostLabels: {role: web}}
  gatewayRef: {name: gw}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  tunnel:
    cidrs: [198.18.0.0/16]
    publicEndpoints: [{host: 10.20.14.21, port: 51820}]
";

pub(super) const MANAGER: &str = "manager";
pub(super) const CLIENT: &str = "client";
pub(super) const EDGES: [&str; 2] = ["edge-a", "edge-b"];
/// Where Envoys are that are compared with the gateway's.
pub(super) const OTHER: &str = "builtin";
pub(super) const ANSWERS: u16 = 30_080;
const ECHOES: u16 = 30_081;
/// The first port of many services, and how many one object has.
const MORE: u16 = 20_000;
const PORTS: usize = 32;
const SOON: Duration = Duration::from_secs(45);
