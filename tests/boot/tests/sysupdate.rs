//! systemd-sysupdate keeps a system extension up to date, told what the guide says.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_dist::{Form, Machine, sign};
use kedge_tests_boot::{
    later::Later,
    on_booted_nodes,
    packages::{NEW, OLD, Packages},
    web::Web,
};
use kedge_tests_netns::lan::Lan;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");
const GUIDE: &str = include_str!("../../../docs/guide/packages.md");
const UPDATE: &str = "/usr/lib/systemd/systemd-sysupdate update";
const BAD: &str = "0.1.2";

#[test]
fn images_that_are_signed_replace_one_another_and_others_do_not() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let host = lan.host("a", "10.20.14.11/24");
        let packages = Packages::of(KEDGE);
        let images = lan.directory().join("images");
        fs::create_dir(&images).unwrap();
        let server = Web::serve(&host, images.clone());
        let later = Later::on(&lan, &host);
        let ours = Key::new(&lan.directory().join("ours"));
        later.write("etc/systemd/import-pubring.gpg", &ours.public());
        later.write(
            "etc/sysupdate.d/kedge.transfer",
            transfer(server.url()).as_bytes(),
        );
        fs::create_dir_all(later.path("var/lib/extensions")).unwrap();
        let merged = || {
            let to = fs::read_link(later.path("var/lib/extensions/kedge.raw")).unwrap();
            let image = later.path("var/lib/extensions").join(&to);
            (to.file_name().unwrap().to_owned(), fs::read(image).unwrap())
        };

        for version in [OLD, NEW] {
            let image = packages.write(Form::Sysext, version);
            let name = image.file_name().unwrap();
            fs::copy(&image, images.join(name)).unwrap();
            ours.signs(&images);
            let said = later.run(UPDATE);
            assert_eq!(said.code, 0, "{said:?}");
            println!("{}", said.err.lines().last().unwrap_or_default());
            assert_eq!(merged(), (name.to_owned(), fs::read(&image).unwrap()));
        }
        let before = merged();

        // A list that a stranger signed, and an image that is not what the list says.
        let image = packages.write(Form::Sysext, BAD);
        let bad = images.join(image.file_name().unwrap());
        fs::copy(&image, &bad).unwrap();
        Key::new(&lan.directory().join("strangers")).signs(&images);
        let refused = later.run(UPDATE);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.err.contains("verification failed"), "{refused:?}");
        ours.signs(&images);
        let mut bytes = fs::read(&bad).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&bad, bytes).unwrap();
        let refused = later.run(UPDATE);
        assert_ne!(refused.code, 0, "{refused:?}");
        let why = "file has been tampered with";
        assert!(refused.err.contains(why), "{refused:?}");
        assert_eq!(merged(), before);
    });
}

/// What the guide has people write, with this server in it.
fn transfer(url: &str) -> String {
    let (_, from) = GUIDE
        .split_once("# /etc/sysupdate.d/kedge.transfer\n")
        .unwrap();
    let (transfer, _) = from.split_once("```").unwrap();
    let machine = Machine::here().unwrap().systemd();
    let transfer = transfer.replace("x86-64", machine);
    transfer.replace("https://downloads.example.com/kedge", url)
}

/// A key of GnuPG's, which is what systemd asks about signatures.
struct Key {
    home: PathBuf,
}

impl Key {
    fn new(home: &Path) -> Self {
        fs::create_dir(home).unwrap();
        fs::set_permissions(home, fs::Permissions::from_mode(0o700)).unwrap();
        let key = Self { home: home.into() };
        let who = "somebody@example.com";
        key.gpg(&[
            "--passphrase",
            "",
            "--quick-generate-key",
            who,
            "ed25519",
            "sign",
            "never",
        ]);
        key
    }

    fn public(&self) -> Vec<u8> {
        self.gpg(&["--export"])
    }

    /// Lists what is in a folder, and signs the list.
    fn signs(&self, folder: &Path) {
        sign::list(folder).unwrap();
        let list = folder.join("SHA256SUMS");
        let to = folder.join("SHA256SUMS.gpg");
        let (list, to) = (list.to_str().unwrap(), to.to_str().unwrap());
        self.gpg(&["--yes", "--output", to, "--detach-sign", list]);
    }

    fn gpg(&self, arguments: &[&str]) -> Vec<u8> {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--quiet", "--homedir"])
            .arg(&self.home);
        let output = gpg.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

impl Drop for Key {
    /// Its agent would outlive the test.
    fn drop(&mut self) {
        let mut end = Command::new("gpgconf");
        end.arg("--homedir").arg(&self.home).args(["--kill", "all"]);
        _ = end.status();
    }
}
