//! `kedge vip scan`: who speaks VRRP on the LAN. It opens sockets of its own and sends nothing, so
//! it works with the agent dead, and beside one that runs.

mod census;

use std::{
    net::IpAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_agent_daemon::AgentFile;
use kedge_control::local::{VipList, VridScan};
use kedge_core::{Code, Coded as _, Fix, Name, Problem};
use kedge_host::{Role, layers};
use kedge_net::{
    monitor::{Link, Monitor},
    udp::Family,
    vrrp::{VrrpError, VrrpSocket},
};
use kedge_vip_proto::wire::{Mac, vrrp::Received};

use self::census::{Census, Ours};
use crate::{
    App,
    args::ScanArgs,
    ask::show,
    client::{Answer, Failure},
    exit::Exit,
    show::own,
};

/// Listens, and tells what was heard.
///
/// # Errors
///
/// Nothing can be listened on.
pub(crate) fn run(app: &App, args: &ScanArgs) -> Result<Exit, Failure> {
    let monitor = Monitor::open().map_err(|error| error.problem())?;
    let links = chosen(&monitor, args.interface.as_deref())?;
    let mut ears = Vec::new();
    for link in &links {
        ears.extend(open(link)?);
    }
    let ours = known(app, &monitor);
    let mut census = Census::default();
    let span = args.span.duration();
    if !app.quiet {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        say!("listening on {} for {}", names.join(", "), args.span);
    }
    listen(&mut ears, &mut census, span);
    let names = links.iter().map(|link| link.name.clone()).collect();
    let told: VridScan = census.tell(names, span, &ours);
    let exit = if told
        .problems
        .iter()
        .any(|problem| problem.severity == kedge_core::Severity::Error)
    {
        Exit::Refused
    } else {
        Exit::Ok
    };
    show(app, &own(&told)?, exit)
}

/// One interface and family.
struct Ear {
    interface: String,
    socket: VrrpSocket,
}

fn listen(ears: &mut [Ear], census: &mut Census, span: Duration) {
    let end = Instant::now() + span;
    loop {
        for ear in ears.iter_mut() {
            // On an error the link went: the others may still be there.
            while let Ok(Some(received)) = ear.socket.receive() {
                match Received::hear(Mac(received.mac), received.packet) {
                    Ok(heard) => census.hear(&ear.interface, &heard),
                    Err(error) => census.malformed(error.label()),
                }
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(PAUSE));
    }
}

/// The sockets of one interface: of the families it has.
fn open(link: &Link) -> Result<Vec<Ear>, Problem> {
    let mut ears = Vec::new();
    let mut refused: Option<VrrpError> = None;
    for family in [Family::V4, Family::V6] {
        match VrrpSocket::open(&link.name, link.index, family) {
            Ok(socket) => ears.push(Ear {
                interface: link.name.clone(),
                socket,
            }),
            // A host without IPv6 is listened to without it.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if ears.is_empty() => Err(error
            .problem()
            .consequence("nothing was listened to")
            .fix(Fix::text("run the command as root"))),
        _ => Ok(ears),
    }
}

fn chosen(monitor: &Monitor, name: Option<&str>) -> Result<Vec<Link>, Problem> {
    let usable = |link: &&Link| link.is_running() && !link.loopback && link.mac.is_some();
    let names = || {
        let all: Vec<&str> = monitor.links().map(|link| link.name.as_str()).collect();
        format!("there is {}", all.join(", "))
    };
    let nothing = |what: String| {
        Problem::new(Code::VipInterfaceMissing, what)
            .evidence(names())
            .consequence("nothing was listened to")
            .fix(Fix::text("name an interface that is up").command("ip link show up"))
    };
    let links: Vec<Link> = match name {
        Some(name) => {
            let link = monitor.link_named(name).filter(usable);
            let what = || {
                let shown = name.escape_debug();
                format!("`{shown}` is no Ethernet interface that is up")
            };
            vec![link.ok_or_else(|| nothing(what()))?.clone()]
        }
        // What is a port of a bridge or bond is heard there.
        None => monitor
            .links()
            .filter(usable)
            .filter(|link| link.master.is_none() && !link.addresses.is_empty())
            .cloned()
            .collect(),
    };
    if links.is_empty() {
        return Err(nothing("no interface is up".to_owned()));
    }
    Ok(links)
}

/// The VIPs of this host: as the agent has them, or as the files say while it does not run.
fn known(app: &App, monitor: &Monitor) -> Vec<Ours> {
    let asked: Result<Answer<VipList>, Failure> = app.client(Role::Agent).get("/v1/vips");
    match asked {
        Ok(answer) => {
            let vips = answer.body.items.into_iter();
            vips.map(|vip| {
                // With the length of the prefix behind a slash.
                let bare = |net: &String| net.split('/').next()?.parse::<IpAddr>().ok();
                Ours {
                    name: vip.name.clone(),
                    interface: vip.interface.clone(),
                    vrid: vip.vrid,
                    addresses: vip.addresses.iter().filter_map(bare).collect(),
                }
            })
            .collect()
        }
        Err(_) => match layers::load::<AgentFile>(&app.root, &[]) {
            Ok(loaded) => {
                let vips = loaded.config.vips.iter();
                vips.map(|(name, vip)| configured(name, vip, monitor))
                    .collect()
            }
            // What others do is worth knowing all the same.
            Err(_) => Vec::new(),
        },
    }
}

fn configured(name: &Name, vip: &kedge_agent_daemon::config::VipConfig, monitor: &Monitor) -> Ours {
    let on_link = |address: &IpAddr| {
        let has = |link: &&Link| link.addresses.iter().any(|own| own.net.contains(address));
        monitor.links().find(has).map(|link| link.name.clone())
    };
    let found = || vip.addresses.first().and_then(on_link);
    Ours {
        name: name.to_string(),
        interface: vip.interface.clone().or_else(found),
        vrid: vip.vrid.get(),
        addresses: vip.addresses.clone(),
    }
}

const PAUSE: Duration = Duration::from_millis(5);
