//! The real clusterctl, with a repository of Kedge's components on disk and no other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_agent_lab::kube::kinds::open;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    assets::{Program, module_folder},
    chart, manifests,
    server::Server,
};

/// A repository with the components of this clone, and the configuration that names it.
#[derive(Debug)]
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// Writes the repository.
    ///
    /// # Panics
    ///
    /// When helm refuses, or the disk.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join("addon-kedge").join(VERSION);
        write(&release);
        let components = release.join(COMPONENTS);
        let core = core(folder.path());
        let elemental = elemental(folder.path());
        let config = json!({
            "providers": [
                {"name": "kedge", "type": "AddonProvider", "url": components},
                {"name": "cluster-api", "type": "CoreProvider", "url": core},
                {"name": "elemental", "type": "InfrastructureProvider", "url": elemental},
            ],
            // It needs its definitions, and nobody to serve them: no component asks for a certificate.
            "cert-manager": {"externallyProvisioned": "true"},
        });
        fs::write(folder.path().join("clusterctl.yaml"), config.to_string()).unwrap();
        Self { folder }
    }

    /// Where the files of the release are.
    #[must_use]
    pub fn release(&self) -> PathBuf {
        self.folder.path().join("addon-kedge").join(VERSION)
    }

    /// Runs clusterctl against a server.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[must_use]
    pub fn run(&self, server: &Server, args: &[&str], variables: &[(&str, &str)]) -> String {
        let output = Command::new(Program::Clusterctl.path().unwrap())
            .args(args)
            .arg("--config")
            .arg(self.folder.path().join("clusterctl.yaml"))
            .arg("--kubeconfig")
            .arg(server.kubeconfig("admin"))
            .envs(variables.iter().copied())
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            // Whatever it looks for beyond the repository is not found, at once.
            .env("GOPROXY", "off")
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("NO_PROXY", "127.0.0.1")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "clusterctl {args:?}: {told}{said}");
        println!("{told}");
        said
    }
}

impl Default for Repository {
    fn default() -> Self {
        Self::new()
    }
}

/// A repository of the core that runs already: which contract it keeps, and nothing to install.
fn core(folder: &Path) -> PathBuf {
    let release = folder.join("cluster-api").join(CORE_VERSION);
    fs::create_dir_all(&release).unwrap();
    let module = module_folder("clusterctl", "sigs.k8s.io/cluster-api").unwrap();
    // What lies in the module cache may only be read, and copies would be so too.
    let metadata = fs::read(module.join("metadata.yaml")).unwrap();
    fs::write(release.join("metadata.yaml"), metadata).unwrap();
    let components = release.join("core-components.yaml");
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "capi-system"}});
    fs::write(&components, space.to_string()).unwrap();
    components
}

/// A repository of Elemental with our templates beside its own, as the guide says: clusterctl looks
/// for flavors and for classes at providers of infrastructure alone.
fn elemental(folder: &Path) -> PathBuf {
    let release = folder
        .join("infrastructure-elemental")
        .join(ELEMENTAL_VERSION);
    fs::create_dir_all(&release).unwrap();
    let metadata = json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
        "releaseSeries": [{"major": 0, "minor": 7, "contract": "v1beta1"}]});
    fs::write(release.join("metadata.yaml"), metadata.to_string()).unwrap();
    for (ours, there) in FLAVORS {
        fs::copy(source().join(ours), release.join(there)).unwrap();
    }
    let components = release.join("infrastructure-components.yaml");
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "elemental-system"}});
    fs::write(&components, space.to_string()).unwrap();
    components
}

/// Writes what a release has for clusterctl into a folder: metadata, components, templates.
///
/// # Panics
///
/// When helm refuses, or the disk.
pub fn write(release: &Path) {
    fs::create_dir_all(release).unwrap();
    let source = source();
    let values: Vec<Value> = manifests::read(&source.join("values.yaml"));
    let components = chart::template_text(values.first().unwrap(), &["--no-hooks"]);
    fs::write(release.join(COMPONENTS), components).unwrap();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name != "values.yaml" {
            fs::copy(&path, release.join(name)).unwrap();
        }
    }
}

/// Makes a server that has Cluster API one that clusterctl knows: by labels of the definitions, its
/// inventory and the definitions of cert-manager.
///
/// # Panics
///
/// When the server refuses.
pub async fn prepare(client: &Client) {
    let module = module_folder("clusterctl", "sigs.k8s.io/cluster-api").unwrap();
    let inventory = module.join("cmd/clusterctl/config/manifest/clusterctl-api.yaml");
    manifests::apply_definitions(client, &manifests::read(&inventory)).await;
    manifests::apply_definitions(client, &certificates()).await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "capi-system"}});
    manifests::apply(client, &[space]).await;
    let core = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": "cluster-api", "namespace": "capi-system", "labels": {
            "clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "cluster-api",
        }},
        "providerName": "cluster-api", "type": "CoreProvider", "version": CORE_VERSION,
    });
    manifests::apply_in(client, "capi-system", &[core]).await;
    label(client).await;
}

/// As clusterctl labels the definitions it installs: it moves objects of no others.
async fn label(client: &Client) {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let all: kube::Api<DynamicObject> =
        kube::Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let patch = json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io": ""}}});
    for definition in all.list(&Default::default()).await.unwrap() {
        let name = definition.metadata.name.unwrap();
        let is_served_here = name.ends_with("cluster.x-k8s.io") || name.ends_with("example.com");
        if is_served_here && !name.ends_with("clusterctl.cluster.x-k8s.io") {
            let how = PatchParams::default();
            all.patch(&name, &how, &Patch::Merge(&patch)).await.unwrap();
        }
    }
}

/// Definitions by which clusterctl tells that cert-manager is there.
fn certificates() -> Vec<Value> {
    let definition = |kind: &str, plural: &str| open("cert-manager.io", "v1", kind, plural);
    vec![
        definition("Issuer", "issuers"),
        definition("Certificate", "certificates"),
    ]
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/clusterctl")
}

/// The version of Kedge, as clusterctl writes versions.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The version of Elemental's provider.
pub const ELEMENTAL_VERSION: &str = "v0.7.0";
/// Our templates, and what they are called as flavors of Elemental's.
const FLAVORS: [(&str, &str); 9] = [
    (
        "cluster-template-k3s.yaml",
        "cluster-template-kedge-k3s.yaml",
    ),
    ("cluster-template.yaml", "cluster-template-kedge.yaml"),
    (
        "cluster-template-rke2.yaml",
        "cluster-template-kedge-rke2.yaml",
    ),
    (
        "cluster-template-topology.yaml",
        "cluster-template-kedge-topology.yaml",
    ),
    (
        "cluster-template-topology-k3s.yaml",
        "cluster-template-kedge-topology-k3s.yaml",
    ),
    (
        "cluster-template-topology-rke2.yaml",
        "cluster-template-kedge-topology-rke2.yaml",
    ),
    (
        "clusterclass-kedge-elemental.yaml",
        "clusterclass-kedge-elemental.yaml",
    ),
    (
        "clusterclass-kedge-elemental-k3s.yaml",
        "clusterclass-kedge-elemental-k3s.yaml",
    ),
    (
        "clusterclass-kedge-elemental-rke2.yaml",
        "clusterclass-kedge-elemental-rke2.yaml",
    ),
];
const CORE_VERSION: &str = "v1.14.2";
const COMPONENTS: &str = "addon-components.yaml";
