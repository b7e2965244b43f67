//! What an Envoy is started with, in the folder that it shares with the gateway.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use kedge_gateway_xds::Bootstrap;

use crate::config::ProxyConfig;

/// The folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// That of a gateway whose runtime directory this is.
    pub fn of(runtime: &Path) -> Self {
        Self(runtime.join("envoy"))
    }

    /// The socket at which Envoy asks what to serve.
    pub fn ads(&self) -> PathBuf {
        self.0.join("ads.sock")
    }

    /// The socket that Envoy makes for its administration.
    pub fn admin(&self) -> PathBuf {
        self.0.join("admin.sock")
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.0.join("envoy.json")
    }

    /// Its content.
    pub fn content(&self, config: &ProxyConfig) -> String {
        let bootstrap = Bootstrap {
            node: "gateway",
            ads: &self.ads(),
            admin: &self.admin(),
            connections: config.max_connections,
        };
        bootstrap.render().to_string()
    }

    /// Writes the file, and makes the folder before it where it is not there: nobody else's.
    pub fn write(&self, config: &ProxyConfig) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.0)?;
        fs::write(self.file(), self.content(config))
    }
}
