//! Packages of the build for hosts. One table of files ([`fn@table`]) and what the program writes about
//! itself make a tree; each form writes the same tree its own way. The same input gives the same bytes.

pub mod again;
pub mod appliance;
mod archive;
pub mod catalogue;
pub mod compile;
mod deb;
mod form;
pub mod oci;
mod redhat;
pub mod sbom;
pub mod sign;
pub mod sysext;
mod table;
pub mod tree;
pub mod verity;
pub mod written;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use form::{Form, Machine};
pub use table::files as table;
use tree::{Kind, Node, Tree};

/// What goes into packages.
#[derive(Clone, Debug)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// What it runs on.
    pub machine: Machine,
    /// The age of every file, in seconds since 1970.
    pub epoch: u64,
    /// How hard xz tries: 0 to 9.
    pub level: u32,
    /// The executable.
    pub kedge: Vec<u8>,
    /// What it wrote about itself.
    pub pages: Tree,
    /// The CycloneDX document of the executable, and the licences of what is linked into it.
    pub bill: (String, String),
    /// The public key of whoever signs releases: hosts with these packages trust it.
    pub key: Option<String>,
}

impl Build {
    /// The files of a package of this form.
    ///
    /// # Errors
    ///
    /// None that is expected.
    pub fn tree(&self, form: Form) -> anyhow::Result<Tree> {
        let mut tree = table::files(form);
        for (path, entry) in self.pages.entries() {
            tree.add(path, entry.mode, entry.kind, entry.node.clone());
        }
        let kedge = Node::File(self.kedge.clone());
        tree.add("usr/bin/kedge", 0o755, Kind::Plain, kedge);
        tree.file("usr/lib/systemd/catalog/kedge.catalog", catalogue::text());
        let (sbom, licences) = &self.bill;
        let mut document = |name: &str, content: Vec<u8>| {
            let path = format!("usr/share/doc/kedge/{name}");
            tree.add(path, 0o644, Kind::Documentation, Node::File(content));
        };
        document("sbom.cdx.json", sbom.clone().into_bytes());
        document(
            "third-party-licenses.gz",
            archive::gzip(licences.as_bytes())?,
        );
        document("changelog.gz", archive::gzip(CHANGELOG.as_bytes())?);
        if let Some(key) = &self.key {
            tree.file("usr/lib/kedge/keys/release.pub", key.clone());
        }
        tree.file(MARKER, self.marker(form, &tree)?);
        Ok(tree)
    }

    /// Writes a package of this form into a folder, and says where it is.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or a program is missing.
    pub fn write(&self, form: Form, folder: &Path) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let path = folder.join(self.name(form));
        let bytes = match form {
            Form::Deb => deb::write(self)?,
            Form::Rpm => redhat::write(self)?,
            Form::Sysext => {
                sysext::write(self, &path)?;
                return Ok(path);
            }
            Form::Tarball => {
                let tree = self.tree(form)?;
                let prefix = format!("kedge-{}", self.version);
                archive::xz(&archive::tarred(&tree, &prefix, self.epoch)?, self.level)?
            }
        };
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// What `kedge upgrade` reads: which version is installed, how, and which files it has.
    fn marker(&self, form: Form, tree: &Tree) -> anyhow::Result<String> {
        let form = match form {
            Form::Deb => "deb",
            Form::Rpm => "rpm",
            Form::Sysext => "sysext",
            Form::Tarball => "archive",
        };
        let files = tree
            .entries()
            .filter(|(path, entry)| path.starts_with("usr/") && entry.node != Node::Directory);
        let files: Vec<&str> = files.map(|(path, _)| path).chain([MARKER]).collect();
        let marker = serde_json::json!({
            "version": self.version,
            "form": form,
            "machine": self.machine.kernel(),
            "files": files,
        });
        Ok(serde_json::to_string_pretty(&marker)? + "\n")
    }

    fn name(&self, form: Form) -> String {
        match form {
            Form::Deb => deb::name(self),
            Form::Rpm => redhat::name(self),
            Form::Sysext => sysext::name(self),
            Form::Tarball => {
                let (version, machine) = (&self.version, self.machine.kernel());
                format!("kedge-{version}-linux-{machine}.tar.xz")
            }
        }
    }
}

pub(crate) const MAINTAINER: &str = "Kedge maintainers <maintainers@kedge.dev>";
pub(crate) const HOMEPAGE: &str = "https://kedge.dev/";
pub(crate) const SUMMARY: &str = "floating addresses and tunnels for hosts at the edge";
pub(crate) const DESCRIPTION: &str = "\
Kedge gives control planes at the edge an address that stays when a host dies
(VRRP, RFC 9568), a way in from behind NAT (WireGuard), and can say at any time
why things are as they are.

This is the build for hosts: agent, gateway and command line. It needs no other
host, no quorum and no cluster.";
const MARKER: &str = "usr/lib/kedge/release.json";
const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");
