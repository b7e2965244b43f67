//! The images of the node: what releases write, with the executable under test in it, and what holds
//! the namespaces of Pods.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_dist::{
    Machine,
    oci::{Image, Role},
};
use kedge_tests_kube::assets::Program;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What holds the namespaces of Pods.
pub const PAUSE: &str = "kedge.invalid/pause:test";

/// An Envoy, as the chart names it.
const ENVOY: &str = "envoyproxy/envoy:distroless-v1.40.0";

/// The images of manager and gateway as a release has them, and a layer on each: the executable under
/// test, which is linked with libraries, and those.
pub fn kedge(folder: &Path) {
    let kedge = Path::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
    let machine = Machine::of(&fs::read(kedge).unwrap()).unwrap();
    let files = folder.join("files");
    let binary = files.join("usr/bin/kedge");
    fs::create_dir_all(binary.parent().unwrap()).unwrap();
    run(Command::new("strip")
        .arg("-o")
        .args([&binary, &kedge.to_owned()]));
    with_libraries(kedge, &files);
    for role in [Role::Manager, Role::Gateway] {
        let layout = Layout(folder.join(role.name()));
        let image = Image {
            role,
            version: env!("CARGO_PKG_VERSION"),
            machine,
            epoch: 1_700_000_000,
            kedge: b"the layer above has it",
            sbom: "{}",
        };
        image.write(&layout.0).unwrap();
        layout.add(&files, &format!("kedge/{}:{}", role.name(), image.version));
        layout.pack();
    }
}

/// What holds the namespaces of Pods, in an image.
pub fn pause(folder: &Path) {
    let files = folder.join("pause-files");
    fs::create_dir_all(&files).unwrap();
    fs::copy(Program::Pause.path().unwrap(), files.join("pause")).unwrap();
    let config = json!({"Entrypoint": ["/pause"], "User": "65535:65535"});
    Layout(folder.join("pause")).make(&files, &config, PAUSE);
}

/// Envoy where its own image has it, and what it is linked with.
pub fn envoy(folder: &Path, envoy: &Path) {
    let files = folder.join("envoy-files");
    put(envoy, &files.join("usr/local/bin/envoy"));
    with_libraries(envoy, &files);
    Layout(folder.join("envoy")).make(&files, &json!({}), &format!("docker.io/{ENVOY}"));
}

/// Copies a file to where nothing is.
fn put(file: &Path, at: &Path) {
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::copy(file, at).unwrap();
}

/// Puts what an executable is linked with where it looks for it.
fn with_libraries(executable: &Path, files: &Path) {
    for library in libraries(executable) {
        put(
            Path::new(&library),
            &files.join(library.trim_start_matches('/')),
        );
    }
}

/// A layout of images that is being written.
struct Layout(PathBuf);

impl Layout {
    /// An image of these files, packed.
    fn make(&self, files: &Path, runs: &Value, name: &str) {
        fs::create_dir_all(self.0.join("blobs/sha256")).unwrap();
        let layer = self.layer(files);
        let machine = Machine::of(&fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let config = json!({"os": "linux", "architecture": machine.debian(), "config": runs,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
        "config": self.put_json(CONFIG, &config), "layers": [layer]});
        let mut listed = self.put_json(MANIFEST, &manifest);
        listed["annotations"] = json!({ NAME: name });
        let index = json!({"schemaVersion": 2, "manifests": [listed]});
        fs::write(
            self.0.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        self.list(&index);
        self.pack();
    }

    fn index(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.join("index.json")).unwrap()).unwrap()
    }

    fn get(&self, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().unwrap();
        let blob = self.0.join("blobs").join(digest.replace(':', "/"));
        serde_json::from_slice(&fs::read(blob).unwrap()).unwrap()
    }

    fn put(&self, kind: &str, content: &[u8]) -> Value {
        let digest = format!("{:x}", Sha256::digest(content));
        fs::write(self.0.join("blobs/sha256").join(&digest), content).unwrap();
        json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len()})
    }

    fn put_json(&self, kind: &str, content: &Value) -> Value {
        self.put(kind, content.to_string().as_bytes())
    }

    /// A layer of these files, which are root's.
    fn layer(&self, files: &Path) -> Value {
        let tar = files.with_extension("tar.layer");
        let mut command = Command::new("tar");
        command.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "-cf"]);
        run(command.arg(&tar).arg("-C").arg(files).arg("."));
        let layer = self.put(LAYER, &fs::read(&tar).unwrap());
        fs::remove_file(tar).unwrap();
        layer
    }

    /// Lays files on its first image, and names that.
    fn add(&self, files: &Path, name: &str) {
        let mut index = self.index();
        let listed = index["manifests"][0].clone();
        let mut manifest = self.get(&listed);
        let mut config = self.get(&manifest["config"]);
        let layer = self.layer(files);
        push(&mut manifest["layers"], &layer);
        push(&mut config["rootfs"]["diff_ids"], &layer["digest"]);
        manifest["config"] = self.put_json(CONFIG, &config);
        let mut again = self.put_json(MANIFEST, &manifest);
        again["platform"] = listed["platform"].clone();
        again["annotations"] = json!({ NAME: format!("docker.io/{name}") });
        index["manifests"][0] = again;
        self.list(&index);
    }

    fn list(&self, index: &Value) {
        fs::write(self.0.join("index.json"), index.to_string()).unwrap();
    }

    /// Packs it into one file.
    fn pack(&self) {
        let mut command = Command::new("tar");
        command.arg("-cf").arg(self.0.with_extension("tar"));
        run(command.arg("-C").arg(&self.0).arg("."));
    }
}

/// What an executable is linked with, the loader too.
fn libraries(executable: &Path) -> Vec<String> {
    let said = Command::new("ldd").arg(executable).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let words = said.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(ToOwned::to_owned)
        .collect()
}

fn push(list: &mut Value, item: &Value) {
    list.as_array_mut().unwrap().push(item.clone());
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(status.is_ok_and(|it| it.success()), "{command:?}");
}

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// By which containerd keeps an image.
const NAME: &str = "io.containerd.image.name";
