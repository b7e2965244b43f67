//! Images of containers, as the tools for images read them, and as a runtime starts them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test code"
)]

mod tool;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kedge_dist::{
    Machine,
    oci::{self, Image, Role},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::said;

/// What stands for `kedge`: it needs no more than an image has, and says who runs it and with what.
const STUB: &str = r#"fn main() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or("Uid:\t?");
    println!("{} {:?}", user.split('\t').nth(1).unwrap_or("?"), std::env::args().collect::<Vec<_>>());
    std::fs::write("/var/lib/kedge/state", "kept").expect("its state can be kept");
}
"#;
const VERSION: &str = "0.1.0";
const BILL: &str = "{\"bomFormat\": \"CycloneDX\"}\n";

fn stub(folder: &Path) -> Vec<u8> {
    let source = folder.join("stub.rs");
    fs::write(&source, STUB).unwrap();
    let mut rustc = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()));
    let program = folder.join("stub");
    rustc
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=symbols",
            "-o",
        ])
        .arg(&program)
        .arg(source);
    assert!(rustc.status().unwrap().success());
    fs::read(program).unwrap()
}

fn layout(role: Role, kedge: &[u8], place: &Path) {
    let image = Image {
        role,
        version: VERSION,
        machine: Machine::of(kedge).unwrap(),
        epoch: 1_700_000_000,
        kedge,
        sbom: BILL,
    };
    image.write(place).unwrap();
}

/// Runs a tool for images; `None` where it is not installed.
fn asked(program: &str, arguments: &[&str]) -> Option<Output> {
    tool::asked(Command::new(program).args(arguments))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_layout_is_the_same_to_the_byte_and_its_bill_refers_to_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let kedge = stub(folder.path());
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    layout(Role::Manager, &kedge, &one);
    layout(Role::Manager, &kedge, &other);
    assert_eq!(
        read(&one.join("index.json")),
        read(&other.join("index.json"))
    );
    for entry in fs::read_dir(one.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let sum = format!("{:x}", Sha256::digest(fs::read(&path).unwrap()));
        assert_eq!(path.file_name().unwrap().to_str(), Some(sum.as_str()));
    }
    let blob = |descriptor: &Value| -> PathBuf {
        let digest = descriptor["digest"].as_str().unwrap();
        one.join("blobs").join(digest.replace(':', "/"))
    };
    let manifests = read(&one.join("index.json"))["manifests"].clone();
    let bill = read(&blob(&manifests[1]));
    assert_eq!(bill["subject"]["digest"], manifests[0]["digest"]);
    assert_eq!(bill["artifactType"], "application/vnd.cyclonedx+json");
    assert_eq!(fs::read_to_string(blob(&bill["layers"][0])).unwrap(), BILL);
}

#[test]
fn an_image_for_every_machine_gives_each_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let kedge = stub(folder.path());
    let here = Machine::of(&kedge).unwrap();
    let mut made = Vec::new();
    for machine in Machine::ALL {
        let place = folder.path().join(machine.debian());
        let image = Image {
            role: Role::Gateway,
            version: VERSION,
            machine,
            epoch: 1_700_000_000,
            kedge: if machine == here {
                &kedge
            } else {
                b"another one's"
            },
            sbom: BILL,
        };
        image.write(&place).unwrap();
        assert!(oci::is_of(&place, VERSION) && !oci::is_of(&place, "0.1.1"));
        made.push(place);
    }
    let place = folder.path().join("every");
    oci::join(&made, VERSION, &place).unwrap();
    // In another order it is the same.
    let again = folder.path().join("again");
    made.reverse();
    oci::join(&made, VERSION, &again).unwrap();
    let digest = |place: &Path| read(&place.join("index.json"))["manifests"][0]["digest"].clone();
    assert_eq!(digest(&place), digest(&again));

    let image = format!("oci:{}:{VERSION}", place.display());
    for machine in Machine::ALL {
        let shown = [
            "--override-arch",
            machine.debian(),
            "inspect",
            "--config",
            &image,
        ];
        let Some(shown) = asked("skopeo", &shown) else {
            return;
        };
        let shown: Value = serde_json::from_str(&said(&shown)).unwrap();
        assert_eq!(shown["architecture"], machine.debian());
    }
    // As a registry gets it: both, and the list that leads to them.
    let copy = folder.path().join("copy");
    let to = format!("dir:{}", copy.display());
    let copied = asked(
        "skopeo",
        &["--insecure-policy", "copy", "--all", &image, &to],
    );
    _ = said(&copied.unwrap());
    let list = read(&copy.join("manifest.json"));
    let machines = list["manifests"].as_array().unwrap().iter();
    let machines: Vec<_> = machines
        .map(|it| it["platform"]["architecture"].clone())
        .collect();
    assert_eq!(machines, ["amd64", "arm64"]);
    let raw = said(&asked("skopeo", &["inspect", "--raw", &image]).unwrap());
    assert_eq!(
        format!("sha256:{:x}", Sha256::digest(&raw)),
        digest(&place),
        "{raw}"
    );
}

#[test]
fn tools_for_images_read_it_and_its_root_runs_as_who_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let kedge = stub(folder.path());
    for (role, user) in [(Role::Manager, 65532), (Role::Agent, 0)] {
        let place = folder.path().join(role.name());
        layout(role, &kedge, &place);
        let image = format!("oci:{}:{VERSION}", place.display());
        // A copy looks at every digest on the way.
        let copy = format!(
            "dir:{}",
            folder
                .path()
                .join(format!("{}-copy", role.name()))
                .display()
        );
        let Some(copied) = asked("skopeo", &["--insecure-policy", "copy", &image, &copy]) else {
            return;
        };
        _ = said(&copied);
        let shown = said(&asked("skopeo", &["inspect", "--config", &image]).unwrap());
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["config"]["Cmd"][0], role.name());
        assert_eq!(shown["architecture"], Machine::of(&kedge).unwrap().debian());

        // What a runtime is given.
        let bundle = folder.path().join(format!("{}-bundle", role.name()));
        let image = format!("{}:{VERSION}", place.display());
        let unpack = [
            "unpack",
            "--rootless",
            "--image",
            &image,
            bundle.to_str().unwrap(),
        ];
        let Some(unpacked) = asked("umoci", &unpack) else {
            return;
        };
        _ = said(&unpacked);
        let config = read(&bundle.join("config.json"));
        let process = &config["process"];
        assert_eq!(process["user"]["uid"], user);
        assert_eq!(
            process["args"],
            serde_json::json!(["/usr/bin/kedge", role.name()])
        );
        if said(&asked("id", &["-u"]).unwrap()).trim() != "0" {
            eprintln!("skipped: not root, the image is not run");
            continue;
        }
        let root = bundle.join("rootfs");
        fs::create_dir_all(root.join("proc")).unwrap();
        // The same root, user and words; a chroot in place of namespaces of its own.
        let line = format!(
            "mount -t proc proc '{0}/proc' && exec chroot --userspec={user}:{user} '{0}' /usr/bin/kedge {1}",
            root.display(),
            role.name()
        );
        let ran = said(
            &asked(
                "unshare",
                &["--mount", "--pid", "--fork", "sh", "-c", &line],
            )
            .unwrap(),
        );
        assert_eq!(
            ran.trim(),
            format!("{user} [\"/usr/bin/kedge\", \"{}\"]", role.name())
        );
        assert_eq!(
            fs::read_to_string(root.join("var/lib/kedge/state")).unwrap(),
            "kept"
        );
    }
}
