//! What keeps a manager from starting, each told with its code.

use std::{fs, net::SocketAddr};

use kedge_core::Code;
use kedge_manager_controller::{Manager, ManagerOptions};

use crate::site::Site;

async fn refused(options: &ManagerOptions) -> kedge_core::Problem {
    match Manager::start(options).await {
        Err(problem) => problem,
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_or_directory_is_told() {
    let site = Site::start().await;
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let other = tempfile::tempdir().unwrap();

    let missing = ManagerOptions::new(&other.path().join("nothing"), free);
    let problem = refused(&missing).await;
    assert_eq!(problem.code, Code::HostStateNotPersisted);
    assert!(problem.what.ends_with("/nothing"), "{}", problem.what);

    let same_directory = ManagerOptions::new(&site.objects(), free);
    assert_eq!(refused(&same_directory).await.code, Code::HostSocketInUse);

    let taken = site.manager.as_ref().unwrap().address;
    let same_port = ManagerOptions::new(other.path(), taken);
    let problem = refused(&same_port).await;
    assert_eq!(problem.code, Code::HostSocketInUse);
    assert!(
        problem.what.contains(&taken.to_string()),
        "{}",
        problem.what
    );
    site.get("/v1/status").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_authority_is_never_replaced() {
    let mut site = Site::start().await;
    let pin = site.get("/v1/status").await["caPin"].clone();
    site.halt().await;
    let secret = "owned/core/Secret/kedge-system/kedge-manager-ca/kedge-ca.yaml";
    let path = site.objects().join(secret);
    let good = fs::read_to_string(&path).unwrap();
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let options = ManagerOptions::new(&site.objects(), free);
    for bad in [
        String::new(),
        "{{".to_owned(),
        good.replace("BEGIN CERTIFICATE", "BEGIN NOTHING"),
    ] {
        fs::write(&path, &bad).unwrap();
        assert_eq!(
            refused(&options).await.code,
            Code::HostStateCorrupt,
            "{bad}"
        );
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            bad,
            "left for a person to look at"
        );
    }
    fs::write(&path, &good).unwrap();
    site.boot().await;
    assert_eq!(
        site.get("/v1/status").await["caPin"],
        pin,
        "the same authority as before"
    );
}
