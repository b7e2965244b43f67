//! Who speaks BGP and BFD: Kedge, BIRD and GoBGP, each on a host of its own and told the same.

use std::{fmt::Write as _, fs, net::Ipv4Addr, path::Path, process::Command, time::Duration};

use kedge_host::{Role, Root};

use super::super::said::said;
use crate::{
    error::LabError,
    lab::Lab,
    stage::Stage,
    topology::{HOSTS, ROUTERS, host_address, router_address},
};

/// An implementation of BGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// `kedge agent`: VIPs on its loopback interface, told by BGP.
    Kedge,
    /// BIRD 2 with static routes.
    Bird,
    /// GoBGP, whose routes come over its API, or from a neighbour where they are many.
    GoBgp,
}

/// What it is to do.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Where its routes lead.
    pub(super) routes: Vec<Ipv4Addr>,
    /// How many of the routers it has as neighbours.
    pub(super) routers: usize,
    /// Whether it waits for their calls.
    pub(super) passive: bool,
    /// The interval of BFD with the first router, three of which may be missing.
    pub(super) bfd: Option<Duration>,
}

impl Speaker {
    pub(super) const ALL: [Self; 3] = [Self::Kedge, Self::Bird, Self::GoBgp];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kedge => "kedge",
            Self::Bird => "BIRD",
            Self::GoBgp => "GoBGP",
        }
    }

    pub(super) const fn place(self) -> usize {
        match self {
            Self::Kedge => 0,
            Self::Bird => 1,
            Self::GoBgp => 2,
        }
    }

    /// Its host.
    pub(super) fn host(self) -> &'static str {
        HOSTS.get(self.place()).copied().unwrap_or_default()
    }

    /// The address of its host.
    pub(super) fn address(self) -> Ipv4Addr {
        host_address(self.host()).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Whether it speaks BFD.
    pub(super) const fn has_bfd(self) -> bool {
        matches!(self, Self::Kedge | Self::Bird)
    }

    /// Writes what it is to do, and starts it.
    pub(super) fn start(self, lab: &mut Lab, task: &Task, stage: &Stage) -> Result<(), LabError> {
        let host = self.host();
        let path = match self {
            Self::Kedge => Root::new(lab.root(host)).config_file(Role::Agent),
            Self::Bird | Self::GoBgp => lab.root(host).join("etc/speaker.conf"),
        };
        let text = match self {
            Self::Kedge => kedge(self, task),
            Self::Bird => bird(self, task),
            Self::GoBgp => gobgp(self, task),
        };
        write(&path, &text)?;
        match self {
            Self::Kedge => lab.start_kedge(host, DAEMON, ["agent"]),
            Self::Bird => start_bird(lab, host, task.bfd.is_some_and(|it| it < SHORT)),
            Self::GoBgp => {
                let mut command = Command::new("gobgpd");
                command
                    .args(["--log-plain", "--pprof-disable", "--config-file"])
                    .arg(&path)
                    .arg(format!("--api-hosts={}", api(lab, host)));
                _ = fs::remove_file(lab.root(host).join("api"));
                lab.start(host, DAEMON, command)?;
                stage.eventually("GoBGP answers", LIMIT, || {
                    let asked = said(gobgp_client(lab, host, "neighbor"), "");
                    asked.map_err(|err| err.to_string())
                })?;
                for route in task.routes.iter().take(FEW) {
                    let add = format!("global rib add {route}/32 -a ipv4");
                    said(gobgp_client(lab, host, &add), "")?;
                }
                Ok(())
            }
        }
    }
}

/// Starts BIRD with the configuration that stands on a node, in the real-time class or the normal one.
pub(super) fn start_bird(lab: &mut Lab, node: &str, real_time: bool) -> Result<(), LabError> {
    let root = lab.root(node);
    // What it says is counted from its start on.
    _ = fs::remove_file(root.join("log").join(format!("{DAEMON}.log")));
    let mut command = match real_time {
        false => Command::new("bird"),
        true => {
            let mut command = Command::new("chrt");
            command.args(["--fifo", "40", "bird"]);
            command
        }
    };
    command
        .arg("-f")
        .arg("-c")
        .arg(root.join("etc/speaker.conf"))
        .arg("-s")
        .arg(root.join("ctl"));
    lab.start(node, DAEMON, command)
}

/// What BIRD on a node answers.
pub(super) fn birdc(lab: &Lab, node: &str, words: &str) -> Result<String, LabError> {
    let mut command = Command::new("birdc");
    command.arg("-s").arg(lab.root(node).join("ctl"));
    command.args(words.split(' '));
    let output = lab.worker(node)?.run(move || command.output())?;
    let output = output.map_err(|source| LabError::Spawn {
        program: "birdc".to_owned(),
        node: node.to_owned(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes a file and the folder it is in.
pub(super) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(LabError::file(directory))?;
    }
    fs::write(path, text).map_err(LabError::file(path))
}

/// The router that learns from all of them, and has the kernel know what it learnt.
pub(super) fn router(bfd: Duration) -> String {
    let mut text = format!(
        "log stderr all;\nrouter id {};\nprotocol device {{ }}\nprotocol kernel {{ ipv4 {{ import none; \
         export all; }}; }}\n{}",
        router_address(0),
        bird_bfd(bfd)
    );
    for speaker in Speaker::ALL {
        let bfd = if speaker.has_bfd() { "bfd on;" } else { "" };
        _ = writeln!(
            text,
            "protocol bgp {} {{ local {} as {ROUTERS_AS}; neighbor {} as {HOSTS_AS}; {PATIENCE} {bfd} \
             ipv4 {{ import all; export none; }}; }}",
            speaker.host().replace('-', "_"),
            router_address(0),
            speaker.address(),
        );
    }
    text
}

fn kedge(speaker: Speaker, task: &Task) -> String {
    let (host, address) = (speaker.host(), speaker.address());
    let mut text = format!("version: 1\nnode: {{name: {host}}}\n");
    if let Some(interval) = task.bfd {
        let millis = interval.as_millis();
        _ = writeln!(
            text,
            "bfd: {{sessions: {{{}: {{peer: {}, interface: eth0, transmit_interval: {millis}ms, \
             receive_interval: {millis}ms}}}}}}",
            ROUTERS[0],
            router_address(0)
        );
    }
    _ = writeln!(
        text,
        "bgp:\n  asn: {HOSTS_AS}\n  router_id: {address}\n  defaults: {{connect_retry: 1s}}\n  neighbors:"
    );
    for (at, router) in ROUTERS.iter().enumerate().take(task.routers) {
        let bfd = match task.bfd {
            Some(_) if at == 0 => format!(", bfd: {router}"),
            _ => String::new(),
        };
        _ = writeln!(
            text,
            "    {router}: {{address: {}, asn: {ROUTERS_AS}, passive: {}{bfd}}}",
            router_address(at),
            task.passive
        );
    }
    text.push_str("vips:\n");
    for (at, route) in task.routes.iter().enumerate() {
        _ = writeln!(
            text,
            "  v{at}: {{addresses: [{route}], via: [bgp], health: none}}"
        );
    }
    text
}

fn bird(speaker: Speaker, task: &Task) -> String {
    let address = speaker.address();
    let mut text = format!("log stderr all;\nrouter id {address};\nprotocol device {{ }}\n");
    if let Some(interval) = task.bfd {
        text += &bird_bfd(interval);
    }
    text.push_str("protocol static {\n  ipv4;\n");
    for route in &task.routes {
        _ = writeln!(text, "  route {route}/32 blackhole;");
    }
    text.push_str("}\n");
    for (at, router) in ROUTERS.iter().enumerate().take(task.routers) {
        let bfd = match task.bfd {
            Some(_) if at == 0 => "bfd on;",
            _ => "",
        };
        let passive = if task.passive { "passive on;" } else { "" };
        _ = writeln!(
            text,
            "protocol bgp {} {{ local {address} as {HOSTS_AS}; neighbor {} as {ROUTERS_AS}; {PATIENCE} \
             {passive} {bfd} ipv4 {{ import none; export all; }}; }}",
            router.replace('-', "_"),
            router_address(at),
        );
    }
    text
}

fn gobgp(speaker: Speaker, task: &Task) -> String {
    let mut text = format!(
        "[global.config]\nas = {HOSTS_AS}\nrouter-id = \"{}\"\n",
        speaker.address()
    );
    let routers = (0..task.routers).map(|at| (router_address(at), ROUTERS_AS));
    let feeder = (task.routes.len() > FEW).then_some((Ipv4Addr::LOCALHOST, FEEDER_AS));
    for (address, asn) in routers.chain(feeder) {
        let is_passive = task.passive || asn == FEEDER_AS;
        _ = writeln!(
            text,
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\npeer-as = {asn}\n\
             [neighbors.transport.config]\npassive-mode = {is_passive}\n[neighbors.timers.config]\n\
             connect-retry = 1\nidle-hold-time-after-reset = 1{}\n[[neighbors.afi-safis]]\n\
             [neighbors.afi-safis.config]\nafi-safi-name = \"ipv4-unicast\"",
            if asn == FEEDER_AS {
                "\nhold-time = 65535"
            } else {
                ""
            }
        );
        // Without it the end of the routes is not marked; with it a router keeps those of who is killed.
        if task.passive {
            _ = writeln!(
                text,
                "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n\
                 [neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 10"
            );
        }
    }
    text
}

/// BFD of BIRD on `eth0`.
pub(super) fn bird_bfd(interval: Duration) -> String {
    format!("protocol bfd {{ {} }}\n", bird_interface(interval))
}

pub(super) fn bird_interface(interval: Duration) -> String {
    let millis = interval.as_millis();
    format!(
        "interface \"eth0\" {{ min rx interval {millis} ms; min tx interval {millis} ms; \
         multiplier {MISSING}; }};"
    )
}

fn api(lab: &Lab, host: &str) -> String {
    format!("unix://{}", lab.root(host).join("api").display())
}

fn gobgp_client(lab: &Lab, host: &str, words: &str) -> Command {
    // Its socket is a file: the network it is asked from is of no matter.
    let mut command = Command::new("gobgp");
    command.arg(format!("--target={}", api(lab, host)));
    command.args(words.split(' '));
    command
}

/// The process of a speaker, or of a router.
pub(super) const DAEMON: &str = "speaker";
/// Packets of BFD that may be missing in a row.
pub(super) const MISSING: u32 = 3;
/// Below it BIRD has a real-time class, as Kedge has by itself.
pub(super) const SHORT: Duration = Duration::from_millis(50);
/// The autonomous systems of hosts, of routers, and of who tells GoBGP of many routes.
pub(super) const HOSTS_AS: u32 = 65_001;
pub(super) const ROUTERS_AS: u32 = 65_014;
pub(super) const FEEDER_AS: u32 = 65_099;
/// So many routes a client adds one by one.
const FEW: usize = 4;
/// How soon BIRD calls, and takes calls, after the end of a session.
const PATIENCE: &str = "connect delay time 1; connect retry time 1; error wait time 1, 1;";
pub(super) const LIMIT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn task(routes: u8, bfd: Option<Duration>) -> Task {
        Task {
            routes: (0..routes).map(|it| Ipv4Addr::new(192, 0, 2, it)).collect(),
            routers: 2,
            passive: true,
            bfd,
        }
    }

    #[test]
    fn every_speaker_is_told_the_same() {
        let many = task(9, Some(Duration::from_millis(50)));
        for text in [kedge(Speaker::Kedge, &many), bird(Speaker::Bird, &many)] {
            for part in [
                "192.0.2.8",
                "10.20.14.1",
                "10.20.14.2",
                "65001",
                "65014",
                "50",
            ] {
                assert!(text.contains(part), "{part} is missing in\n{text}");
            }
            assert_eq!(text.matches("passive").count(), 2, "{text}");
        }
        let text = gobgp(Speaker::GoBgp, &many);
        assert_eq!(text.matches("passive-mode = true").count(), 3, "{text}");
        assert!(text.contains("65099"), "many routes come from a neighbour");
        let few = Task {
            passive: false,
            ..task(1, None)
        };
        let text = gobgp(Speaker::GoBgp, &few);
        assert!(!text.contains("graceful"), "a killed one keeps nothing");
    }

    #[test]
    fn bfd_is_with_the_first_router_alone() {
        let with = task(1, Some(SHORT));
        assert_eq!(bird(Speaker::Bird, &with).matches("bfd on").count(), 1);
        assert_eq!(
            kedge(Speaker::Kedge, &with).matches("bfd: tor-a").count(),
            1
        );
        let without = task(1, None);
        assert!(!bird(Speaker::Bird, &without).contains("bfd"));
        assert!(!kedge(Speaker::Kedge, &without).contains("bfd"));
    }
}
