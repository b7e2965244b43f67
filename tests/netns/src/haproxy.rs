//! A real HAProxy on a host.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{lan::Host, quietly, secs};

/// A running HAProxy; killed when dropped.
#[derive(Debug)]
pub struct Haproxy {
    process: Child,
    _directory: TempDir,
}

/// What comes to a port goes on to a server, behind a header of the PROXY protocol.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The port.
    pub port: u16,
    /// The server.
    pub to: SocketAddr,
    /// What the server's line ends with, such as `send-proxy`.
    pub header: &'static str,
}

impl Haproxy {
    /// Starts it and waits until it listens.
    #[must_use]
    pub fn start(host: &Host, carried: &[Carried]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("haproxy.cfg");
        let mut text = "global\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 2s\n  \
                        timeout client 1m\n  timeout server 1m\n"
            .to_owned();
        for Carried { port, to, header } in carried {
            let each = format!("listen p{port}\n  bind :{port}\n  server one {to} {header}\n");
            text.write_str(&each).unwrap();
        }
        fs::write(&config, text).unwrap();
        let output = fs::File::create(directory.path().join("out")).unwrap();
        let mut command = Command::new("/usr/sbin/haproxy");
        command
            .arg("-db")
            .arg("-f")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = host.spawn(command);
        let ports: Vec<u16> = carried.iter().map(|carried| carried.port).collect();
        quietly("HAProxy listens", secs(5), || {
            let ports = ports.clone();
            host.run(move || {
                let open = |port: &u16| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok();
                ports.iter().all(open)
            })
        });
        Self {
            process,
            _directory: directory,
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
