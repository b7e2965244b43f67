//! The two servers of Envoys' configuration, in this process: what the gateway serves with, and what a control
//! plane with one snapshot does.

use std::path::{Path, PathBuf};

use kedge_core::with_causes;
use kedge_gateway_xds::{
    Ads, Resource, Wanted,
    peer::{Everything, Whole},
};
use tokio::runtime::{Builder, Runtime};

use super::envoy::Variant;
use crate::error::LabError;

/// A server, until dropped.
pub(super) struct Server {
    told: Told,
    socket: PathBuf,
    _runtime: Runtime,
}

/// What an Envoy is to hold.
pub(super) enum Told {
    Delta(Wanted),
    Whole(Everything),
}

impl Server {
    pub(super) fn start(variant: Variant, socket: &Path) -> Result<Self, LabError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(LabError::file("a runtime's thread"))?;
        let failed = |error: kedge_gateway_xds::Error| LabError::Unexpected {
            who: "the server of Envoy's configuration".to_owned(),
            said: with_causes(&error),
        };
        if let Some(folder) = socket.parent() {
            std::fs::create_dir_all(folder).map_err(LabError::file(folder))?;
        }
        let guard = runtime.enter();
        let told = match variant {
            Variant::Delta => {
                let wanted = Wanted::default();
                let ads = Ads::bind(socket, wanted.clone()).map_err(failed)?;
                runtime.spawn(ads.serve());
                Told::Delta(wanted)
            }
            Variant::Whole => {
                let everything = Everything::default();
                let ads = Whole::bind(socket, everything.clone()).map_err(failed)?;
                runtime.spawn(ads.serve());
                Told::Whole(everything)
            }
        };
        drop(guard);
        Ok(Self {
            told,
            socket: socket.to_owned(),
            _runtime: runtime,
        })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes these everything there is.
    pub(super) fn declare(&self, resources: Vec<Resource>) {
        match &self.told {
            Told::Delta(wanted) => wanted.declare(resources),
            Told::Whole(everything) => everything.declare(resources),
        }
    }

    /// Changes these, or adds them.
    pub(super) fn change(&self, resources: Vec<Resource>) {
        match &self.told {
            Told::Delta(wanted) => resources
                .into_iter()
                .for_each(|resource| wanted.change(resource)),
            Told::Whole(everything) => everything.change(resources),
        }
    }

    /// Whether Envoy has taken everything.
    pub(super) fn is_settled(&self) -> bool {
        match &self.told {
            Told::Delta(wanted) => wanted.pending().is_empty(),
            Told::Whole(everything) => everything.is_settled(),
        }
    }

    /// What Envoy refuses.
    pub(super) fn refused(&self) -> String {
        match &self.told {
            Told::Delta(wanted) => format!("{:?}", wanted.refused()),
            Told::Whole(_) => "?".to_owned(),
        }
    }
}
