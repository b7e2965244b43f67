//! Roles and commands under bad conditions, as an operator meets them: the code, the exit code,
//! and that what can run goes on running. Every role runs in a network namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// A root directory, and the executable where everybody can run it.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a child of a test beside this one could inherit the open copy, and
        // a file that is open for writing does not run.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_kedge"))
            .arg(dir.path())
            .status();
        assert!(copied.unwrap().success());
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// `kedge --root ROOT ARGS…` behind the words of `before`, such as `setpriv …`.
    fn command(&self, before: &str, root: &str, args: &str) -> Command {
        let kedge = self.path("kedge").display().to_string();
        let root = self.path(root).display().to_string();
        let words = before.split_whitespace().map(str::to_owned);
        let mut words = words.chain([kedge, "--root".to_owned(), root]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(args.split_whitespace())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null());
        command
    }

    /// The exit code and everything that was said.
    fn run(&self, before: &str, args: &str) -> (i32, String) {
        said(&self.command(before, "root", args).output().unwrap())
    }

    /// A role that runs until dropped.
    fn start(&self, before: &str, args: &str) -> Role {
        let log = self.write("log", "");
        let mut command = self.command(before, "root", args);
        let log = fs::File::create(log).unwrap();
        Role(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// A manager over `objects` that runs until dropped, and its socket.
    fn manager(&self) -> (Role, PathBuf) {
        let objects = self.path("objects").display().to_string();
        let listen = "--set listen=[::]:0";
        let manager = self.start(OWN_NETWORK, &format!("manager --dir {objects} {listen}"));
        let socket = self.path("root/run/kedge/manager.sock");
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let log = fs::read_to_string(self.path("log")).unwrap();
            assert!(start.elapsed() < LIMIT, "{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        (manager, socket)
    }

    /// Waits until the status of what runs says `code`, and that it goes on running.
    fn told(&self, role: &mut Role, code: &str) -> String {
        let start = Instant::now();
        loop {
            let (_, text) = self.run("", "status -o json");
            if text.contains("AgentStatus") && text.contains(code) {
                assert!(role.0.try_wait().unwrap().is_none(), "it ended");
                return text;
            }
            let log = || fs::read_to_string(self.path("log")).unwrap();
            assert!(start.elapsed() < LIMIT, "{code}: {text}\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

struct Role(Child);

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let code = output.status.code().expect("no signal");
    (code, String::from_utf8(text).unwrap())
}

/// Whether this can run here at all.
fn root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let is = status.contains("\nUid:\t0\t");
    if !is {
        eprintln!("skipped: needs root");
    }
    is
}

const LIMIT: Duration = Duration::from_secs(20);
/// How many connections a control socket has at a time.
const PLACES: usize = 128;
const OWN_NETWORK: &str = "unshare -n";
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
const NO_CAPABILITIES: &str =
    "unshare -n setpriv --bounding-set -net_admin,-net_raw --inh-caps -net_admin,-net_raw";
const TUNNEL: &str = "
tunnel:
  listen_port: 51820
  addresses: ['10.9.0.2/32']
  allowed: ['10.9.0.0/16']
  peers:
    gw:
      public_key: tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=
      allowed_ips: ['10.9.0.1/32']
";

#[test]
fn a_flag_out_of_range_ends_in_1_and_names_the_key() {
    let site = Site::new();
    for (flag, words) in [
        ("vips.api.vrid=0", "vrid must be 1 to 255, not 0"),
        ("vips.api.vrid=256", "vrid must be 1 to 255, not 256"),
        ("vips.api.vird=1", "did you mean `vrid`?"),
        ("vips.api.vrid=7", "a VIP needs an address"),
        ("tunnel.listen_port=65536", "65536"),
    ] {
        let (code, text) = site.run("", &format!("agent --set {flag}"));
        assert_eq!(code, 1, "{flag}: {text}");
        assert!(text.contains(words), "{flag}: {text}");
        assert!(text.contains("KEDGE-CFG-000"), "{flag}: {text}");
        assert!(text.contains("flag --set"), "{flag}: {text}");
        assert!(text.contains("so: "), "{flag}: {text}");
        let (code, text) = site.run("", &format!("agent -o json --set {flag}"));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["kind"]), (1, &Value::from("Problem")));
    }
    assert_eq!(site.run("", "gateway --set tunnel.listen_port=0").0, 1);
    let (code, text) = site.run("", "manager --set listen=9443");
    assert_eq!(code, 1);
    assert!(text.contains("such as `127.0.0.1:9443`"), "{text}");
}

#[test]
fn what_a_role_may_not_do_ends_in_6() {
    if !root() {
        return;
    }
    let site = Site::new();
    site.write(
        "root/etc/kedge/agent.yaml",
        "vips: {api: {addresses: [10.20.14.10]}}\n",
    );
    fs::create_dir_all(site.path("root/run")).unwrap();
    let (code, text) = site.run(NO_CAPABILITIES, "agent");
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("KEDGE-NET-0001"), "{text}");
    assert!(text.contains("CAP_NET_ADMIN"), "{text}");
    let objects = site.write("objects/readme.txt", "");
    let objects = objects.parent().unwrap();
    fs::set_permissions(objects, fs::Permissions::from_mode(0o777)).unwrap();
    let manager = format!(
        "manager --set listen=127.0.0.1:0 --dir {}",
        objects.display()
    );
    for role in ["agent", "gateway", &manager] {
        let (code, text) = site.run(&format!("{OWN_NETWORK} {NOBODY}"), role);
        assert_eq!(code, 6, "{role}: {text}");
        assert!(text.contains("KEDGE-HOST-0005"), "{role}: {text}");
    }
}

#[test]
fn the_lab_without_root_ends_in_6() {
    if !root() {
        return;
    }
    let site = Site::new();
    for command in [
        "demo",
        "up",
        "down",
        "status",
        "kill edge-a",
        "cut edge-a",
        "bench vip",
    ] {
        let (code, text) = site.run(NOBODY, &format!("lab {command}"));
        assert_eq!(code, 6, "{command}: {text}");
        assert!(text.contains("KEDGE-LAB-0001"), "{command}: {text}");
    }
    let (_, text) = site.run(NOBODY, "lab demo -o json");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["kind"], "Problem");
}

#[test]
fn who_may_not_ask_is_6_and_garbage_at_the_socket_stops_nothing() {
    if !root() {
        return;
    }
    let site = Site::new();
    let mut agent = site.start(OWN_NETWORK, "agent");
    site.told(&mut agent, "AgentStatus");
    for command in ["status", "vip list", "tunnel list", "config view --running"] {
        let (code, text) = site.run(NOBODY, command);
        assert_eq!(code, 6, "{command}: {text}");
        assert!(text.contains("KEDGE-HOST-0005"), "{command}: {text}");
    }
    let socket = site.path("root/run/kedge/agent.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(site.run(NOBODY, "vip list").0, 0, "reading is free now");

    let large = format!(
        "POST /v1/reload HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n{}",
        "[".repeat(4_000_000)
    );
    for garbage in [
        &[0xff; 9_000][..],
        b"GET / HTTP/9.9\r\n\r\n",
        large.as_bytes(),
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.read(&mut [0; 64]);
    }
    // Half a request each, and more of them than there are places.
    let held: Vec<UnixStream> = (0..100)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(b"GET /v1/sta").unwrap();
            stream
        })
        .collect();
    site.told(&mut agent, "AgentStatus");
    drop(held);
    let text = fs::read_to_string(site.path("log")).unwrap();
    assert!(!text.contains("panic"), "{text}");
}

#[test]
fn a_tunnel_without_its_device_or_its_port_is_told_and_the_agent_runs() {
    if !root() {
        return;
    }
    let site = Site::new();
    site.write("root/etc/kedge/agent.yaml", TUNNEL);
    let other = format!("{TUNNEL}  interface: kedge9\n");
    site.write("other/etc/kedge/agent.yaml", other);
    let kedge = site.path("kedge");
    let script = site.write(
        "without-tun",
        "#!/bin/sh\nmount -t tmpfs none /dev/net && exec \"$@\"\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut agent = site.start(&format!("unshare -n -m {}", script.display()), "agent");
    site.told(&mut agent, "KEDGE-TUN-0001");
    drop(agent);

    // Two in one namespace: the second finds the port taken, until the first has gone.
    let script = site.write(
        "beside-another",
        format!(
            "#!/bin/sh\n{} --root {} agent & first=$!\n\
             until ss -lun | grep -q :51820; do sleep 0.1; done\n\
             (while [ ! -e {} ]; do sleep 0.1; done; kill $first) &\nexec \"$@\"\n",
            kedge.display(),
            site.path("other").display(),
            site.path("enough").display()
        ),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let before = format!("unshare -n --pid --fork --kill-child {}", script.display());
    let mut agent = site.start(&before, "agent");
    site.told(&mut agent, "KEDGE-TUN-0002");
    site.write("enough", "");
    let start = Instant::now();
    while site.run("", "status -o json").1.contains("KEDGE-TUN-0002") {
        assert!(start.elapsed() < LIMIT, "the port is free");
        std::thread::sleep(Duration::from_millis(50));
    }
    site.told(&mut agent, "AgentStatus");
}

#[test]
fn a_token_file_that_holds_no_token_is_told_and_the_agent_runs() {
    if !root() {
        return;
    }
    let site = Site::new();
    let token = site.write("token", "");
    site.write(
        "root/etc/kedge/agent.yaml",
        format!(
            "manager: {{url: 'https://127.0.0.1:9', token_file: {}}}\n",
            token.display()
        ),
    );
    let noise: Vec<u8> = (0..300_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    for (bytes, mode, code) in [
        (&b""[..], 0o600, "KEDGE-ENR-0001"),
        (&noise[..4000], 0o600, "KEDGE-ENR-0001"),
        (&noise, 0o600, "KEDGE-ENR-0007"),
        (b"kedge1.a.b", 0o600, "KEDGE-ENR-0001"),
        (b"kedge1.abcdefgh01.x.y", 0o644, "KEDGE-ENR-0007"),
    ] {
        fs::write(&token, bytes).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        let mut agent = site.start(OWN_NETWORK, "agent");
        let text = site.told(&mut agent, code);
        assert!(!text.contains("kedge1.a"), "never repeated: {text}");
    }
}

#[test]
fn corrupt_state_is_told_and_the_agent_runs() {
    if !root() {
        return;
    }
    let site = Site::new();
    site.write("root/etc/kedge/agent.yaml", TUNNEL);
    let dir = "root/var/lib/kedge/agent";
    let files = ["desired.json", "claims.json", "membership.json"];
    for garbage in [&b""[..], &[0xff; 5_000], b"{\"a\":"] {
        for file in files {
            site.write(&format!("{dir}/{file}"), garbage);
        }
        let mut agent = site.start(OWN_NETWORK, "agent");
        site.told(&mut agent, "KEDGE-HOST-0001");
        drop(agent);
        let aside = fs::read_dir(site.path(dir)).unwrap();
        let aside = aside.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(aside.into_iter().any(|name| name.contains(".corrupt-")));
        for (key, mode) in [("tunnel.key", 0o600), ("identity.key", 0o644)] {
            let path = site.write(&format!("{dir}/{key}"), garbage);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut agent = site.start(OWN_NETWORK, "agent");
        site.told(&mut agent, "tunnel.key");
        assert_eq!(
            fs::read(site.path(&format!("{dir}/tunnel.key"))).unwrap(),
            garbage,
            "a key is never replaced"
        );
        drop(agent);
        fs::remove_dir_all(site.path(dir)).unwrap();
    }
}

#[test]
fn a_manager_whose_port_is_taken_or_not_its_own_does_not_start() {
    let site = Site::new();
    let objects = site.write("objects/readme.txt", "");
    let objects = objects.parent().unwrap().display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    for (address, words) in [
        (taken.to_string(), "stop what uses the port"),
        ("192.0.2.1:9443".to_owned(), "an address of this machine"),
    ] {
        let (code, text) = site.run(
            "",
            &format!("manager --dir {objects} --set listen={address}"),
        );
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("KEDGE-HOST-0003"), "{text}");
        assert!(text.contains(&address) && text.contains(words), "{text}");
    }
    assert!(!Path::new(&site.path("root/run/kedge/manager.sock")).exists());
}

#[test]
fn only_root_makes_tokens_whoever_may_open_the_socket() {
    if !root() {
        return;
    }
    let site = Site::new();
    site.write(
        "objects/tenant.yaml",
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec: {namespace: t}\n",
    );
    let (_manager, socket) = site.manager();
    let (code, text) = site.run(NOBODY, "token list");
    assert_eq!(code, 6, "{text}");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, text) = site.run(NOBODY, "token create --tenant t");
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("KEDGE-HOST-0005"), "{text}");
    assert!(text.contains("only root"), "{text}");
    let (code, text) = site.run("", "token create --tenant nobody");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("KEDGE-API-0004"), "{text}");
    let (code, text) = site.run("", "token create --tenant t --ttl 60d");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("1s to 30d"), "{text}");
    // Nor does the manager rely on the command line for it.
    let body = r#"{"role":"Host","tenant":"t","ttlSeconds":5184000,"maxUses":1}"#;
    let mut asked = UnixStream::connect(&socket).unwrap();
    write!(
        asked,
        "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("KEDGE-CFG-0003"), "{answer}");
    assert!(answer.contains("2592000"), "{answer}");
}

#[test]
fn the_managers_socket_is_one_process_alone_and_has_so_many_places() {
    if !root() {
        return;
    }
    let site = Site::new();
    site.write("objects/readme.txt", "");
    let (_manager, socket) = site.manager();
    let other = site.write("other/readme.txt", "");
    let other = other.parent().unwrap().display().to_string();
    let second = format!("manager --dir {other} --set listen=[::]:0");
    let (code, text) = site.run(OWN_NETWORK, &second);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("KEDGE-HOST-0003"), "{text}");
    assert!(text.contains("manager.sock"), "{text}");

    let mut silent: Vec<UnixStream> = (0..PLACES)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let mut late = UnixStream::connect(&socket).unwrap();
    late.write_all(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut answer = [0; 15];
    let waits = late.read(&mut answer).unwrap_err();
    assert_eq!(waits.kind(), ErrorKind::WouldBlock, "{answer:?}");
    drop(silent.pop());
    late.set_read_timeout(Some(LIMIT)).unwrap();
    late.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}
