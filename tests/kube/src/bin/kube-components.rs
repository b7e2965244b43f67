//! Writes what a release has for clusterctl into a folder.

use std::path::PathBuf;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    match folder {
        Some(folder) => kedge_tests_kube::clusterctl::write(&folder),
        None => std::process::exit(2),
    }
}
