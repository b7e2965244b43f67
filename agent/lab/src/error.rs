//! What can go wrong in a lab.

use std::{io, path::PathBuf, time::Duration};

use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::{
    link::LinkError,
    netns::{LeaseError, NetnsError},
    nft::NftError,
};

use crate::client::CallError;

/// Why the lab could not do something.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// A link, an address or a route.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The router's rules.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// The mark of a run.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A file of the lab's own.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A process does not start.
    #[error("cannot start {program} on {node}")]
    Spawn {
        /// The program.
        program: String,
        /// The node.
        node: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The certificates of the stand-in API servers.
    #[error("cannot make a certificate for {0}")]
    Certificate(String, #[source] rcgen::Error),
    /// A node that the topology does not have.
    #[error("there is no node {0}")]
    NoNode(String),
    /// Something did not come about in time.
    #[error("{what} did not happen within {limit:?}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What was seen instead.
        seen: String,
    },
    /// A request to a process of the lab.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A process of the lab said something that was not expected.
    #[error("{who} {said}")]
    Unexpected {
        /// Which process.
        who: String,
        /// What it did.
        said: String,
    },
    /// Another lab is up.
    #[error("a lab is up already")]
    Busy(String),
    /// Somebody wants the lab to end.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// An error about a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

impl Coded for LabError {
    fn problem(&self) -> Problem {
        let told = match self {
            Self::Netns(err) => return err.problem(),
            Self::Link(err) => return err.problem(),
            Self::Nft(err) => return err.problem(),
            Self::Lease(err) => return err.problem(),
            Self::Spawn {
                source, program, ..
            } if source.kind() == io::ErrorKind::NotFound => {
                Problem::new(Code::LabToolMissing, format!("{program} is not installed"))
                    .fix(Fix::text("install the program and start again"))
            }
            Self::Interrupted => {
                return Problem::new(Code::LabStepFailed, self.to_string())
                    .evidence("SIGINT or SIGTERM")
                    .consequence("the lab was taken down before it was done")
                    .fix(Fix::text("start it again"));
            }
            Self::Busy(seen) => {
                return Problem::new(Code::LabBusy, self.to_string())
                    .evidence(seen.clone())
                    .consequence("no second one was started")
                    .fix(Fix::text("take it down first").command("sudo kedge lab down"));
            }
            Self::Late { seen, .. } => Problem::new(Code::LabStepFailed, self.to_string())
                .evidence(seen.clone())
                .fix(Fix::text(
                    "run it again with `--keep DIR` and read the logs in DIR",
                )),
            _ => Problem::new(Code::LabStepFailed, self.to_string()).fix(Fix::text(
                "run it again with `--keep DIR` and read the logs in DIR",
            )),
        };
        let told = match std::error::Error::source(self) {
            Some(source) => told.caused_by(source),
            None => told,
        };
        told.consequence("the lab was taken down")
    }
}
