//! The containers of kube-vip in a manifest, with their variables and flags.

use std::sync::Arc;

use kedge_core::{Code, Fix, Problem};

use super::{
    settings,
    yaml::{self, Node},
};
use crate::migrate::report::{Place, Report};

/// A container that runs kube-vip.
#[derive(Debug)]
pub(super) struct Container {
    /// Its name.
    pub(super) name: String,
    /// Where it stands.
    pub(super) place: Place,
    /// What it is told; a variable wins over the flag of the same meaning.
    pub(super) settings: Vec<Setting>,
}

/// A variable or a flag.
#[derive(Debug)]
pub(super) struct Setting {
    /// The name of the variable, also for a flag.
    pub(super) variable: String,
    /// As it is written; without the value, which may be a secret.
    pub(super) shown: String,
    /// The value; `None` where Kubernetes fills it in.
    pub(super) value: Option<String>,
    /// Where it stands.
    pub(super) place: Place,
}

impl Setting {
    /// The value as text.
    pub(super) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default().trim()
    }

    /// Whether it says yes, as Go reads it.
    pub(super) fn is_on(&self) -> bool {
        matches!(self.text(), "1" | "t" | "T" | "TRUE" | "true" | "True")
    }

    /// Whether it says no, or nothing.
    pub(super) fn is_off(&self) -> bool {
        let no = ["", "0", "f", "F", "FALSE", "false", "False"];
        self.value.is_some() && no.contains(&self.text())
    }
}

/// Every container of kube-vip in a text.
///
/// # Errors
///
/// The text is no YAML.
pub(super) fn containers(
    file: &str,
    text: &str,
    report: &mut Report,
) -> Result<Vec<Container>, Problem> {
    let name: Arc<str> = file.into();
    let mut found = Vec::new();
    let documents = yaml::documents(file, text)?;
    let listed = |document: &Node| document.get("kind").and_then(Node::text) == Some("List");
    for document in &documents {
        let objects = match document.get("items") {
            Some(items) if listed(document) => items.items(),
            _ => std::slice::from_ref(document),
        };
        for object in objects {
            let before = found.len();
            found.extend(of_object(object, &name));
            if found.len() == before {
                tell_other(object, &name, report);
            }
        }
    }
    Ok(found)
}

/// A file in which kube-vip does not stand.
pub(super) fn nothing_of_kube_vip(name: &str) -> Problem {
    Problem::new(
        Code::ConfigRule,
        format!("{name} has no container of kube-vip"),
    )
    .evidence("looked for a Pod, DaemonSet or Deployment whose image or variables are kube-vip's")
    .consequence("nothing was migrated")
    .fix(
        Fix::text("name the manifest that starts kube-vip")
            .command("kedge migrate kube-vip /etc/kubernetes/manifests/kube-vip.yaml"),
    )
}

fn of_object<'a>(object: &'a Node, file: &'a Arc<str>) -> impl Iterator<Item = Container> + 'a {
    let spec = match object.get("kind").and_then(Node::text) {
        Some("Pod") => object.get("spec"),
        _ => object.at(&["spec", "template", "spec"]),
    };
    let containers = spec.and_then(|spec| spec.get("containers"));
    let containers = containers.map_or(&[][..], Node::items).iter();
    containers.filter_map(move |container| of_container(container, file))
}

fn of_container(node: &Node, file: &Arc<str>) -> Option<Container> {
    let place = |line| Place {
        file: file.clone(),
        line,
    };
    let mut read: Vec<Setting> = Vec::new();
    let words = ["command", "args"].into_iter();
    let words = words.filter_map(|key| node.get(key)).flat_map(Node::items);
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.text().and_then(|text| text.strip_prefix('-')) else {
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (flag, value) = match flag.split_once('=') {
            Some((flag, value)) => (flag, value.to_owned()),
            None if settings::is_switch(flag) => (flag, "true".to_owned()),
            None => {
                let is_value = |next: &&Node| next.text().is_some_and(|it| !it.starts_with('-'));
                let next = words.next_if(is_value).and_then(Node::text);
                (flag, next.unwrap_or("true").to_owned())
            }
        };
        read.push(Setting {
            variable: settings::variable(flag).unwrap_or(flag).to_owned(),
            shown: format!("--{flag}"),
            value: Some(value),
            place: place(word.line),
        });
    }
    for entry in node.get("env").map_or(&[][..], Node::items) {
        let Some(name) = entry.get("name").and_then(Node::text) else {
            continue;
        };
        let given = match (entry.get("value"), entry.get("valueFrom")) {
            (None, Some(_)) => None,
            (value, _) => Some(value.and_then(Node::text).unwrap_or_default().to_owned()),
        };
        // kube-vip reads its flags first and lets variables win.
        if given.as_deref() != Some("") {
            read.retain(|flag| flag.variable != name);
        }
        read.push(Setting {
            variable: name.to_owned(),
            shown: name.to_owned(),
            value: given,
            place: place(entry.line),
        });
    }
    let image = node.get("image").and_then(Node::text).unwrap_or_default();
    let by_image = image.contains("kube-vip") && !image.contains("cloud-provider");
    let by_settings = read.iter().any(|one| settings::is_telling(&one.variable));
    let name = node.get("name").and_then(Node::text);
    (by_image || by_settings).then(|| Container {
        name: name.unwrap_or("kube-vip").to_owned(),
        place: place(node.line),
        settings: read,
    })
}

fn tell_other(object: &Node, file: &Arc<str>, report: &mut Report) {
    let Some(kind) = object.get("kind").and_then(Node::text) else {
        return;
    };
    let name = object.at(&["metadata", "name"]).and_then(Node::text);
    let place = Place {
        file: file.clone(),
        line: object.line,
    };
    let what = format!("{kind} {}", name.unwrap_or_default());
    let how = "Kedge does not need it for VIPs: delete it with kube-vip";
    report.different(&place, what.trim_end(), "", how);
}
