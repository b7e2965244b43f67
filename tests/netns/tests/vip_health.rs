//! The health gate of two hosts beside a keepalived: it moves the VIP through priority bands, and takes
//! it from nobody.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    keepalived::{Keepalived, Settings},
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
};

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

/// An API server's certificate and key, its own authority.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    fs::create_dir_all(directory).unwrap();
    let (certificate, key) = (directory.join("crt.pem"), directory.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// An API server on a host, until it is dropped.
struct Server(Child);

impl Server {
    fn start(host: &Host, (certificate, key): &(PathBuf, PathBuf)) -> Self {
        let mut command = Command::new(KEDGE);
        command
            .args(["lab-role", "apiserver", "--name", &host.name])
            .args(["--listen", "127.0.0.1:6443", "--certificate"])
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Self(host.spawn(command))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A member that believes the API server under `ca` alone.
fn member(priority: u8, unhealthy: u8, ca: &Path) -> String {
    format!(
        "vips: {{api: {{addresses: [{VIP}], vrid: 51, members: mixed, priority: {priority}, \
         unhealthy_priority: {unhealthy}, preempt: true, startup_delay: 500ms, \
         health: {{url: 'https://127.0.0.1:6443/readyz', ca_file: {}, interval: 100ms, \
         timeout: 1s, rise: 1, fall: 2}}}}}}\n",
        ca.display()
    )
}

#[test]
fn a_host_that_is_never_healthy_has_the_vip_while_nobody_better_lives_and_a_keepalived_is_one() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let c = lan.host("c", "10.20.14.13/24");
        let [mine, other] = ["mine", "other"].map(|it| certificate(&b.directory().join(it)));
        // It answers, and is none of those the host believes.
        let _stranger = Server::start(&a, &other);
        let first = Agent::running(&a, KEDGE, &member(250, 60, &mine.0));
        eventually("the ill one has it: nobody else is there", secs(10), || {
            a.holds(VIP)
        });
        assert_eq!(first.priority(), 60);
        eventually("it says why it is ill", secs(5), || {
            let why = first.explanation()["because"].to_string();
            why.contains("health unproven") && why.contains("TLS handshake failed")
        });

        let theirs = || {
            let settings = Settings {
                version: 3,
                vrid: 51,
                priority: 150,
                advert_int: "0.1",
                vips: &["10.20.14.10/32"],
                preempt: true,
                lines: "",
            };
            Keepalived::start(&c, settings)
        };
        let keepalived = theirs();
        eventually("keepalived takes it from the ill one", secs(5), || {
            c.holds(VIP) && !a.holds(VIP)
        });

        let server = Server::start(&b, &mine);
        let second = Agent::running(&b, KEDGE, &member(240, 50, &mine.0));
        eventually("the healthy one takes it from both", secs(10), || {
            b.holds(VIP) && !a.holds(VIP) && !c.holds(VIP)
        });
        assert_eq!(second.priority(), 240);

        drop(server);
        let took = eventually("keepalived has what falls ill", secs(5), || {
            c.holds(VIP) && !b.holds(VIP)
        });
        println!("{took:?} after its API server died");
        throughout("the ill ones leave it there", millis(500), || {
            !a.holds(VIP) && !b.holds(VIP)
        });
        drop(keepalived);
        eventually("of two ill ones the better one has it", secs(3), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        throughout("it stays", millis(500), || a.holds(VIP) && !b.holds(VIP));

        let _server = Server::start(&b, &mine);
        eventually("the first healthy one pulls it", secs(5), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        let _keepalived = theirs();
        throughout("and keeps it from keepalived", secs(1), || {
            b.holds(VIP) && !c.holds(VIP)
        });
    });
}
