//! What a lab needs of the machine, checked before anything is built and all at once.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use kedge_core::{Code, Fix, Problem};

/// Something a lab needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A program, and the Debian package it comes in.
    Program(&'static str, &'static str),
    /// A device, and the kernel module behind it.
    Device(&'static str, &'static str),
}

/// What the demo needs.
pub(crate) const DEMO: [Need; 2] = [
    Need::Program("nft", "nftables"),
    Need::Device("/dev/net/tun", "tun"),
];

/// What the VIP bench needs.
pub(crate) const BENCH_VIP: [Need; 1] = [Need::Program("keepalived", "keepalived")];

/// What the tunnel's bench needs.
pub(crate) const BENCH_TUNNEL: [Need; 7] = [
    Need::Program("ip", "iproute2"),
    Need::Program("nft", "nftables"),
    Need::Program("wg", "wireguard-tools"),
    Need::Program("wireguard-go", "wireguard-go"),
    Need::Program("iperf3", "iperf3"),
    Need::Program("ethtool", "ethtool"),
    Need::Device("/dev/net/tun", "tun"),
];

/// What the bench of BGP and BFD needs.
pub(crate) const BENCH_BGP: [Need; 6] = [
    Need::Program("ip", "iproute2"),
    Need::Program("bird", "bird2"),
    Need::Program("birdc", "bird2"),
    Need::Program("gobgpd", "gobgpd"),
    Need::Program("gobgp", "gobgpd"),
    Need::Program("chrt", "util-linux"),
];

/// What the manager's bench needs, beside an API server.
pub(crate) const BENCH_MANAGER: [Need; 1] = [Need::Program("setpriv", "util-linux")];

/// What the bench of load balancing needs, beside an Envoy. HAProxy is left out where it is missing.
pub(crate) const BENCH_LB: [Need; 2] = [
    Need::Program("nft", "nftables"),
    Need::Device("/dev/net/tun", "tun"),
];

/// Whether a program is there.
pub(crate) fn is_installed(program: &'static str) -> bool {
    Need::Program(program, "").is_met()
}

/// Says everything that is missing, and what to type.
pub(crate) fn check(needs: &[Need]) -> Result<(), Problem> {
    let missing: Vec<_> = needs.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut problem = Problem::new(Code::LabToolMissing, "the lab lacks something it needs")
        .consequence("nothing was built");
    let mut packages = Vec::new();
    let mut modules = Vec::new();
    for need in missing {
        problem = match need {
            Need::Program(program, package) => {
                packages.push(*package);
                problem.evidence(format!("the program {program} is not installed"))
            }
            Need::Device(device, module) => {
                modules.push(*module);
                problem.evidence(format!("{device} cannot be opened"))
            }
        };
    }
    let install = |packages: &[&str]| format!("apt-get install -y {}", packages.join(" "));
    let load = |modules: &[&str]| format!("modprobe {}", modules.join(" "));
    let command = match (packages.as_slice(), modules.as_slice()) {
        (packages, []) => install(packages),
        ([], modules) => load(modules),
        (packages, modules) => format!("{} && {}", install(packages), load(modules)),
    };
    Err(problem.fix(Fix::text("get what is missing").command(command)))
}

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Program(program, _) => {
                let path = env::var_os("PATH").unwrap_or_default();
                env::split_paths(&path).any(|directory| is_executable(&directory.join(program)))
            }
            Self::Device(device, _) => File::options().read(true).write(true).open(device).is_ok(),
        }
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_said_at_once() {
        let needs = [
            Need::Program("sh", "dash"),
            Need::Program("no-such-program", "some-package"),
            Need::Program("nor-this", "another"),
            Need::Device("/dev/no-such-device", "some_module"),
        ];
        let problem = check(&needs).unwrap_err();
        assert_eq!(problem.code, Code::LabToolMissing);
        assert_eq!(problem.evidence.len(), 3, "{problem:?}");
        let command = problem.fix.unwrap().command.unwrap();
        assert_eq!(
            command,
            "apt-get install -y some-package another && modprobe some_module"
        );
        assert!(check(&needs[..1]).is_ok());
    }
}
