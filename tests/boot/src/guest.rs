//! A machine of its own: the appliance's system in QEMU, with a kernel, a boot and a power switch.

use std::{
    cell::RefCell,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use kedge_dist::appliance::{self, System};
use kedge_tests_netns::{
    asked::{Asked, Said},
    lan::{BRIDGE, Lan},
    quietly, secs,
};
use serde_json::{Value, json};

use crate::seed::Seed;

/// A guest on the LAN. Its power is cut when it is dropped.
#[derive(Debug)]
pub struct Guest {
    name: String,
    qemu: Child,
    power_on: Instant,
    line: RefCell<Line>,
    console: PathBuf,
    screen: PathBuf,
}

/// The way in that is not the network.
#[derive(Debug)]
struct Line {
    out: UnixStream,
    back: BufReader<UnixStream>,
    asked: u64,
}

impl Guest {
    /// Switches one on, whose disk is this one or the system's; what is written to it goes with the guest.
    #[must_use]
    pub fn boot(lan: &Lan, system: &System, disk: Option<&Path>, seed: Seed) -> Self {
        let name = seed.name().to_owned();
        let folder = lan.directory().join(format!("guest-{name}"));
        fs::create_dir(&folder).unwrap();
        let beside = seed.disk().map(Path::to_owned);
        let iso = seed.with(files()).starting("asked").write(&folder);
        let tap = format!("t-{name}");
        let mac = mac(&name);
        let plug = format!("ip tuntap add {tap} mode tap && ip link set {tap} master {BRIDGE} up");
        let mut command = Command::new("sh");
        command.args(["-c", &plug]);
        assert!(lan.spawn(command).wait().unwrap().success(), "{plug}");
        let (console, socket) = (folder.join("console"), folder.join("asked"));
        let screen = folder.join("screen");
        let mut qemu = Command::new(appliance::runner());
        qemu.arg(system.folder())
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-serial", &format!("file:{}", screen.display())])
            .args(["-netdev", &netdev(&tap)])
            .args(["-device", &format!("virtio-net-pci,netdev=lan,mac={mac}")])
            .args(["-drive", &drive("seed", &iso)])
            .args(["-device", "virtio-blk-pci,drive=seed"])
            .args(["-device", "virtio-serial-pci"])
            .args(["-chardev", &chardev(&socket)])
            .args(["-device", "virtserialport,chardev=asked,name=asked"])
            .env("SNAPSHOT", "on")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("qemu")).unwrap());
        if let Some(beside) = beside {
            qemu.args(["-drive", &drive("beside", &beside)]);
            qemu.args(["-device", "virtio-blk-pci,drive=beside"]);
        }
        if let Some(disk) = disk {
            qemu.env("DISK", disk);
        }
        let power_on = Instant::now();
        let mut qemu = lan.spawn(qemu);
        let mut connected = None;
        quietly("QEMU starts", secs(20), || {
            let said = || fs::read_to_string(folder.join("qemu"));
            assert!(qemu.try_wait().unwrap().is_none(), "{:?}", said());
            connected = UnixStream::connect(&socket).ok();
            connected.is_some()
        });
        let out = connected.unwrap();
        let back = BufReader::new(out.try_clone().unwrap());
        let line = RefCell::new(Line {
            out,
            back,
            asked: 0,
        });
        Self {
            name,
            qemu,
            power_on,
            line,
            console,
            screen,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long its power is on.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.power_on.elapsed()
    }

    /// Waits until it can be asked, and says for how long it has been on then. After cloud-init, that is.
    pub fn is_up(&self, limit: Duration) -> Duration {
        let said = self.line.borrow_mut().ask("true", limit);
        assert!(said.is_some(), "{} is not up within {limit:?}", self.name);
        // What is still at work would be in the way of what is measured.
        _ = self.run("systemctl is-system-running --wait");
        println!("{} is up after {:?}", self.name, self.uptime());
        self.uptime()
    }

    /// Runs a line of its shell.
    #[must_use]
    pub fn run(&self, line: &str) -> Said {
        let answer = self.line.borrow_mut().ask(line, secs(60));
        answer.unwrap_or(Said {
            code: -1,
            out: String::new(),
            err: "no answer".into(),
        })
    }

    /// Runs a line of its shell, and insists on it.
    pub fn does(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out
    }

    /// Tells it something that it will not answer.
    pub fn orders(&self, line: &str) {
        _ = self.line.borrow_mut().ask(line, secs(3));
    }

    /// Waits until its kernel is told to start anew.
    pub fn goes_down(&self, limit: Duration) {
        quietly(&format!("{} goes down", self.name), limit, || {
            self.console().contains("reboot: Restarting system")
        });
    }

    /// What came over its console.
    #[must_use]
    pub fn console(&self) -> String {
        text(&self.console)
    }

    /// What came over its second serial line, `ttyS1`, where a screen may be.
    #[must_use]
    pub fn screen(&self) -> String {
        text(&self.screen)
    }
}

impl Line {
    /// Asks, and waits for the answer; what comes late to earlier questions is passed over.
    fn ask(&mut self, line: &str, limit: Duration) -> Option<Said> {
        self.asked += 1;
        let question = json!({"number": self.asked, "line": line});
        self.out
            .write_all(format!("{question}\n").as_bytes())
            .ok()?;
        let begun = Instant::now();
        let mut text = Vec::new();
        while begun.elapsed() < limit {
            self.out.set_read_timeout(Some(secs(1))).unwrap();
            // What was read before the time was up stays in the text.
            if self.back.read_until(b'\n', &mut text).unwrap_or(0) == 0 || !text.ends_with(b"\n") {
                continue;
            }
            let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
            text.clear();
            if answer["number"] == self.asked {
                let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
                return Some(Said {
                    code: answer["code"].as_i64()?.try_into().ok()?,
                    out: text("out"),
                    err: text("err"),
                });
            }
        }
        None
    }
}

impl Asked for Guest {
    fn kedge(&self, line: &str) -> Said {
        self.run(&format!("kedge {line}"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.line.borrow_mut().ask(JOURNAL, secs(20));
            let journal = journal.map(|it| it.out).unwrap_or_default();
            eprintln!("--- {}\n{}\n{journal}", self.name, self.console());
        }
        _ = self.qemu.kill();
        _ = self.qemu.wait();
    }
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What answers in the guest.
fn files() -> [(&'static str, &'static str, String); 2] {
    [
        ("/srv/asked.py", "0644", ASKED.to_owned()),
        (
            "/etc/systemd/system/asked.service",
            "0644",
            "[Unit]\nDefaultDependencies=no\nAfter=basic.target\n[Service]\n\
             ExecStart=/usr/bin/python3 /srv/asked.py\n\
             [Install]\nWantedBy=multi-user.target\n"
                .to_owned(),
        ),
    ]
}

fn netdev(tap: &str) -> String {
    format!("tap,id=lan,ifname={tap},script=no,downscript=no")
}

fn drive(name: &str, iso: &Path) -> String {
    let iso = iso.display();
    format!("file={iso},format=raw,if=none,id={name},readonly=on")
}

fn chardev(socket: &Path) -> String {
    let socket = socket.display();
    format!("socket,id=asked,path={socket},server=on,wait=off")
}

/// Of its name: the same at each boot.
fn mac(name: &str) -> String {
    let last = name.bytes().fold(0, u8::wrapping_add);
    format!("52:54:00:77:00:{last:02x}")
}

const JOURNAL: &str = "journalctl --no-pager -q -o short-precise -u kedge-agent -u cloud-final | tail -80; \
                       systemctl --failed --no-pager --no-legend";
const ASKED: &str = "\
import json, os, subprocess
port = os.open('/dev/virtio-ports/asked', os.O_RDWR)
rest = b''
while True:
    rest += os.read(port, 65536)
    while b'\\n' in rest:
        line, rest = rest.split(b'\\n', 1)
        asked = json.loads(line)
        ran = subprocess.run(['sh', '-c', asked['line']], stdin=subprocess.DEVNULL, capture_output=True)
        said = {'number': asked['number'], 'code': ran.returncode,
                'out': ran.stdout.decode(errors='replace'), 'err': ran.stderr.decode(errors='replace')}
        answer = json.dumps(said).encode() + b'\\n'
        while answer:
            answer = answer[os.write(port, answer):]
";
