//! What systemd's units have to do with a VIP: the agent's own, started by one command; those that are
//! tracked; those that stop while the host is drained.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use kedge_tests_boot::{links::Links, node::Node, on_booted_nodes, pair::VIP};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    millis, secs, throughout,
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

const K3S: &str = "[Service]\nExecStart=/bin/sleep infinity\n";
/// What the hosts of the VIP have in common.
const VRID: &str = "vips: {api: {vrid: 51, startup_delay: 500ms}}\n";
const TRACK: &str = "vips: {api: {track: {server: {unit: k3s, critical: true}}}}\n\
                     node: {drain_stops: [k3s.service]}\n";
/// A tunnel to nobody, and names that are asked about through it.
const TUNNEL: &str = "tunnel: {addresses: [198.18.0.1/32], peers: {gw: {public_key: \
                      tyl9uGLQIGkucFkvGTZQtiYxZiuO/4uC6KTqqnODGyc=, allowed_ips: [198.18.0.0/24]}}";
const NAMES: &str = ", dns: {servers: [198.18.0.53], domains: [LB.example.com]}";
const MANAGER: &str = "manager: {url: \"https://10.20.14.99:9443\"}\n";
const OTHER: &str = "vips: {api: {addresses: [10.20.14.10], health: none, vrid: 51, priority: 192, \
                     startup_delay: 500ms}}\n";

#[test]
fn a_vip_goes_where_its_unit_runs_and_a_drain_stops_it_last() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let a = Node::boot(
            &lan,
            "a",
            (Links::Networkd, "10.20.14.11/24"),
            KEDGE,
            "version: 1\n",
        );
        let host = lan.host("b", "10.20.14.12/24");
        a.is_up();

        // The agent's unit is there as a package leaves it, and nobody has enabled it.
        a.does("systemctl disable --now kedge-agent");
        a.write("etc/credstore/kedge.config", VRID);
        let up = a.run("kedge up --vip 10.20.14.10/24 --health none --persist");
        println!("{}", up.err);
        assert!(
            up.code == 0 && up.err.contains("10.20.14.10/24 is on this host (eth0)"),
            "{up:?}"
        );
        assert!(a.holds(VIP));
        a.does("systemctl is-enabled kedge-agent");
        assert_eq!(a.vip()["vrid"], 51, "the credential counts");
        assert_eq!(
            a.run("kedge up --vip 10.20.14.20").code,
            8,
            "an agent runs already"
        );

        let b = Agent::running(&host, KEDGE, OTHER);
        eventually("b stands by", secs(5), || b.stands_by());
        on_the_bus(&a, &host);
        let track = || {
            a.vip()["tracks"][0]["because"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        a.write("etc/kedge/agent.yaml.d/95-track.yaml", TRACK);
        a.systemctl("reload");
        eventually("b takes it, without a unit on a", secs(5), || {
            host.holds(VIP)
        });
        assert_eq!(track(), "k3s.service does not exist");
        a.write("etc/systemd/system/k3s.service", K3S);
        a.does("systemctl daemon-reload");
        a.does("systemctl start k3s");
        eventually("it runs", secs(5), || {
            track() == "k3s.service is active (running)"
        });
        eventually("a stands by", secs(5), || a.stands_by());
        a.does("kedge vip move api --yes");
        eventually("a holds it again", secs(5), || a.holds(VIP));

        a.does("systemctl stop dbus.socket dbus.service");
        eventually("nobody can be asked", secs(5), || {
            track().contains("counts as before")
        });
        throughout("it stays", millis(500), || a.holds(VIP));
        a.does("systemctl start dbus.socket dbus.service");
        eventually("systemd is asked again", secs(10), || {
            track() == "k3s.service is active (running)"
        });
        a.does("systemctl kill -s KILL k3s");
        eventually("b takes it", secs(5), || host.holds(VIP));

        a.does("systemctl restart k3s");
        eventually("a stands by again", secs(5), || a.stands_by());
        a.does("kedge vip move api --yes");
        eventually("a holds it once more", secs(5), || a.holds(VIP));
        let active = || a.run("systemctl is-active k3s").out;
        a.does("kedge drain --yes");
        eventually("k3s is stopped", secs(5), || active() == "inactive\n");
        assert!(host.holds(VIP) && !a.holds(VIP), "the VIP is late");
        a.does("kedge undrain");
        eventually("k3s is started", secs(5), || active() == "active\n");
        drop(b);

        let link = |what: &str| a.run(&format!("resolvectl {what} kedge0")).out;
        let tunnel = |more: &str| {
            a.write(
                "etc/kedge/agent.yaml.d/96-tunnel.yaml",
                &format!("{TUNNEL}{more}}}\n"),
            );
            a.systemctl("reload");
        };
        a.does("systemctl start systemd-resolved");
        tunnel(NAMES);
        eventually("names are asked about in the tunnel", secs(5), || {
            link("domain").ends_with(": ~lb.example.com\n")
        });
        assert!(link("dns").ends_with(": 198.18.0.53\n"), "{}", link("dns"));
        assert!(
            link("default-route").ends_with(": no\n"),
            "{}",
            link("default-route")
        );
        its_domains_alone_are_asked_about_in_the_tunnel(&a);
        tunnel("");
        eventually("it is taken back", secs(5), || {
            link("domain").ends_with("):\n")
        });
        a.does("systemctl stop systemd-resolved");

        // Not a token, but read as one.
        a.write("etc/credstore/kedge.token", "no token\n");
        a.write("etc/kedge/agent.yaml.d/97-manager.yaml", MANAGER);
        a.systemctl("restart");
        // It was on the bus before that went away, and is again from its start on.
        the_peer_is_on_the_bus(&a);
        eventually("the token that systemd has is read", secs(10), || {
            let said = a.run("kedge status -o json").out;
            said.contains("/run/credentials/kedge-agent.service/kedge.token")
        });
    });
}

/// Questions about names leave by the tunnel for the domains that are configured, and for no others.
fn its_domains_alone_are_asked_about_in_the_tunnel(a: &Node) {
    a.does("nft add table inet asked");
    a.does("nft add chain inet asked out { type filter hook output priority 0 ; }");
    a.does("nft add rule inet asked out oifname kedge0 udp dport 53 counter");
    let asked = || -> u64 {
        let shown = a.run("nft list chain inet asked out").out;
        let (_, count) = shown.split_once("packets ").unwrap();
        count.split(' ').next().unwrap().parse().unwrap()
    };
    let other = a.run("resolvectl query www.example.org");
    assert_ne!(other.code, 0, "{other:?}");
    assert_eq!(asked(), 0, "{other:?}");
    let mut query = a.inside("resolvectl query api.lb.example.com");
    let mut query = query.spawn().unwrap();
    eventually("it is asked about in the tunnel", secs(5), || asked() > 0);
    _ = query.kill();
    _ = query.wait();
    a.does("nft delete table inet asked");
}

/// What the agent is on the bus, and who may do what there. It holds the VIP, before and after.
fn on_the_bus(a: &Node, other: &Host) {
    let groups = std::fs::read_to_string(a.path("etc/group")).unwrap();
    a.write("etc/group", &format!("{groups}kedge:x:990:\n"));
    a.does("systemctl reload dbus");
    let get = "busctl get-property dev.kedge.Agent1 /dev/kedge/Agent1/vip/api dev.kedge.Agent1.VIP";
    let state = || a.run(&format!("{get} State")).out;
    eventually("it is on the bus", secs(5), || state() == "s \"Active\"\n");
    // What is below an object stands in its description.
    let xml = a.run("busctl introspect --xml-interface dev.kedge.Agent1 /dev/kedge/Agent1");
    let found = interfaces(&xml.out);
    assert_eq!(found, include_str!("dev.kedge.Agent1.xml"), "{found}");

    let release =
        "busctl call dev.kedge.Agent1 /dev/kedge/Agent1/vip/api dev.kedge.Agent1.VIP Release";
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let member = "setpriv --reuid=65534 --regid=990 --clear-groups";
    assert_ne!(a.run(&format!("{nobody} {get} State")).code, 0);
    assert_eq!(
        a.run(&format!("{member} {get} State")).out,
        "s \"Active\"\n"
    );
    for who in [nobody, member] {
        let refused = a.run(&format!("{who} {release}"));
        assert!(
            refused.code != 0 && refused.err.contains("denied"),
            "{refused:?}"
        );
    }
    assert!(a.holds(VIP));

    let heard = a.path("srv/heard");
    let file = std::fs::File::create(&heard).unwrap();
    let mut monitor = a.inside("busctl monitor --json=short dev.kedge.Agent1");
    let mut monitor = monitor.stdout(file).spawn().unwrap();
    let heard = || std::fs::read_to_string(&heard).unwrap_or_default();
    let look =
        || a.run("busctl call dev.kedge.Agent1 /dev/kedge/Agent1 org.freedesktop.DBus.Peer Ping");
    eventually("the bus is listened to", secs(5), || {
        look().code == 0 && heard().contains("Ping")
    });
    a.does(release);
    eventually("another host takes it", secs(5), || {
        other.holds(VIP) && !a.holds(VIP)
    });
    eventually("it is said", secs(5), || {
        let said = heard();
        said.contains("PropertiesChanged") && said.contains("\"State\"") && said.contains("Backup")
    });
    _ = monitor.kill();
    _ = monitor.wait();
    a.does("kedge vip move api --yes");
    eventually("it is back", secs(5), || {
        a.holds(VIP) && state() == "s \"Active\"\n"
    });
}

/// The peer of the tunnel, which nobody answers for.
fn the_peer_is_on_the_bus(a: &Node) {
    let get = "busctl get-property dev.kedge.Agent1 /dev/kedge/Agent1/tunnel/gw \
               dev.kedge.Agent1.Tunnel State Path";
    let mut seen = String::new();
    eventually("the peer is on the bus", secs(10), || {
        let said = a.run(get);
        let said = format!("{}{}", said.out, said.err);
        if said != seen {
            println!("{said:?}");
            seen = said;
        }
        seen == "s \"Connecting\"\ns \"udp\"\n"
    });
    let xml =
        a.run("busctl introspect --xml-interface dev.kedge.Agent1 /dev/kedge/Agent1/tunnel/gw");
    let found = interfaces(&xml.out);
    assert_eq!(
        found,
        include_str!("dev.kedge.Agent1.Tunnel.xml"),
        "{found}"
    );
}

/// The interfaces of ours in a description.
fn interfaces(xml: &str) -> String {
    let mut found = String::new();
    let mut inside = false;
    for line in xml.lines() {
        inside |= line
            .trim_start()
            .starts_with("<interface name=\"dev.kedge.");
        if inside {
            found.push_str(line);
            found.push('\n');
        }
        inside &= !line.trim_start().starts_with("</interface>");
    }
    found
}
