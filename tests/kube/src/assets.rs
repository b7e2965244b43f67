//! The programs the tests run, built from Go modules and cached.

use std::{
    collections::hash_map::DefaultHasher,
    ffi::OsStr,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use kedge_agent_lab::kube::programs::{cache, given};

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
    /// What installs charts.
    Helm,
    /// Cluster API's command line.
    Clusterctl,
    /// What lays patches over manifests.
    Kustomize,
    /// What leads Services to pods on a node.
    KubeProxy,
    /// The Gateway API's conformance suite.
    GatewaySuite,
    /// What its backends run.
    GatewayEcho,
    /// What runs Pods on a node.
    Kubelet,
    /// What finds them one.
    Scheduler,
    /// What holds a Pod's namespaces.
    Pause,
    /// What people type.
    Kubectl,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 17] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::CapiCore,
        Self::CapiControlPlane,
        Self::CapiBootstrap,
        Self::IpamInCluster,
        Self::Helm,
        Self::Clusterctl,
        Self::Kustomize,
        Self::KubeProxy,
        Self::GatewaySuite,
        Self::GatewayEcho,
        Self::Kubelet,
        Self::Scheduler,
        Self::Pause,
        Self::Kubectl,
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
            Self::Helm => "helm",
            Self::Clusterctl => "clusterctl",
            Self::Kustomize => "kustomize",
            Self::KubeProxy => "kube-proxy",
            Self::GatewaySuite => "gateway-suite",
            Self::GatewayEcho => "gateway-echo",
            Self::Kubelet => "kubelet",
            Self::Scheduler => "kube-scheduler",
            Self::Pause => "pause",
            Self::Kubectl => "kubectl",
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
            Self::Helm => ("helm", "helm.sh/helm/v4/cmd/helm"),
            Self::Clusterctl => ("clusterctl", "sigs.k8s.io/cluster-api/cmd/clusterctl"),
            Self::Kustomize => ("kustomize", "."),
            Self::KubeProxy => ("apiserver", "./cmd/kube-proxy"),
            Self::GatewaySuite => ("gateway-conformance", "./cmd/suite"),
            Self::GatewayEcho => (
                "gateway-conformance",
                "sigs.k8s.io/gateway-api/conformance/echo-basic",
            ),
            Self::Kubelet => ("kubelet", "./cmd/kubelet"),
            Self::Scheduler => ("kubelet", "./cmd/scheduler"),
            Self::Pause => ("kubelet", "./cmd/pause"),
            Self::Kubectl => ("kubelet", "./cmd/kubectl"),
        }
    }

    /// Where it lies, built if need be.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    pub fn path(self) -> Result<PathBuf, String> {
        if let Some(given) = given(self.file()) {
            return Ok(given);
        }
        let (module, package) = self.source();
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
        let folder = cache().join(key(&module));
        let path = folder.join(self.file());
        if path.exists() {
            return Ok(path);
        }
        // One build at a time: each uses every core there is.
        let _turn = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
        if path.exists() {
            return Ok(path);
        }
        check_go(&module)?;
        fs::create_dir_all(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
        // Other test programs may build it at the same time: the last one wins, all are alike.
        let fresh = folder.join(format!("{}.{}", self.file(), std::process::id()));
        println!("building {} (minutes, once)", self.file());
        let status = Command::new("go")
            .args(["build", "-p", "2", "-ldflags", LINK, "-o"])
            .arg(&fresh)
            .arg(package)
            .env("CGO_ENABLED", "0")
            .env("GOTOOLCHAIN", "local")
            .current_dir(&module)
            .status()
            .map_err(|err| format!("go: {err}"))?;
        if !status.success() {
            return Err(format!("go build {package} ended with {status}"));
        }
        fs::rename(&fresh, &path).map_err(|err| format!("{}: {err}", path.display()))?;
        Ok(path)
    }
}

/// The folder of a module's sources in the Go module cache, for its manifests.
///
/// # Errors
///
/// Why Go does not tell.
pub fn module_folder(module: &str, name: &str) -> Result<PathBuf, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
    // Programs may be in the cache where sources are not.
    go(&module, &["mod", "download", name])?;
    let said = go(&module, &["list", "-m", "-f", "{{.Dir}}", name])?;
    if said.is_empty() {
        return Err(format!("go does not know where {name} lies"));
    }
    Ok(said.into())
}

/// Whether the tests of this tier can run. Says why not, and fails where CI requires the tier.
#[must_use]
pub fn ready(programs: &[Program]) -> bool {
    let Some(why) = programs.iter().find_map(|program| program.path().err()) else {
        return true;
    };
    assert!(!is_required(), "{why}");
    eprintln!("skipped: {why}");
    false
}

/// Whether a tier that cannot run is a failure.
#[must_use]
pub fn is_required() -> bool {
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    required.split(',').any(|tier| tier == "kube")
}

/// Whether there is a Go that can build a module.
fn check_go(module: &Path) -> Result<(), String> {
    let version = go(module, &["env", "GOVERSION"])?;
    let numbers = version.trim_start_matches("go").split('.');
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    let found: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < GO {
        return Err(format!(
            "Go {}.{} or newer is needed, this is {version}",
            GO.0, GO.1
        ));
    }
    Ok(())
}

fn go(module: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("go")
        .args(arguments)
        .env("GOTOOLCHAIN", "local")
        .current_dir(module)
        .output()
        .map_err(|err| format!("go: {err}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What the modules of a build stand for: another `go.sum` or source is another build.
fn key(module: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    for file in sources(module) {
        fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    LINK.hash(&mut hasher);
    let name = module
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    format!("{name}-{:016x}", hasher.finish())
}

/// A module's own files, in an order of their own.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

static BUILDS: Mutex<()> = Mutex::new(());

/// What the modules ask for.
const GO: (u32, u32) = (1, 26);

/// Without them `/version` says v0.0.0-master, and clients choose features by it.
const LINK: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36";
