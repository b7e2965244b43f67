//! The programs the tests run, built from Go modules and cached.

use std::{
    collections::hash_map::DefaultHasher,
    ffi::OsStr,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// A program of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store of an API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection and namespace deletion.
    ControllerManager,
    /// Cluster API's core.
    CapiCore,
    /// The kubeadm control-plane provider.
    CapiControlPlane,
    /// The kubeadm bootstrap provider.
    CapiBootstrap,
    /// The in-cluster IPAM provider.
    IpamInCluster,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::CapiCore,
        Self::CapiControlPlane,
        Self::CapiBootstrap,
        Self::IpamInCluster,
    ];

    /// Its file's name. Those of an API server are called as in `KUBEBUILDER_ASSETS`.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::CapiCore => "capi-core",
            Self::CapiControlPlane => "capi-kubeadm-control-plane",
            Self::CapiBootstrap => "capi-kubeadm-bootstrap",
            Self::IpamInCluster => "ipam-in-cluster",
        }
    }

    /// The folder of its module, and the package in it.
    const fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::Etcd => ("apiserver", "./cmd/etcd"),
            Self::ApiServer => ("apiserver", "./cmd/apiserver"),
            Self::ControllerManager => ("apiserver", "./cmd/controller-manager"),
            Self::CapiCore => ("capi", "sigs.k8s.io/cluster-api/core"),
            Self::CapiControlPlane => ("capi", "sigs.k8s.io/cluster-api/controlplane/kubeadm"),
            Self::CapiBootstrap => ("capi", "sigs.k8s.io/cluster-api/bootstrap/kubeadm"),
            Self::IpamInCluster => ("ipam", "sigs.k8s.io/cluster-api-ipam-provider-in-cluster"),
        }
    }

    /// Where it lies, built if need be.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    pub fn path(self) -> Result<PathBuf, String> {
        if let Some(given) = self.given() {
            return Ok(given);
        }
        let (module, package) = self.source();
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
        let folder = cache().join(key(&module));
        let path = folder.join(self.file());
        if path.exists() {
            return Ok(path);
        }
        fs::create_dir_all(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
        // Other test programs may build it at the same time: the last one wins, all are alike.
        let fresh = folder.join(format!("{}.{}", self.file(), std::process::id()));
        println!("building {} (minutes, once)", self.file());
        let status = Command::new("go")
            .args(["build", "-p", "2", "-ldflags", LINK, "-o"])
            .arg(&fresh)
            .arg(package)
            .env("CGO_ENABLED", "0")
            .current_dir(&module)
            .status()
            .map_err(|err| format!("go: {err}"))?;
        if !status.success() {
            return Err(format!("go build {package} ended with {status}"));
        }
        fs::rename(&fresh, &path).map_err(|err| format!("{}: {err}", path.display()))?;
        Ok(path)
    }

    /// A program the caller of the tests brings along.
    fn given(self) -> Option<PathBuf> {
        let folder = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty())?;
        let path = Path::new(&folder).join(self.file());
        path.exists().then_some(path)
    }
}

/// The folder of a module's sources in the Go module cache, for its manifests.
///
/// # Errors
///
/// Why Go does not tell.
pub fn module_folder(module: &str, name: &str) -> Result<PathBuf, String> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", name])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module))
        .output()
        .map_err(|err| format!("go: {err}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if said.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(said.into())
}

/// Whether the tests of this tier can run. Says why not, and fails where CI requires the tier.
#[must_use]
pub fn ready(programs: &[Program]) -> bool {
    let Some(why) = programs.iter().find_map(|program| program.path().err()) else {
        return true;
    };
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "kube");
    assert!(!required, "{why}");
    eprintln!("skipped: {why}");
    false
}

/// What the modules of a build stand for: another `go.sum` is another build.
fn key(module: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    for file in ["go.mod", "go.sum"] {
        fs::read(module.join(file))
            .unwrap_or_default()
            .hash(&mut hasher);
    }
    LINK.hash(&mut hasher);
    let name = module
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    format!("{name}-{:016x}", hasher.finish())
}

fn cache() -> PathBuf {
    let given = std::env::var_os("KEDGE_KUBE_CACHE").map(PathBuf::from);
    given.unwrap_or_else(|| {
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
        Path::new(&home).join(".cache/kedge-kube")
    })
}

/// Without them `/version` says v0.0.0-master, and clients choose features by it.
const LINK: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36";
