//! The Ingresses of a cluster. They have no conditions, so that what is wrong with one is found as the agent
//! finds it; what the manager says of it stands in its events.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    core::v1::Service,
    events::v1::Event,
    networking::v1::{Ingress, IngressClass},
};
use kedge_control::local::{OfferedIngress, OfferedIngressList};
use kedge_core::Problem;
use kube::{Api, Client, api::ListParams};

use super::{all, refused};
use crate::{
    certificates::{Certificate, Certificates},
    names::{FIELD_MANAGER, INGRESS_CLASS, PREFIX},
    place::Place,
    plan::ingress::{Verdict, is_touched, secrets, status::standing, verdict},
    snapshot::{Ingresses, Key, Snapshot},
};

/// The Ingresses that are ours, or were.
pub async fn listed(place: &Place, client: &Client) -> Result<OfferedIngressList, Problem> {
    let ingresses: Vec<Ingress> = all(place, client).await?;
    let classes: Vec<IngressClass> = all(place, client).await?;
    let services: Vec<Service> = all(place, client).await?;
    let by_key = ingresses.into_iter().map(|it| (Key::of(&it), it));
    let classes = classes.into_iter();
    let ingresses = Ingresses {
        all: by_key.collect(),
        classes: classes
            .filter_map(|it| Some((it.metadata.name.clone()?, it)))
            .collect(),
    };
    let mut certificates = Certificates::default();
    let asked = secrets(&ingresses);
    certificates.ask(client, &asked, Duration::MAX).await;
    let snapshot = Snapshot {
        services: services.into_iter().map(|it| (Key::of(&it), it)).collect(),
        certificates: certificates.known(),
        ingresses: Some(ingresses.clone()),
        ..Snapshot::default()
    };
    let warnings = warnings(place, client).await?;
    let each = ingresses.all.values();
    let items = each.filter_map(|ingress| {
        let verdict = verdict(&snapshot, &ingresses, ingress);
        let is_ours = verdict != Verdict::TakeBack || is_touched(ingress);
        let uid = ingress.metadata.uid.as_deref().unwrap_or_default();
        is_ours.then(|| one(&snapshot, (ingress, &verdict), warnings.get(uid)))
    });
    Ok(OfferedIngressList {
        items: items.collect(),
    })
}

fn one(
    snapshot: &Snapshot,
    (ingress, verdict): (&Ingress, &Verdict),
    warning: Option<&(String, String)>,
) -> OfferedIngress {
    let shown = standing(ingress);
    let spec = ingress.spec.clone().unwrap_or_default();
    let annotations = ingress.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(INGRESS_CLASS)).cloned();
    let rules = spec.rules.iter().flatten();
    let host = |host: Option<&String>| host.filter(|it| !it.is_empty()).cloned();
    let mut hosts: Vec<String> = rules
        .map(|rule| host(rule.host.as_ref()).unwrap_or_else(|| "*".to_owned()))
        .chain(spec.default_backend.iter().map(|_| "*".to_owned()))
        .collect();
    hosts.sort();
    hosts.dedup();
    let first = shown.first().and_then(|it| it.ports.clone());
    let ports = first.unwrap_or_default();
    let errors = ports.iter().filter_map(|port| {
        let reason = port.error.as_deref()?.trim_start_matches(PREFIX);
        Some(format!("{}/{}: {reason}", port.port, port.protocol))
    });
    let mut unserved: Vec<String> = errors.collect();
    let (mut reason, mut message) = (String::new(), String::new());
    match verdict {
        Verdict::Refuse(refusal) => {
            reason.push_str(refusal.reason());
            message = refusal.to_string();
        }
        Verdict::Offer(wanted) => {
            // What this user may not read the agent may.
            let hidden = |key: &Key| {
                let known = snapshot.certificates.get(key);
                known.is_none_or(|known| *known == Certificate::Forbidden)
            };
            let troubles = wanted
                .troubles
                .iter()
                .filter(|it| !it.secret().is_some_and(hidden));
            unserved.extend(troubles.map(|it| format!("{}: {it}", it.reason())));
            if shown.is_empty() {
                let told = warning.cloned();
                let waits = || {
                    (
                        "Pending".to_owned(),
                        "it waits for the agent and its manager".to_owned(),
                    )
                };
                (reason, message) = told.unwrap_or_else(waits);
            }
        }
        Verdict::Leave | Verdict::TakeBack => {}
    }
    let addresses = shown
        .iter()
        .filter_map(|it| it.ip.clone().or_else(|| it.hostname.clone()));
    let key = Key::of(ingress);
    OfferedIngress {
        namespace: key.namespace,
        name: key.name,
        class: annotated.or(spec.ingress_class_name).unwrap_or_default(),
        hosts,
        addresses: addresses.collect(),
        ports: ports
            .iter()
            .map(|port| format!("{}/{}", port.port, port.protocol))
            .collect(),
        unserved,
        ready: reason.is_empty() && !shown.is_empty() && matches!(verdict, Verdict::Offer(_)),
        reason,
        message,
        leaving: *verdict == Verdict::Leave,
    }
}

/// The last warning of the agent about each object, by its uid: reason and text.
async fn warnings(
    place: &Place,
    client: &Client,
) -> Result<BTreeMap<String, (String, String)>, Problem> {
    let events: Api<Event> = Api::all(client.clone());
    let selector = format!("reportingController={FIELD_MANAGER},type=Warning");
    let ours = events.list(&ListParams::default().fields(&selector)).await;
    let mut all = ours.map_err(|error| refused(place, &error))?.items;
    let last = |event: &Event| {
        let series = event
            .series
            .as_ref()
            .map(|series| series.last_observed_time.0);
        series.or_else(|| event.event_time.as_ref().map(|time| time.0))
    };
    all.sort_by_key(last);
    let each = all.into_iter().filter_map(|event| {
        let about = event.regarding?.uid?;
        Some((
            about,
            (
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default(),
            ),
        ))
    });
    Ok(each.collect())
}
