//! Hosts as they come: a kernel, a firmware's power switch, cloud-init. One has the package installed, the other
//! is the appliance with the extension laid over it; both enrol at a manager, and a gateway leads to them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use kedge_dist::{
    Form,
    verity::{self, Signer},
};
use kedge_tests_boot::{
    connects::{self, Connects, Outcome},
    fleet::Fleet,
    guest::Guest,
    guests,
    packages::{NEW, OLD, Packages},
    pair::VIP,
    place, repository,
    seed::Seed,
};
use kedge_tests_netns::{
    asked::Asked as _,
    eventually,
    lan::{Host, Lan},
    millis, secs,
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

#[test]
fn hosts_come_by_themselves_and_reboot_without_a_failed_connect() {
    let Some(system) = guests() else { return };
    let lan = Lan::new();
    let packages = Packages::of(KEDGE);
    let beyond = lan.host("g", "10.20.14.2/24");
    let client = lan.host("c", "10.20.14.13/24");
    let fleet = Fleet::start(&beyond, KEDGE, ["a", "b"]);
    let repository = repository::serve(&beyond, &packages.write(Form::Deb, OLD));
    let place = place(&lan);
    let images = Images::write(place.path(), &packages);
    let disk = place.path().join("appliance.img");
    system.with_extension(&images.plain, &disk).unwrap();

    let seed = member(&fleet, "a", "10.20.14.11/24").installing("kedge", repository.url());
    let a = Guest::boot(&lan, &system, None, seed);
    let asked = || repository.asked_for(".deb").is_some();
    eventually("the package is asked for", secs(240), asked);
    // It boots while that one installs.
    let seed = member(&fleet, "b", "10.20.14.12/24").beside(&images.signed);
    let b = Guest::boot(&lan, &system, Some(&disk), seed);
    let mut who = None;
    eventually("the VIP answers", secs(240), || {
        who = at_vip(&client);
        who.is_some()
    });
    let since = |file: &str| repository.asked_for(file).unwrap().elapsed();
    println!(
        "power-on to VIP: {:?} (at {who:?}); of that {:?} since apt-get update began, {:?} since the \
         package was asked for",
        a.uptime(),
        since("InRelease"),
        since(".deb")
    );
    a.is_up(secs(240));
    is_a_member(&a, &fleet, &client);
    a.does(SCHEMA);
    shows_what_it_does(&a);
    b.is_up(secs(240));
    eventually("one holds it, one stands by", secs(60), || {
        stands_by(&a) || stands_by(&b)
    });
    println!("both are there after {:?}", a.uptime());
    is_a_member(&b, &fleet, &client);

    let everything = std::env::var("KEDGE_GUESTS").is_ok_and(|it| it == "all");
    if everything {
        reads_what_was_signed_alone(&b);
        takes_another_image(&b, &client);
    }
    let first = at_vip(&client).unwrap();
    let (first, second) = if first == "a" { (&a, &b) } else { (&b, &a) };
    hands_over_at_reboot(first, second.name(), &client);
    if everything {
        first.is_up(secs(240));
        eventually("it stands by", secs(60), || stands_by(first));
        hands_over_at_reboot(second, first.name(), &client);
    } else {
        println!("left out: signed extensions, another image, and the way back (KEDGE_GUESTS=all)");
    }
}

/// The host that holds the VIP is told to reboot while everybody connects; the other one has it then.
fn hands_over_at_reboot(guest: &Guest, other: &str, client: &Host) {
    let vip = SocketAddr::new(VIP.parse().unwrap(), API);
    let connects = Connects::start(client, vip);
    assert_eq!(at_vip(client).as_deref(), Some(guest.name()));
    guest.orders("systemctl reboot");
    eventually("the other one answers", secs(60), || {
        at_vip(client).as_deref() == Some(other)
    });
    guest.goes_down(secs(60));
    let Outcome {
        tried,
        failed,
        cut,
        gap,
        who,
    } = connects.finish();
    println!(
        "{failed} of {tried} connects failed, {cut} were cut off, {gap:?} from one to the next at most, answered by \
         {who:?}"
    );
    assert_eq!(failed, 0);
    assert!(gap <= longest_gap(), "{gap:?}");
    assert_eq!(who, [guest.name(), other]);
}

/// What a person may wait at most. An emulated system whose executables are made for debuggers answers late whoever
/// has the address: there it is told, and is less than a lost packet takes to be sent again.
fn longest_gap() -> Duration {
    let released = std::env::var_os("KEDGE_DIST").is_some();
    if released { GAP } else { secs(1) }
}

/// It enrolled, its tunnel is the kernel's, and the gateway leads to it.
fn is_a_member(guest: &Guest, fleet: &Fleet<'_>, client: &Host) {
    let hosts = fleet.kedge("fleet hosts").out;
    println!("{hosts}");
    let link = guest.does("ip -details link show kedge0");
    assert!(link.contains("wireguard"), "{link}");
    let gateway = SocketAddr::new(fleet.gateway_address().into(), THROUGH_THE_GATEWAY);
    eventually("the gateway leads to the API", secs(60), || {
        connects::once(client, gateway).is_some()
    });
}

/// The extension is taken away without a trace, and comes back in a form that proves itself: unknown keys and
/// changed bytes are refused.
fn reads_what_was_signed_alone(guest: &Guest) {
    let there = || guest.run("test -e /usr/bin/kedge").code == 0;
    let takes = |image: &str| {
        guest.does(&format!(
            "cp /mnt/{image}.raw /var/lib/extensions/kedge.raw"
        ));
        let said = guest.run("systemd-sysext refresh");
        println!("{image}: {}", said.err.trim());
    };
    guest.does("systemctl mask --runtime --now kedge-agent.service");
    guest.does("systemd-sysext unmerge && systemctl daemon-reload");
    assert!(!there());
    let left =
        guest.does("find /usr /etc/systemd -name '*kedge*' ! -name kedge-extensions.service");
    assert_eq!(left, "", "what the extension brought is gone");

    guest.does("mount -o ro /dev/vdc /mnt");
    takes("signed");
    assert!(!there(), "nobody knows who signed it");
    guest.does("mkdir -p /etc/verity.d && cp /mnt/kedge.crt /etc/verity.d/");
    takes("signature-changed");
    assert!(!there(), "it is not his signature");
    takes("changed");
    let read = guest.run("cat /usr/bin/kedge >/dev/null");
    assert_ne!(read.code, 0, "a changed byte was read");
    println!("changed: {}", read.err.trim());
    guest.does("systemd-sysext unmerge");
    takes("signed");
    guest.does("cat /usr/bin/kedge >/dev/null && systemctl daemon-reload");
    // Under emulation a debug build may run into the limit of its real-time thread, and is tried again.
    guest.does("systemctl unmask --runtime kedge-agent && systemctl start --no-block kedge-agent");
    eventually("it stands by once more", secs(60), || stands_by(guest));
}

/// The screens that nobody logs in at: a serial line, and a terminal of the kernel's.
fn shows_what_it_does(guest: &Guest) {
    let expected = format!("{} ", guest.name().to_uppercase());
    guest.does("systemctl start kedge-console@ttyS1 kedge-console@tty1");
    let (mut line, mut terminal) = (String::new(), String::new());
    let shows = |text: &str| text.contains(&expected) && text.contains(VIP);
    eventually("both show it", secs(30), || {
        line = guest.screen();
        // Its rows, one after the other.
        terminal = guest.run("fold -w 80 /dev/vcs1").out;
        shows(&line) && shows(&terminal)
    });
    println!("{}", terminal.trim_end());
    let who = guest.does("ps -o user= -p $(systemctl show -P MainPID kedge-console@tty1)");
    assert_ne!(who.trim(), "root", "it needs to be nobody");
    guest.does("systemctl stop kedge-console@ttyS1 kedge-console@tty1");
}

/// A later image of the extension is merged in the place of the one that is: whoever uses the VIP sees nothing of it.
fn takes_another_image(guest: &Guest, client: &Host) {
    let version = || {
        let marker = guest.does("cat /usr/lib/kedge/release.json");
        let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
        marker["version"].as_str().unwrap().to_owned()
    };
    assert_eq!(version(), OLD);
    let vip = SocketAddr::new(VIP.parse().unwrap(), API);
    let holder = at_vip(client);
    let connects = Connects::start(client, vip);
    let said = guest.kedge("upgrade /mnt/release");
    assert_eq!(said.code, 0, "{said:?}");
    println!("{}", said.out);
    let Outcome { tried, failed, .. } = connects.finish();
    println!("another image: {failed} of {tried} connects failed");
    assert_eq!(failed, 0);
    assert_eq!(version(), NEW);
    assert_eq!(at_vip(client), holder);
    eventually("it is there as before", secs(60), || {
        stands_by(guest) || holder.as_deref() == Some(guest.name())
    });
}

/// Images of the extension.
struct Images {
    plain: PathBuf,
    /// A folder of those that are signed, and what they are checked with.
    signed: PathBuf,
}

impl Images {
    fn write(place: &Path, packages: &Packages) -> Self {
        let plain = packages.write(Form::Sysext, OLD);
        let folder = place.join("signed");
        fs::create_dir(&folder).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let named = rcgen::CertificateParams::new(vec!["kedge".into()]).unwrap();
        let (key_file, certificate) = (place.join("key"), folder.join("kedge.crt"));
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&certificate, named.self_signed(&key).unwrap().pem()).unwrap();
        let signer = Signer {
            key: &key_file,
            certificate: &certificate,
        };
        let signed = folder.join("signed.raw");
        verity::sign(&plain, signer, &signed).unwrap();
        let bytes = fs::read(&signed).unwrap();
        let changed = |name: &str, at: usize| {
            let mut bytes = bytes.clone();
            // Another letter of the signature is still one.
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            fs::write(folder.join(format!("{name}.raw")), bytes).unwrap();
        };
        changed("changed", bytes.len() / 2);
        let field = b"\"signature\":\"";
        let start = bytes.windows(field.len()).rposition(|it| it == field);
        let start = start.unwrap() + field.len();
        let length = bytes[start..].iter().position(|it| *it == b'"').unwrap();
        // What he signed with is at the end; a certificate before it is not believed anyway.
        changed("signature-changed", start + length - 16);
        packages.release(&[Form::Sysext], NEW, None, &folder.join("release"));
        Self {
            plain,
            signed: folder,
        }
    }
}

/// What a host of the site is told: where its manager is, and what admits it there.
fn member(fleet: &Fleet<'_>, name: &str, net: &str) -> Seed {
    let (site, token) = fleet.member(name, "tunnel: {data_plane: kernel}\n");
    Seed::new(name, net)
        .with([
            (SITE, "0644", site),
            ("/etc/kedge/token", "0600", token),
            ("/srv/api.py", "0644", SERVER.to_owned()),
            ("/etc/systemd/system/k3s.service", "0644", K3S.to_owned()),
        ])
        .starting("k3s")
}

fn at_vip(client: &Host) -> Option<String> {
    connects::once(client, SocketAddr::new(VIP.parse().unwrap(), API))
}

/// Whether the cluster's VIP is elsewhere, and this host knows where.
fn stands_by(guest: &Guest) -> bool {
    let said = guest.kedge("status -o json").out;
    let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    let vip = &status["vips"][0];
    vip["state"] == "Backup" && vip["active"].is_object()
}

const API: u16 = 6443;
/// The first of the ports that the site's gateway may give away.
const THROUGH_THE_GATEWAY: u16 = 30000;
/// What Kedge writes for cloud-init is what cloud-init takes.
const SCHEMA: &str = "kedge init --vip 10.20.14.10 --emit cloud-init --for k3s >/run/user-data && \
                      cloud-init schema --config-file /run/user-data";
const GAP: Duration = millis(100);
const SITE: &str = "/etc/kedge/agent.yaml.d/10-site.yaml";
/// In the place of an API server, and by the name of one: it stops at once when it is told to.
const K3S: &str = "[Service]\nExecStart=/usr/bin/python3 /srv/api.py\n\
                   [Install]\nWantedBy=multi-user.target\n";
const SERVER: &str = "\
import socket
listener = socket.create_server(('::', 6443), family=socket.AF_INET6, backlog=512, dualstack_ipv6=True)
who = socket.gethostname().encode() + b'\\n'
while True:
    stream, _ = listener.accept()
    try:
        stream.sendall(who)
        stream.close()
    except OSError:
        pass
";
