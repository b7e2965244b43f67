//! Kubernetes' own controllers: garbage collection, namespace deletion, aggregation of roles.

use std::process::Command;

use crate::{
    assets::{Program, ready},
    process::Process,
    server::Server,
};

/// The controller manager, with the controllers whose absence tests would see.
#[derive(Debug)]
pub struct Controllers {
    process: Process,
}

impl Controllers {
    /// Starts them, or says why they cannot be had.
    ///
    /// They look for new kinds every 30 s: start them after the definitions.
    pub fn start(server: &Server) -> Option<Self> {
        Self::start_with(server, CONTROLLERS)
    }

    /// Starts those that are named, separated by commas.
    pub fn start_with(server: &Server, controllers: &str) -> Option<Self> {
        if !ready(&[Program::ControllerManager]) {
            return None;
        }
        let mut command = Command::new(Program::ControllerManager.path().unwrap());
        command
            .arg(format!(
                "--kubeconfig={}",
                server.kubeconfig("admin").display()
            ))
            .arg(format!("--controllers={controllers}"))
            // What Pods are told to trust.
            .arg(format!("--root-ca-file={}", server.certificate().display()))
            .args(["--leader-elect=false", "--secure-port=0"]);
        let process = Process::start("kube-controller-manager", server.folder(), &command).unwrap();
        Some(Self { process })
    }

    /// Their process.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,\
    clusterrole-aggregation-controller";
