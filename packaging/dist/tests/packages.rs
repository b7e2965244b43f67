//! What is in packages, as the tools of each distribution read them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

mod tool;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kedge_dist::{
    Build, Form, Machine,
    verity::{self, Signer},
    written::Program,
};
use tool::said;

/// An executable that answers as `kedge` does.
const STUB: &str = r##"#!/bin/sh
case "$1" in
man) printf '.TH kedge 1\n.SH NAME\nkedge \\- floating addresses\n' >"$2/kedge.1"
     printf '.TH kedge-wg 1\n.SH NAME\nkedge-wg \\- a device\n' >"$2/kedge-wg.1" ;;
completions) echo "# $2" ;;
config) printf '{"title": "%s"}\n' "$4" ;;
version) echo 0.1.0 ;;
esac
"##;

fn build(version: &str) -> Build {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kedge");
    fs::write(&path, STUB).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = Program {
        path: &path,
        runner: None,
    };
    assert_eq!(program.version().unwrap(), "0.1.0");
    Build {
        version: version.to_owned(),
        machine: Machine::X86,
        epoch: 1_700_000_000,
        level: 0,
        kedge: STUB.into(),
        pages: program.pages().unwrap(),
        bill: ("{}\n".into(), "none\n".into()),
        key: None,
    }
}

/// Runs a program of a distribution about a file; `None` where it is not installed.
fn asked(program: &str, arguments: &[&str], file: &Path) -> Option<Output> {
    tool::asked(Command::new(program).args(arguments).arg(file))
}

/// Path to permissions and where a link leads, without directories of others.
type Files = BTreeMap<String, (String, String)>;

fn in_deb(deb: &Path) -> Option<Files> {
    let listed = said(&asked("dpkg-deb", &["--contents"], deb)?);
    let mut files = Files::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, _, _, _, path, rest @ ..] = words.as_slice() else {
            panic!("{line}");
        };
        assert_eq!(*owner, "root/root", "{line}");
        let path = path.trim_start_matches('.').trim_end_matches('/');
        let is_ours = !mode.starts_with('d') || path == "/etc/kedge/agent.yaml.d";
        if is_ours {
            let to = rest.last().copied().unwrap_or_default();
            files.insert(path.to_owned(), ((*mode).to_owned(), to.to_owned()));
        }
    }
    Some(files)
}

fn in_rpm(rpm: &Path) -> Option<Files> {
    let format =
        "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES} %{FILELINKTOS}\n]";
    let listed = said(&asked("rpm", &["-qp", "--qf", format], rpm)?);
    let mut files = Files::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, path, rest @ ..] = words.as_slice() else {
            panic!("{line}");
        };
        assert_eq!(*owner, "root/root", "{line}");
        let to = rest.last().copied().unwrap_or_default();
        files.insert((*path).to_owned(), ((*mode).to_owned(), to.to_owned()));
    }
    Some(files)
}

#[test]
fn both_packages_hold_the_same_files_modes_and_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let build = build("0.1.0");
    let deb = build.write(Form::Deb, folder.path()).unwrap();
    let rpm = build.write(Form::Rpm, folder.path()).unwrap();
    let (Some(mut of_deb), Some(mut of_rpm)) = (in_deb(&deb), in_rpm(&rpm)) else {
        return;
    };
    for own in [
        "/usr/share/lintian/overrides/kedge",
        "/usr/share/doc/kedge/changelog.Debian.gz",
    ] {
        assert!(of_deb.remove(own).is_some(), "{own}");
    }
    assert!(of_rpm.remove("/usr/share/licenses/kedge/LICENSE").is_some());
    assert_eq!(of_deb, of_rpm);
    for (path, mode) in [
        ("/usr/bin/kedge", "-rwxr-xr-x"),
        ("/usr/lib/systemd/system/kedge-agent.service", "-rw-r--r--"),
        (
            "/usr/lib/systemd/system/kedge-handover.service",
            "-rw-r--r--",
        ),
        (
            "/usr/lib/systemd/system/kedge-gateway.service",
            "-rw-r--r--",
        ),
        ("/usr/lib/sysusers.d/kedge.conf", "-rw-r--r--"),
        ("/usr/share/man/man1/kedge.1.gz", "-rw-r--r--"),
        ("/usr/share/doc/kedge/sbom.cdx.json", "-rw-r--r--"),
        ("/etc/kedge/agent.yaml.d", "drwxr-xr-x"),
    ] {
        assert_eq!(
            of_deb.get(path).map(|it| it.0.as_str()),
            Some(mode),
            "{path}"
        );
    }
    assert_eq!(of_deb["/usr/bin/kedge-wg"].1, "kedge");
    let conffiles = asked("dpkg-deb", &["--ctrl-tarfile"], &deb).map(|it| it.stdout);
    let conffiles = member(&conffiles.unwrap(), "./conffiles");
    assert_eq!(conffiles, "/etc/kedge/agent.yaml\n");
    let marked = said(&asked("rpm", &["-qp", "--configfiles"], &rpm).unwrap());
    assert_eq!(marked, conffiles);
}

/// A file of a tar.
fn member(archive: &[u8], name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.tar");
    fs::write(&path, archive).unwrap();
    let output = Command::new("tar").arg("-xOf").arg(path).arg(name).output();
    said(&output.unwrap())
}

#[test]
fn the_same_input_is_the_same_package_to_the_byte() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for form in Form::ALL {
        if form == Form::Sysext && asked("mksquashfs", &[], Path::new("-version")).is_none() {
            continue;
        }
        let bytes = |folder: &tempfile::TempDir| {
            let path: PathBuf = build("0.1.0").write(form, folder.path()).unwrap();
            fs::read(path).unwrap()
        };
        let (first, second) = (bytes(&one), bytes(&other));
        assert!(first == second, "{form:?} differs");
        assert!(first.len() > 1_000, "{form:?}");
    }
}

#[test]
fn checkers_of_packages_find_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let build = build("0.1.0");
    let deb = build.write(Form::Deb, folder.path()).unwrap();
    let rpm = build.write(Form::Rpm, folder.path()).unwrap();
    if let Some(lintian) = asked(
        "lintian",
        &["--fail-on", "error,warning", "--allow-root"],
        &deb,
    ) {
        assert!(
            lintian.status.success(),
            "{}",
            String::from_utf8_lossy(&lintian.stdout)
        );
    }
    let rules = tempfile::tempdir().unwrap();
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/rpm/rpmlint.toml");
    fs::copy(ours, rules.path().join("ours.toml")).unwrap();
    // The executable is a script here.
    let of_the_stub = "Filters = [\"no-binary\"]\n";
    fs::write(rules.path().join("stub.toml"), of_the_stub).unwrap();
    let config = rules.path().to_str().unwrap();
    if let Some(rpmlint) = asked("rpmlint", &["--strict", "--config", config], &rpm) {
        assert!(
            rpmlint.status.success(),
            "{}",
            String::from_utf8_lossy(&rpmlint.stdout)
        );
    }
}

#[test]
fn a_signed_extension_has_room_for_the_hashes_of_whatever_size_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let named = rcgen::CertificateParams::new(vec!["kedge".into()]).unwrap();
    let (key_file, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
    fs::write(&key_file, key.serialize_pem()).unwrap();
    fs::set_permissions(
        &key_file,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    fs::write(&certificate, named.self_signed(&key).unwrap().pem()).unwrap();
    if asked("systemd-repart", &["--version"], Path::new("/")).is_none() {
        return;
    }
    for blocks in [1, 1_000, 5_000] {
        let image = folder.path().join("image");
        let content: Vec<u8> = (0..blocks * 4096_u32)
            .map(|at| at.to_le_bytes()[1])
            .collect();
        fs::write(&image, &content).unwrap();
        let to = folder.path().join("signed");
        let signer = Signer {
            key: &key_file,
            certificate: &certificate,
        };
        verity::sign(&image, signer, &to).unwrap();
        let signed = fs::read(&to).unwrap();
        assert!(signed.windows(4096).any(|it| it == &content[..4096]));
        assert!(signed.windows(8).any(|it| it == b"rootHash"));
    }
}
