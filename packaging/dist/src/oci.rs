//! Images of containers: OCI layouts of one layer, written without an engine, and those of several machines as one.
//!
//! Nothing is in an image but the executable and who runs it: no shell, no libraries. Whom a role
//! trusts comes with its configuration, so there are no certificates of authorities either.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    Machine, archive,
    tree::{Kind, Node, Tree},
};

/// What a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The agent: with the network of its host, as root with capabilities that are given to it.
    Agent,
    /// The gateway: the same.
    Gateway,
    /// The manager, as nobody in particular.
    Manager,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Gateway, Self::Manager];

    /// As the command line calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Gateway => "gateway",
            Self::Manager => "manager",
        }
    }

    /// Who runs it. Links, raw sockets and nftables take capabilities, which a user that is not root
    /// does not have in a container unless the executable carries them.
    const fn user(self) -> &'static str {
        match self {
            Self::Agent | Self::Gateway => "0:0",
            Self::Manager => "65532:65532",
        }
    }
}

/// An image.
#[derive(Debug)]
pub struct Image<'a> {
    /// What it runs.
    pub role: Role,
    /// Its version, which is its tag.
    pub version: &'a str,
    /// What it runs on.
    pub machine: Machine,
    /// The age of everything in it.
    pub epoch: u64,
    /// The executable.
    pub kedge: &'a [u8],
    /// The CycloneDX document of the executable.
    pub sbom: &'a str,
}

impl Image<'_> {
    /// Writes it as a layout into a folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let layout = Layout::create(folder)?;
        let put = |kind: &str, content: &[u8]| layout.put(kind, content);
        let files = archive::tarred(&self.files(), ".", self.epoch)?;
        let layer = put(LAYER, &archive::gzip(&files)?)?;
        let config = self.config(&format!("sha256:{:x}", Sha256::digest(&files)))?;
        let config = put(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": self.labels()?,
        });
        let image = put(MANIFEST, manifest.to_string().as_bytes())?;
        // What refers to the image: registries list it among its referrers.
        let bill = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": SBOM,
            "config": put("application/vnd.oci.empty.v1+json", b"{}")?,
            "layers": [put(SBOM, self.sbom.as_bytes())?], "subject": image,
        });
        let bill = put(MANIFEST, bill.to_string().as_bytes())?;
        let platform = json!({"os": "linux", "architecture": self.machine.debian()});
        let image = with(image, [("platform", platform), tag(self.version)]);
        let bill = with(bill, [("artifactType", SBOM.into())]);
        layout.close(&[image, bill])?;
        Ok(())
    }

    fn files(&self) -> Tree {
        let mut tree = Tree::default();
        let kedge = Node::File(self.kedge.to_vec());
        tree.add("usr/bin/kedge", 0o755, Kind::Plain, kedge);
        tree.file("etc/passwd", PASSWD);
        tree.file("etc/group", GROUP);
        tree.file(
            "usr/share/doc/kedge/copyright",
            include_str!("../../host/copyright"),
        );
        tree.file(
            "usr/share/licenses/kedge/LICENSE",
            include_str!("../../../LICENSE"),
        );
        // Where volumes go.
        tree.add("etc/kedge", 0o755, Kind::Plain, Node::Directory);
        let mode = match self.role {
            Role::Agent | Role::Gateway => 0o755,
            // Everything in a layer belongs to root, and the manager is somebody else.
            Role::Manager => 0o1777,
        };
        for folder in ["run/kedge", "var/lib/kedge"] {
            tree.add(folder, mode, Kind::Plain, Node::Directory);
        }
        tree
    }

    fn config(&self, layer: &str) -> anyhow::Result<Value> {
        Ok(json!({
            "created": self.created()?, "os": "linux", "architecture": self.machine.debian(),
            "config": {
                "User": self.role.user(), "Entrypoint": ["/usr/bin/kedge"], "Cmd": [self.role.name()],
                "Env": ["PATH=/usr/bin"], "WorkingDir": "/", "Labels": self.labels()?,
            },
            "rootfs": {"type": "layers", "diff_ids": [layer]},
            "history": [{"created": self.created()?, "created_by": "cargo xtask dist --images"}],
        }))
    }

    fn labels(&self) -> anyhow::Result<Value> {
        Ok(json!({
            "org.opencontainers.image.title": format!("kedge {}", self.role.name()),
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.created": self.created()?,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.url": crate::HOMEPAGE,
        }))
    }

    fn created(&self) -> anyhow::Result<String> {
        let at = Timestamp::from_second(i64::try_from(self.epoch)?);
        Ok(at.context("an age of no time")?.to_string())
    }
}

/// Writes a layout whose image is for every machine that these layouts of one role and version are for; what refers
/// to theirs refers to them there too. A runtime takes its machine's.
///
/// # Errors
///
/// One of them is no layout of [`Image::write`], or the folder cannot be written.
pub fn join(layouts: &[PathBuf], version: &str, folder: &Path) -> anyhow::Result<()> {
    let joined = Layout::create(folder)?;
    let (mut images, mut bills) = (Vec::new(), Vec::new());
    for layout in layouts {
        let index = fs::read(layout.join("index.json"))
            .with_context(|| format!("{} is no layout", layout.display()))?;
        let index: Value = serde_json::from_slice(&index)?;
        let listed = index.get("manifests").and_then(Value::as_array);
        for descriptor in listed.into_iter().flatten() {
            let mut descriptor = descriptor.clone();
            if descriptor.get("platform").is_none() {
                bills.push(descriptor);
            } else {
                // What has the name is the index.
                descriptor
                    .as_object_mut()
                    .and_then(|it| it.remove("annotations"));
                images.push(descriptor);
            }
        }
        for blob in fs::read_dir(layout.join(BLOBS))? {
            let blob = blob?;
            fs::copy(blob.path(), joined.blobs.join(blob.file_name()))?;
        }
    }
    images.sort_by_key(|it| it.pointer("/platform/architecture").map(Value::to_string));
    let every = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images});
    let every = joined.put(INDEX, every.to_string().as_bytes())?;
    let mut named = vec![with(every, [tag(version)])];
    named.append(&mut bills);
    joined.close(&named)?;
    Ok(())
}

/// Whether a folder is a layout that has an image of this version.
#[must_use]
pub fn is_of(layout: &Path, version: &str) -> bool {
    let index = fs::read(layout.join("index.json")).unwrap_or_default();
    let index: Value = serde_json::from_slice(&index).unwrap_or_default();
    let name = "/manifests/0/annotations/org.opencontainers.image.ref.name";
    index.pointer(name).and_then(Value::as_str) == Some(version)
}

/// A layout that is being written.
struct Layout {
    folder: PathBuf,
    blobs: PathBuf,
}

impl Layout {
    fn create(folder: &Path) -> io::Result<Self> {
        let blobs = folder.join(BLOBS);
        fs::create_dir_all(&blobs)?;
        let folder = folder.to_owned();
        Ok(Self { folder, blobs })
    }

    /// Keeps this by its digest, and describes it.
    fn put(&self, kind: &str, content: &[u8]) -> io::Result<Value> {
        let digest = format!("{:x}", Sha256::digest(content));
        fs::write(self.blobs.join(&digest), content)?;
        let size = content.len();
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size}))
    }

    /// Lists what it is about, which makes it one.
    fn close(&self, manifests: &[Value]) -> io::Result<()> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        fs::write(self.folder.join("index.json"), index.to_string())?;
        let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
        fs::write(self.folder.join("oci-layout"), version)
    }
}

/// What tools find an image by.
fn tag(version: &str) -> (&'static str, Value) {
    let name = json!({"org.opencontainers.image.ref.name": version});
    ("annotations", name)
}

/// A descriptor with more said of what it describes.
fn with<const N: usize>(mut descriptor: Value, more: [(&str, Value); N]) -> Value {
    if let Some(fields) = descriptor.as_object_mut() {
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
    }
    descriptor
}

const BLOBS: &str = "blobs/sha256";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const SBOM: &str = "application/vnd.cyclonedx+json";
const PASSWD: &str = "root:x:0:0:root:/:/sbin/nologin\nkedge:x:65532:65532:kedge:/:/sbin/nologin\n\
                      nobody:x:65534:65534:nobody:/:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nkedge:x:65532:\nnogroup:x:65534:\n";
