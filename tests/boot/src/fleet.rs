//! Beyond the site: a manager over a directory, and a gateway, on a host of the LAN.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use kedge_tests_netns::{
    asked::{Asked as _, Said},
    gateway::Gateway,
    lan::Host,
    quietly, secs,
};
use serde_json::Value;

/// A fleet of one site, with one cluster on two hosts.
#[derive(Debug)]
pub struct Fleet<'a> {
    host: &'a Host,
    kedge: PathBuf,
    root: PathBuf,
    manager: Child,
    /// Leads to the cluster's API from beyond the site.
    pub gateway: Gateway<'a>,
}

impl<'a> Fleet<'a> {
    /// Starts both. The cluster's machines are the hosts with these names.
    #[must_use]
    pub fn start(host: &'a Host, kedge: &str, hosts: [&str; 2]) -> Self {
        let root = host.directory().join("manager");
        let objects = root.join("objects");
        fs::create_dir_all(&objects).unwrap();
        fs::create_dir_all(root.join("etc/kedge")).unwrap();
        let site = SITE.replace("GATEWAY", &host.address().to_string());
        fs::write(objects.join("site.yaml"), site).unwrap();
        for name in hosts {
            let machine = MACHINE.replace("HOST", name);
            fs::write(objects.join(format!("{name}.yaml")), machine).unwrap();
        }
        let listen = format!("version: 1\nlisten: {}:{MANAGER}\n", host.address());
        fs::write(root.join("etc/kedge/manager.yaml"), listen).unwrap();
        let mut command = Command::new(kedge);
        command
            .arg("--root")
            .arg(&root)
            .args(["manager", "--dir"])
            .arg(&objects)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(root.join("log")).unwrap());
        let manager = host.spawn(command);
        let url = format!("https://{}:{MANAGER}", host.address());
        let yaml = format!(
            "version: 1\nname: gw-0\nmanager: {{url: \"{url}\", token_file: /etc/kedge/token}}\n\
             tunnel: {{listen_port: 51820}}\n"
        );
        let gateway = Gateway::new(host, kedge, &yaml);
        let mut fleet = Self {
            host,
            kedge: kedge.into(),
            root,
            manager,
            gateway,
        };
        let mut token = None;
        quietly("the manager gives a token", secs(20), || {
            token = fleet.token("--gateway gw");
            token.is_some()
        });
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(fleet.gateway.root().join("etc/kedge/token"))
            .unwrap();
        std::io::Write::write_all(&mut file, token.unwrap().as_bytes()).unwrap();
        fleet.gateway.start();
        fleet
    }

    /// What the host with that name is to be configured with, and the token it enrols with.
    #[must_use]
    pub fn member(&self, name: &str, more: &str) -> (String, String) {
        let token = self.token(&format!("--tenant store-014 --host ElementalHost/{name}"));
        let url = format!("https://{}:{MANAGER}", self.host.address());
        let yaml = format!(
            "version: 1\nmanager:\n  url: {url}\n  token_file: /etc/kedge/token\n  host_ref:\n    \
             api_group: infrastructure.cluster.x-k8s.io\n    kind: ElementalHost\n    name: {name}\n\
             {more}"
        );
        (yaml, token.unwrap())
    }

    /// Where the gateway is.
    #[must_use]
    pub fn gateway_address(&self) -> Ipv4Addr {
        self.host.address()
    }

    /// The cluster's endpoint, as the manager tells it.
    #[must_use]
    pub fn endpoint(&self) -> Value {
        let said = self.kedge("fleet endpoints -o json");
        let endpoints: Value = serde_json::from_str(&said.out).unwrap_or_default();
        endpoints["items"][0].clone()
    }

    /// The command line beside the manager; words are separated by one space.
    #[must_use]
    pub fn kedge(&self, line: &str) -> Said {
        let mut command = Command::new(&self.kedge);
        command
            .arg("--root")
            .arg(&self.root)
            .args(line.split(' '))
            .stdin(Stdio::null());
        Said::of(&self.host.run(move || command.output().unwrap()))
    }

    fn token(&self, scope: &str) -> Option<String> {
        let said = self.kedge(&format!("token create {scope}"));
        (said.code == 0).then_some(said.out)
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        _ = self.manager.kill();
        _ = self.manager.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
            eprintln!("--- manager\n{log}");
            eprintln!("{}", self.gateway.kedge("status").out);
        }
    }
}

const MANAGER: u16 = 9443;
const SITE: &str = include_str!("fleet/site.yaml");
const MACHINE: &str = include_str!("fleet/machine.yaml");
