//! A container of a Pod as a process: what a kubelet would give it, and nothing else.
//!
//! It has a root of its own with its ServiceAccount's token, its ConfigMaps and empty folders, can
//! write nowhere else, and is the user its Pod says, without privileges. Only its network is not
//! its own: the API server listens on loopback.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::Value;
use tempfile::TempDir;

use crate::{process::Process, server::Server};

/// A running container.
#[derive(Debug)]
pub struct Pod {
    /// Its process.
    pub process: Process,
    _root: TempDir,
}

impl Pod {
    /// Starts the first container of a workload's Pods, by this program; `more` is environment
    /// besides what its Pod says. None, and why, where nobody may have a root of its own.
    ///
    /// # Panics
    ///
    /// When the workload asks for what is not given here, or it cannot be started.
    pub async fn start(
        server: &Server,
        workload: &Value,
        program: &Path,
        more: &[(&str, String)],
    ) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
            assert!(!required.contains("kube"), "a Pod's root needs root");
            println!("left out: a Pod's root needs root");
            return None;
        }
        let name = workload["metadata"]["name"].as_str().unwrap();
        let space = workload["metadata"]["namespace"].as_str().unwrap();
        let spec = &workload["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        let root = tempfile::tempdir().unwrap();
        let pod = Root(root.path());
        pod.lay();
        let account = spec["serviceAccountName"].as_str().unwrap();
        pod.account(server, space, account).await;
        let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        let mut writable = Vec::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let at = mount["mountPath"].as_str().unwrap();
            let mut of_name = volumes.iter().filter(|it| it["name"] == mount["name"]);
            let volume = of_name.next().unwrap();
            if let Some(map) = volume["configMap"]["name"].as_str() {
                pod.map(server, space, map, at).await;
            } else {
                assert!(volume["emptyDir"].is_object(), "{volume}");
                pod.folder(at);
                writable.push(at.to_owned());
            }
        }
        let user = &spec["securityContext"];
        let user = format!("{}:{}", user["runAsUser"], user["runAsGroup"]);
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-euc",
            SCRIPT,
            name,
        ]);
        command
            .arg(root.path())
            .arg(&user)
            .arg(writable.join(" "))
            .arg(program);
        let args = container["args"].as_array().unwrap().iter();
        command.args(args.map(|arg| arg.as_str().unwrap()));
        let given = container["env"].as_array().into_iter().flatten();
        for variable in given {
            let text = |field: &str| variable[field].as_str().unwrap();
            command.env(text("name"), text("value"));
        }
        let at = server.address();
        command.env("KUBERNETES_SERVICE_HOST", at.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", at.port().to_string());
        command.envs(more.iter().map(|(name, value)| (*name, value.as_str())));
        let process = Process::start(name, server.folder(), &command).unwrap();
        Some(Self {
            process,
            _root: root,
        })
    }

    /// Where a file of it is, as long as it runs.
    #[must_use]
    pub fn file(&self, at: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process.pid()));
        root.join(at.trim_start_matches('/'))
    }
}

/// The root of a container, while it is laid out.
struct Root<'a>(&'a Path);

impl Root<'_> {
    /// A root as an image has it: the program, and what it is linked with.
    fn lay(&self) {
        fs::set_permissions(self.0, fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["usr", "proc", "dev", "run", "var", "etc", "tmp"] {
            self.folder(folder);
        }
        symlink("/run", self.0.join("var/run")).unwrap();
        for name in ["bin", "lib", "lib64", "sbin"] {
            let here = Path::new("/").join(name);
            if let Ok(target) = fs::read_link(&here) {
                symlink(target, self.0.join(name)).unwrap();
            }
        }
        fs::write(self.0.join("kedge"), "").unwrap();
    }

    async fn account(&self, server: &Server, space: &str, name: &str) {
        let at = "run/secrets/kubernetes.io/serviceaccount";
        self.folder(at);
        let at = self.0.join(at);
        fs::write(at.join("token"), server.token_of_account(space, name).await).unwrap();
        fs::write(at.join("namespace"), space).unwrap();
        fs::copy(server.certificate(), at.join("ca.crt")).unwrap();
    }

    async fn map(&self, server: &Server, space: &str, name: &str, at: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(server.client().await, space);
        let map = maps.get(name).await.unwrap();
        self.folder(at);
        for (file, text) in map.data.unwrap_or_default() {
            fs::write(self.place(at).join(file), text).unwrap();
        }
    }

    fn folder(&self, at: &str) {
        fs::create_dir_all(self.place(at)).unwrap();
    }

    fn place(&self, at: &str) -> PathBuf {
        self.0.join(at.trim_start_matches('/'))
    }
}

/// Root, user, folders to write to, the program, and what it is told.
const SCRIPT: &str = "root=$1; user=$2; writable=$3; program=$4; shift 4
mount --bind \"$root\" \"$root\"
for shared in usr proc dev; do mount --rbind /$shared \"$root/$shared\"; done
mount --bind \"$program\" \"$root/kedge\"
mount -o remount,bind,ro \"$root\"
for at in $writable; do
    mount -t tmpfs -o size=1m,mode=0700,uid=${user%:*},gid=${user#*:} tmpfs \"$root$at\"
done
exec chroot --userspec=\"$user\" \"$root\" /usr/bin/setpriv --pdeathsig KILL --no-new-privs /kedge \"$@\"";
