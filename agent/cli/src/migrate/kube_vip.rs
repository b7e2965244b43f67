//! Manifests of kube-vip. Its hosts all become hosts of Kedge: there are no foreign members.

mod manifest;
mod settings;
mod yaml;

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use kedge_core::{Name, Problem};
use serde_json::json;

use self::{
    manifest::{Container, Setting},
    settings::Meaning,
};
use super::{
    draft::{self, Draft},
    later::Later,
    report::{Place, Report},
    source,
};

/// Reads a file with any number of documents.
///
/// # Errors
///
/// The file cannot be read or is no YAML.
pub(super) fn read(path: &Path, report: &mut Report) -> Result<Vec<Draft>, Problem> {
    let text = source::read(path)?;
    let containers = manifest::containers(&source::shown(path), &text, report)?;
    for (index, container) in containers.iter().enumerate() {
        draft::limit(index + 1, &container.place)?;
    }
    let mut names = BTreeMap::new();
    let drafts: Vec<Draft> = containers
        .iter()
        .filter_map(|container| vip(container, &mut names, report))
        .collect();
    if containers.is_empty() {
        return Err(manifest::nothing_of_kube_vip(&source::shown(path)));
    }
    if !drafts.is_empty() {
        steps(report);
    }
    Ok(drafts)
}

/// What a container of kube-vip holds for the control plane, as a VIP.
fn vip(
    container: &Container,
    names: &mut BTreeMap<Name, Place>,
    report: &mut Report,
) -> Option<Draft> {
    let of = |meaning: Meaning| {
        let mut settings = container.settings.iter();
        settings.find(|one| settings::meaning(one) == Some(meaning))
    };
    let is_on = |meaning: Meaning| of(meaning).map(Setting::is_on);
    let addresses = of(Meaning::Address).filter(|one| !one.text().is_empty());
    let addresses = addresses.or(of(Meaning::OldAddress));
    let wanted = match (is_on(Meaning::ControlPlane), is_on(Meaning::Services)) {
        (Some(wanted), _) => wanted,
        // Old manifests do not say what the address is for.
        (None, services) => !services.unwrap_or(false) && addresses.is_some(),
    };
    for setting in &container.settings {
        tell(setting, report);
    }
    if !wanted {
        let what = format!("container {}", container.name);
        let consequence =
            "it holds no address for the control plane: there is no VIP to make of it";
        report.different(&container.place, what, "", consequence);
        return None;
    }
    let name = draft::name("api", names)?;
    names.insert(name.clone(), container.place.clone());
    let origin = format!("container {}", container.name);
    let mut vip = Draft::new(name, origin, container.place.clone());
    let held = addresses.map_or_else(Vec::new, |setting| hold(setting, &mut vip, report));
    if held.is_empty() {
        report.forget(&vip.name, &vip.origin);
        let consequence = "left out: it names no IP address Kedge could hold";
        report.missing(&vip.place, vip.origin, consequence);
        return None;
    }
    vip.set("addresses", json!(held));
    vip.set("health", "auto");
    if let Some(setting) = of(Meaning::Interface).filter(|one| !one.text().is_empty()) {
        let what = format!("{} {}", setting.shown, setting.text());
        vip.take(report, &setting.place, what, "interface", setting.text());
    }
    if let Some(setting) = of(Meaning::Port) {
        port(setting, &mut vip, report);
    }
    if let Some(setting) = of(Meaning::HealthUrl).filter(|one| !one.text().is_empty()) {
        let ca = of(Meaning::HealthCa).map(Setting::text);
        health(setting, ca, &mut vip, report);
    }
    Some(vip)
}

fn hold(setting: &Setting, vip: &mut Draft, report: &mut Report) -> Vec<IpAddr> {
    let mut held = Vec::new();
    for text in setting.text().split(',').map(str::trim) {
        let what = format!("{} {text}", setting.shown);
        match text.split('/').next().unwrap_or_default().parse::<IpAddr>() {
            Ok(address) if address.is_ipv6() && Later::Ipv6.key().is_none() => {
                let consequence = "no equivalent yet: VIPs are IPv4";
                report.missing(&setting.place, what, consequence);
            }
            Ok(address) => {
                report.taken(&setting.place, what, vip.path("addresses"));
                held.push(address);
            }
            Err(_) => {
                let consequence = "not an IP address: a VIP is not looked up in DNS and does not come from \
                                   DHCP. Choose a free address of the LAN and let the name lead to it";
                report.missing(&setting.place, what, consequence);
            }
        }
    }
    held
}

/// The port says where the API server is asked for its health.
fn port(setting: &Setting, vip: &mut Draft, report: &mut Report) {
    let what = format!("{} {}", setting.shown, setting.text());
    match setting.text().parse::<u16>() {
        Ok(6443) => report.taken(&setting.place, what, vip.path("health")),
        Ok(port) if port > 0 => {
            let url = format!("https://127.0.0.1:{port}/readyz");
            let value = json!({ "url": url });
            vip.take(report, &setting.place, what, "health", value);
        }
        _ => report.missing(
            &setting.place,
            what,
            "not a port: `health: auto` asks at 6443",
        ),
    }
}

fn health(setting: &Setting, ca: Option<&str>, vip: &mut Draft, report: &mut Report) {
    let what = setting.shown.clone();
    if setting.text().starts_with("https://") {
        let mut probe = json!({ "url": setting.text() });
        if let (Some(ca), Some(probe)) = (ca.filter(|ca| !ca.is_empty()), probe.as_object_mut()) {
            probe.insert("ca_file".to_owned(), json!(ca));
        }
        vip.take(report, &setting.place, what, "health", probe);
    } else {
        let consequence =
            "a probe asks over https: `health: auto` asks the API server of this host";
        report.missing(&setting.place, what, consequence);
    }
}

fn tell(setting: &Setting, report: &mut Report) {
    let what = match setting.value {
        Some(_) => setting.shown.clone(),
        None => format!("{} (filled in by Kubernetes)", setting.shown),
    };
    let place = &setting.place;
    match settings::fate(setting) {
        Some(settings::Fate::Told) => {}
        Some(_) if setting.is_off() => {
            let is_set = !setting.text().is_empty();
            let state = if is_set { "off" } else { "not set" };
            report.taken(place, format!("{what}: {state}"), "");
        }
        Some(settings::Fate::Same) => report.taken(place, what, ""),
        Some(settings::Fate::Own(how)) => report.different(place, what, "", how),
        Some(settings::Fate::Missing(consequence)) => report.missing(place, what, consequence),
        None => {
            let consequence = "not a word Kedge knows of kube-vip: nothing was done about it";
            report.missing(place, what, consequence);
        }
    }
}

fn steps(report: &mut Report) {
    report.step(
        "switch every host at once: kube-vip and Kedge do not hear each other. Move the manifest out of \
         /etc/kubernetes/manifests (or delete the DaemonSet) on every host, then start the agents: Kedge \
         takes no address another host answers for (KEDGE-VIP-0002)",
    );
    report.step(
        "remove the address where kube-vip left it behind: `ip address show` names it without the \
         protocol kedge",
    );
    report.step(
        "the same file goes on every host: VRID and priority are derived, and neither a kubeconfig nor a \
         lease is needed any more",
    );
}
