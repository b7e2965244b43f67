//! What cloud-init finds on a disk (its source `NoCloud`): who a guest is, and what it is to become.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

/// User data, metadata and network of a guest.
#[derive(Clone, Debug)]
pub struct Seed {
    name: String,
    net: String,
    files: Vec<Value>,
    services: Vec<&'static str>,
    apt: Option<Value>,
    packages: Vec<String>,
    disk: Option<PathBuf>,
}

impl Seed {
    /// Of a guest with that name and this address.
    #[must_use]
    pub fn new(name: &str, net: &str) -> Self {
        Self {
            name: name.into(),
            net: net.into(),
            files: Vec::new(),
            services: Vec::new(),
            apt: None,
            packages: Vec::new(),
            disk: None,
        }
    }

    /// The guest's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With files, each with its mode.
    #[must_use]
    pub fn with<'a>(mut self, files: impl IntoIterator<Item = (&'a str, &'a str, String)>) -> Self {
        let file =
            |(path, mode, content)| json!({"path": path, "permissions": mode, "content": content});
        self.files.extend(files.into_iter().map(file));
        self
    }

    /// With a service that is among its files, started after everything else and at each boot.
    #[must_use]
    pub fn starting(mut self, service: &'static str) -> Self {
        self.services.push(service);
        self
    }

    /// With a package from this repository, and no other.
    #[must_use]
    pub fn installing(mut self, package: &str, repository: &str) -> Self {
        self.packages.push(package.into());
        let source = format!("deb [trusted=yes] {repository} ./");
        self.apt = Some(json!({
            "sources": {"kedge.list": {"source": source}},
        }));
        self
    }

    /// With a disk beside it, `/dev/vdc`, that has these files.
    #[must_use]
    pub fn beside(mut self, files: &Path) -> Self {
        self.disk = Some(image(files, "files", &files.with_extension("iso")));
        self
    }

    /// The disk beside it.
    #[must_use]
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    /// The document that cloud-init reads as user data.
    #[must_use]
    pub fn user_data(&self) -> String {
        let link = |name: &&str| {
            format!("ln -s /etc/systemd/system/{name}.service {WANTS}/; systemctl start {name}; ")
        };
        // Each reload takes seconds here: one for all.
        let start = "systemctl daemon-reload; ".to_owned()
            + &self.services.iter().map(link).collect::<String>();
        let mut config = json!({"write_files": self.files, "runcmd": [["sh", "-c", start]]});
        if let (Some(apt), Some(config)) = (&self.apt, config.as_object_mut()) {
            config.insert("apt".into(), apt.clone());
            config.insert("packages".into(), json!(self.packages));
            // Names of others lead nowhere, and are waited for.
            config.insert(
                "bootcmd".into(),
                json!([["rm", "-f", "/etc/apt/sources.list"]]),
            );
        }
        // JSON is YAML.
        format!("#cloud-config\n{config}\n")
    }

    /// Writes it as a disk.
    #[must_use]
    pub fn write(&self, folder: &Path) -> PathBuf {
        let seed = folder.join("seed");
        fs::create_dir(&seed).unwrap();
        let id = json!({"instance-id": self.name, "local-hostname": self.name});
        let network = json!({
            "version": 2, "ethernets": {"eth0": {"addresses": [self.net], "dhcp4": false}},
        });
        fs::write(seed.join("user-data"), self.user_data()).unwrap();
        fs::write(seed.join("meta-data"), id.to_string()).unwrap();
        fs::write(seed.join("network-config"), network.to_string()).unwrap();
        image(&seed, "cidata", &folder.join("seed.iso"))
    }
}

const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

/// Writes a folder as a disk with that label.
fn image(folder: &Path, label: &str, to: &Path) -> PathBuf {
    let mut write = Command::new("genisoimage");
    write.args(["-quiet", "-joliet", "-rock", "-volid", label, "-output"]);
    let written = write.arg(to).arg(folder).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    to.into()
}
