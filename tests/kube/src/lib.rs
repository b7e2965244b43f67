//! Tests against a real API server, Cluster API's own managers and a real IPAM provider.
//!
//! The programs are built once from Go modules that stand beside this crate and are kept in a cache
//! outside the clone ([`assets`]); [`server::Server`] starts an API server with a store of its own
//! and stops both again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

pub mod assets;
pub mod background;
pub mod bare;
pub mod capi;
pub mod chart;
pub mod clusterctl;
pub mod clusters;
pub mod condition;
pub mod controllers;
pub mod edge;
pub mod edgetest;
pub mod elemental;
pub mod finalizers;
pub mod foreign;
pub mod hub;
pub mod ipam;
pub mod k3s;
pub mod manager;
pub mod manifests;
pub mod objects;
pub mod ours;
pub mod pod;
pub mod relay;
pub mod rke2;
mod schema;
pub mod server;
pub mod stack;
pub mod workload;

pub use kedge_agent_lab::kube::{keys, process};

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Waits for what an attempt is to bring, prints how long it took, and fails after `limit` with why the last one
/// brought nothing.
pub async fn until<T, E>(
    what: &str,
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
    why: impl Fn(E) -> String,
) -> T {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Ok(brought) => {
                println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
                return brought;
            }
            Err(last) => assert!(begun.elapsed() < limit, "{what}: {}", why(last)),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until something holds, prints how long it took, and fails after `limit`.
pub async fn eventually<F>(what: &str, limit: Duration, mut holds: impl FnMut() -> F) -> Duration
where
    F: Future<Output = bool>,
{
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{what}: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    begun.elapsed()
}

/// Watches that something goes on holding.
///
/// # Panics
///
/// When it does not.
pub async fn stays<F>(what: &str, span: Duration, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let begun = Instant::now();
    while begun.elapsed() < span {
        assert!(holds().await, "{what}: no more after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until what is looked at stays as it is for `span`; answers with what it is then.
///
/// # Panics
///
/// When it still changes after `limit`.
pub async fn at_rest<T: Debug + PartialEq, F: Future<Output = T>>(
    what: &str,
    span: Duration,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    let (mut last, mut since) = (look().await, begun);
    while since.elapsed() < span {
        assert!(
            begun.elapsed() < limit,
            "{what} never comes to rest: {last:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = look().await;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}
