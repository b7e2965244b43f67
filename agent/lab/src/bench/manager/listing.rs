//! A plain client that lists what the manager lists, and does nothing with it.

use std::time::Instant;

use futures_util::future::try_join_all;
use kedge_crd::{
    kinds::{KINDS, Kind},
    meta,
};
use kube::{Client, api::ApiResource};

use super::{
    definitions::FOREIGN,
    server::{kind, said, text},
};
use crate::error::LabError;

/// How long a list of every kind took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    pub(super) seconds: f64,
    pub(super) objects: usize,
}

/// Lists every kind at once and reads the answers as bytes: what the API server needs for itself.
/// The best of a few, because what is subtracted must not flatter.
pub(super) async fn time(client: &Client) -> Result<Listed, LabError> {
    let mut best: Option<Listed> = None;
    for _ in 0..TIMES {
        let begun = Instant::now();
        let all = kinds().into_iter().map(|resource| async move {
            let path = path(&resource);
            let answer = text(client, &path).await?;
            // Counted by what every object has once.
            Ok::<_, LabError>(answer.matches("\"creationTimestamp\":").count())
        });
        let lists = try_join_all(all).await?;
        let seconds = begun.elapsed().as_secs_f64();
        if best.is_none_or(|best| seconds < best.seconds) {
            let objects = lists.into_iter().sum();
            best = Some(Listed { seconds, objects });
        }
    }
    best.ok_or_else(|| said("nothing was listed"))
}

/// The kinds the manager reads.
pub(super) fn kinds() -> Vec<ApiResource> {
    let ours = KINDS
        .iter()
        .map(|one: &Kind| kind(meta::GROUP, meta::VERSION, one.kind, one.plural));
    let theirs = FOREIGN
        .iter()
        .map(|(group, version, name, plural)| kind(group, version, name, plural));
    ours.chain(theirs).collect()
}

fn path(resource: &ApiResource) -> String {
    format!("/apis/{}/{}", resource.api_version, resource.plural)
}

const TIMES: u32 = 3;
