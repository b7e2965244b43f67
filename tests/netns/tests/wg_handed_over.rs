//! A TUN device and a socket that somebody else opened. In a program of its own: what is left open
//! for one child is left open for every child.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;
use crate::wg;

use std::{
    fs,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::net::UnixListener,
    },
};

use kedge_net::tun::Tun;
use rustix::io::{FdFlags, fcntl_setfd};
use tunnel::*;
use wg::{LIMIT, Wg};

/// Leaves a descriptor open for children and says its number.
fn left_open(fd: &impl AsFd) -> String {
    fcntl_setfd(fd, FdFlags::empty()).unwrap();
    fd.as_fd().as_raw_fd().to_string()
}

#[test]
fn a_device_takes_over_what_was_opened_for_it() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::named(&site.host);
    let tun = site.host.run(|| Tun::open(&device.name)).unwrap().unwrap();
    fs::create_dir_all("/var/run/wireguard").unwrap();
    let listener = UnixListener::bind(device.socket()).unwrap();
    let mut process = site
        .host
        .run(|| {
            let mut command = device.command("kedge-wg", &[&device.name]);
            command
                .env("WG_TUN_FD", left_open(&tun))
                .env("WG_UAPI_FD", left_open(&listener))
                .env("WG_PROCESS_FOREGROUND", "1");
            command.spawn().unwrap()
        })
        .unwrap();
    drop((tun, listener));
    let key = device.file("key", key(1).to_base64().as_str());
    device.set(&format!("private-key {} listen-port 7", key.display()));
    assert_eq!(device.show("listen-port").trim_end(), "7");
    fs::remove_file(device.socket()).unwrap();
    assert!(process.wait().unwrap().success());
    eventually("the interface is gone", LIMIT, || !device.exists());

    let other = Wg::named(&site.host);
    let mut command = other.command("kedge-wg", &["-f", &other.name]);
    let refused = command.env("WG_TUN_FD", "987").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("WG_TUN_FD=987"), "{said}");
}
