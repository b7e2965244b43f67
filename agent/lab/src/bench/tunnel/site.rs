//! Two hosts with a tunnel between them.

use std::{fs, net::Ipv4Addr, path::Path, process::Command, time::Duration};

use ipnet::{IpNet, Ipv4Net};
use kedge_net::link::Links;

use super::{super::said::said, engine::Engine, load::exchange};
use crate::{
    error::LabError,
    lab::Lab,
    process::copy_logs,
    stage::Stage,
    topology::{ENDS, Topology, end_address},
};

/// Two hosts with a tunnel between them.
#[derive(Debug)]
pub(super) struct Site {
    lab: Lab,
    /// What `wg` was told of each host.
    texts: [String; 2],
}

impl Site {
    /// Starts an engine on both hosts and waits until a packet passes; in the tunnel is a VXLAN.
    pub(super) fn start(engine: &Engine, stage: &Stage) -> Result<Self, LabError> {
        let mut site = Self::stand(engine, &ENDS)?;
        let [one, two] = [Keys::new()?, Keys::new()?];
        for (at, (ours, theirs)) in [(&one, &two), (&two, &one)].into_iter().enumerate() {
            let other = 1 - at;
            let peer = format!(
                "[Peer]\nPublicKey = {}\nAllowedIPs = {}/32\nEndpoint = {}:{PORT}\n",
                theirs.public,
                inner(other),
                end_address(other),
            );
            site.configure(at, ours, &peer, stage)?;
            site.add_vxlan(at)?;
        }
        stage.eventually("the first packet through the tunnel", START, || {
            let answer = exchange(&site.lab, [inner(0), inner(1)], 1);
            answer.map(|_| ()).map_err(|error| error.to_string())
        })?;
        Ok(site)
    }

    /// Starts an engine on the second host alone, a gateway that knows nobody, and says its key.
    pub(super) fn gateway(engine: &Engine, stage: &Stage) -> Result<(Self, String), LabError> {
        let [_, two] = ENDS;
        let mut site = Self::stand(engine, &[two])?;
        let keys = Keys::new()?;
        site.configure(1, &keys, "", stage)?;
        Ok((site, keys.public))
    }

    /// Tells the gateway of peers: each has an address of its own, and calls.
    pub(super) fn admit<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<(), LabError> {
        let [_, two] = ENDS;
        let peer = |(number, key): (u32, &str)| {
            let address = Ipv4Addr::from_bits(OVERLAY.to_bits() + number);
            format!("[Peer]\nPublicKey = {key}\nAllowedIPs = {address}/32\n")
        };
        let text: String = (1..).zip(keys).map(peer).collect();
        self.wg(two, "addconf", &text)
    }

    fn stand(engine: &Engine, ends: &[&str]) -> Result<Self, LabError> {
        let kedge = crate::lab::executable(None)?;
        let (lab, _) = Lab::build(Topology::pair(), kedge)?;
        let mut site = Self {
            lab,
            texts: Default::default(),
        };
        for end in ends {
            let ifname = site.ifname(end);
            site.lab.start(end, DAEMON, engine.command(&ifname))?;
        }
        Ok(site)
    }

    /// Starts the copy loop on both hosts, between which nothing is sealed.
    pub(super) fn copying(stage: &Stage) -> Result<Self, LabError> {
        let kedge = crate::lab::executable(None)?;
        let (lab, _) = Lab::build(Topology::pair(), kedge)?;
        let mut site = Self {
            lab,
            texts: Default::default(),
        };
        for (at, end) in ENDS.into_iter().enumerate() {
            let (ifname, to) = (site.ifname(end), format!("{}:{PORT}", end_address(1 - at)));
            let arguments = ["copy", "--ifname", &ifname, "--to", &to];
            site.lab.start_role(end, DAEMON, arguments)?;
            stage.eventually("the device of the copy loop", START, || {
                site.address(at).map_err(|error| error.to_string())
            })?;
        }
        stage.eventually("the first packet through the copy loop", START, || {
            let answer = exchange(&site.lab, [inner(0), inner(1)], 1);
            answer.map(|_| ()).map_err(|error| error.to_string())
        })?;
        Ok(site)
    }

    pub(super) const fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(super) const fn lab_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }

    /// The processes of the engine on both hosts.
    pub(super) fn daemons(&mut self) -> Result<[u32; 2], LabError> {
        let [one, two] = ENDS;
        Ok([
            self.lab.process(one, DAEMON)?.pid(),
            self.lab.process(two, DAEMON)?.pid(),
        ])
    }

    pub(super) fn keep(&self, to: &Path) -> Result<(), LabError> {
        for end in ENDS {
            let logs = self.lab.root(end).join("log");
            let to = to.join(end);
            copy_logs(&logs, &to).map_err(LabError::file(to))?;
        }
        Ok(())
    }

    pub(super) fn take_down(self) -> Vec<String> {
        self.lab.take_down()
    }

    /// The interface of a host; unique on the machine, since the sockets of `wg` are in one
    /// directory for all namespaces.
    fn ifname(&self, end: &str) -> String {
        format!("kb{}{end}", self.lab.id())
    }

    fn wait_for_socket(&mut self, end: &str, stage: &Stage) -> Result<(), LabError> {
        let socket = format!("/var/run/wireguard/{}.sock", self.ifname(end));
        let process = self.lab.process(end, DAEMON)?;
        stage.eventually("the socket of the device", START, || {
            if process.ended().is_none() && Path::new(&socket).exists() {
                return Ok(());
            }
            Err(process.last_words())
        })
    }

    fn configure(
        &mut self,
        at: usize,
        ours: &Keys,
        peers: &str,
        stage: &Stage,
    ) -> Result<(), LabError> {
        let Some(end) = ENDS.get(at) else {
            return Ok(());
        };
        self.wait_for_socket(end, stage)?;
        let text = format!(
            "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n{peers}",
            ours.private
        );
        self.wg(end, "setconf", &text)?;
        if let Some(known) = self.texts.get_mut(at) {
            *known = text;
        }
        self.address(at)
    }

    /// Gives the device of a host its address and MTU.
    fn address(&self, at: usize) -> Result<(), LabError> {
        let Some(end) = ENDS.get(at) else {
            return Ok(());
        };
        let ifname = self.ifname(end);
        self.lab.worker(end)?.run(move || {
            let mut links = Links::open()?;
            links.set_mtu(&ifname, MTU)?;
            links.add_address(&ifname, IpNet::V4(Ipv4Net::new_assert(inner(at), 24)))?;
            links.up(&ifname)?;
            Ok(())
        })?
    }

    /// What `wg` was told of each host.
    pub(super) const fn texts(&self) -> &[String; 2] {
        &self.texts
    }

    /// The public key of the second host, which the first was told.
    pub(super) fn second_key(&self) -> String {
        let [text, _] = &self.texts;
        let key = |line: &str| line.strip_prefix("PublicKey = ").map(str::to_owned);
        text.lines().find_map(key).unwrap_or_default()
    }

    /// Whether the network cards of both hosts cut runs of datagrams, or the kernel does.
    pub(super) fn card_cuts(&self, on: bool) -> Result<(), LabError> {
        let state = if on { "on" } else { "off" };
        ENDS.into_iter().try_for_each(|end| {
            self.lab.worker(end)?.run(move || {
                let mut command = Command::new("ethtool");
                command.args(["-K", "eth0", "tx-udp-segmentation", state]);
                said(command, "").map(drop)
            })?
        })
    }

    /// What `wg show` says of one thing.
    pub(super) fn show(&self, end: &str, what: &'static str) -> Result<String, LabError> {
        let ifname = self.ifname(end);
        self.lab.worker(end)?.run(move || {
            let mut command = Command::new("wg");
            command.arg("show").arg(&ifname).arg(what);
            said(command, "")
        })?
    }

    /// Gives `wg` a file of configuration for the interface of a host.
    pub(super) fn wg(&self, end: &str, order: &'static str, text: &str) -> Result<(), LabError> {
        let file = self.lab.root(end).join("wg.conf");
        fs::write(&file, text).map_err(LabError::file(&file))?;
        let ifname = self.ifname(end);
        self.lab.worker(end)?.run(move || {
            let mut command = Command::new("wg");
            command.arg(order).arg(&ifname).arg(&file);
            said(command, "").map(drop)
        })?
    }

    /// A VXLAN over the tunnel, whose outer UDP has no checksum, as every overlay of Kubernetes.
    fn add_vxlan(&self, at: usize) -> Result<(), LabError> {
        let Some(end) = ENDS.get(at) else {
            return Ok(());
        };
        let (own, other, link) = (inner(at), inner(1 - at), self.ifname(end));
        let orders = [
            format!(
                "link add vx0 type vxlan id 7 dstport 4789 local {own} remote {other} dev {link} \
                 noudpcsum"
            ),
            format!("address add {}/24 dev vx0", in_vxlan(at)),
            format!("link set vx0 mtu {VXLAN_MTU} up"),
        ];
        self.lab.worker(end)?.run(move || {
            orders.iter().try_for_each(|order| {
                let mut command = Command::new("ip");
                command.args(order.split(' '));
                said(command, "").map(drop)
            })
        })?
    }
}

/// A key pair, in base64.
pub(super) struct Keys {
    private: String,
    pub(super) public: String,
}

impl Keys {
    pub(super) fn new() -> Result<Self, LabError> {
        let wg = |word| {
            let mut command = Command::new("wg");
            command.arg(word);
            command
        };
        let private = said(wg("genkey"), "")?;
        let public = said(wg("pubkey"), &private)?;
        Ok(Self { private, public })
    }
}

/// The address of a host inside the tunnel.
pub(super) fn inner(at: usize) -> Ipv4Addr {
    let last = u8::try_from(at).unwrap_or(u8::MAX).saturating_add(1);
    Ipv4Addr::new(10, 99, 0, last)
}

/// The address of a host in the VXLAN inside the tunnel.
pub(super) fn in_vxlan(at: usize) -> Ipv4Addr {
    let last = u8::try_from(at).unwrap_or(u8::MAX).saturating_add(1);
    Ipv4Addr::new(10, 98, 0, last)
}

pub(super) const DAEMON: &str = "wireguard";
pub(super) const PORT: u16 = 51_820;

/// Where the addresses of a gateway's peers begin.
const OVERLAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);

/// What an underlay of 1500 bytes leaves, whatever its family.
pub(super) const MTU: u32 = 1420;
/// And what VXLAN leaves of that.
const VXLAN_MTU: u32 = 1370;

const START: Duration = Duration::from_secs(10);
