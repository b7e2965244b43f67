//! Writes the CustomResourceDefinitions of our kinds into a folder, one file each.
#![allow(
    clippy::expect_used,
    reason = "a generator that fails says why and ends"
)]

use std::{env, fs, path::PathBuf};

use kedge_crd::kinds::KINDS;

fn main() {
    let folder = PathBuf::from(env::args().nth(1).expect("the folder to write into"));
    for kind in KINDS {
        let text = serde_saphyr::to_string(&kind.crd()).expect("YAML");
        let text =
            format!("# Generated from the types in api/crd; `cargo xtask crds` writes it.\n{text}");
        fs::write(folder.join(format!("{}.yaml", kind.crd_name())), text)
            .expect("a writable folder");
    }
}
