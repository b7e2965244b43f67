//! Puts beside Services what leads to them, and takes it away.

use std::{collections::BTreeMap, error::Error as _};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};

use crate::{
    hands::{Hands, NotWritten},
    plan::companion::Companions,
    snapshot::Key,
};

/// Puts companions and copies of endpoints; answers with why the cluster does not take those of a Service. That
/// holds nothing else up.
///
/// # Errors
///
/// The cluster does not answer, or has no time.
pub async fn put_beside(
    hands: &Hands<'_>,
    companions: &Companions,
) -> Result<BTreeMap<Key, String>, NotWritten> {
    let mut refused = BTreeMap::new();
    for (service, companion) in &companions.put {
        let why = refusal(hands.put(companion).await)?;
        refused.extend(why.map(|why| (service.clone(), why)));
    }
    for (service, copy) in &companions.copy {
        let why = refusal(hands.put(copy).await)?;
        refused.extend(why.map(|why| (service.clone(), why)));
    }
    Ok(refused)
}

/// Takes away what nothing leads to any more.
///
/// # Errors
///
/// Something is still there.
pub async fn take_away(hands: &Hands<'_>, companions: &Companions) -> Result<(), NotWritten> {
    for target in &companions.forget {
        hands.remove::<EndpointSlice>(target).await?;
    }
    for target in &companions.remove {
        hands.remove::<Service>(target).await?;
    }
    Ok(())
}

/// Why the cluster refuses, where it will do so again.
fn refusal(written: Result<(), NotWritten>) -> Result<Option<String>, NotWritten> {
    let Err(error) = written else {
        return Ok(None);
    };
    match error.code() {
        // Somebody wrote at the same time: the next plan sees it.
        Some(409) => Ok(None),
        None | Some(429 | 503 | 504) => Err(error),
        Some(_) => Ok(Some(match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })),
    }
}
