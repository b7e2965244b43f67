//! The same files in the words of whoever brings them to a host.

use std::net::IpAddr;

use kedge_core::{Code, Fix, Problem};
use kedge_host::credential;

use super::site::Site;
use crate::{
    args::{Emit, Flavour},
    client::Failure,
};

/// Files that a new host is to have. None of them is secret, and everybody may read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserData {
    /// The agent's part: first, because the rest may be left out.
    site: String,
    others: Vec<(&'static str, String)>,
}

impl UserData {
    /// A site's files, and what a Kubernetes has to know of the VIPs.
    pub(super) fn of(site: &Site, flavour: Option<Flavour>) -> Self {
        let others = flavour.and_then(|flavour| of_flavour(flavour, &site.vips));
        Self {
            site: site.text.clone(),
            others: others.into_iter().collect(),
        }
    }

    /// In the words of one of them.
    ///
    /// # Errors
    ///
    /// It cannot bring what is asked for.
    pub(super) fn text(&self, kind: Emit) -> Result<String, Failure> {
        let alone = matches!(kind, Emit::Talos | Emit::Credential);
        if alone && let Some((path, _)) = self.others.first() {
            let what = format!("{path} cannot come this way");
            let fix =
                "leave --for out, and tell that Kubernetes of the VIP in its own configuration";
            return Err(Problem::new(Code::SysUsage, what)
                .consequence("nothing was written")
                .fix(Fix::text(fix))
                .into());
        }
        Ok(match kind {
            Emit::CloudInit => self.cloud_init(),
            Emit::Butane => self.butane(),
            Emit::Yip => self.yip(),
            Emit::Talos => self.talos(),
            Emit::Credential => credential::as_text(&self.site) + "\n",
        })
    }

    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self
            .others
            .iter()
            .map(|(path, text)| (*path, text.as_str()));
        std::iter::once((SITE, self.site.as_str())).chain(others)
    }

    /// Written before packages are installed. A host that has the agent already reads it at once.
    fn cloud_init(&self) -> String {
        let mut text = "#cloud-config\nwrite_files:\n".to_owned();
        for (path, content) in self.files() {
            text += &format!("- path: {path}\n  permissions: \"0644\"\n  content: |\n");
            text += &indented(content, 4);
        }
        text + "runcmd:\n- [systemctl, try-reload-or-restart, kedge-agent.service]\n"
    }

    fn butane(&self) -> String {
        let mut text = "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n".to_owned();
        for (path, content) in self.files() {
            text += &format!("  - path: {path}\n    mode: 0644\n    contents:\n      inline: |\n");
            text += &indented(content, 8);
        }
        text
    }

    /// In the initramfs: before the agent starts, at each boot, since `/etc` may not last.
    fn yip(&self) -> String {
        let mut text =
            "#cloud-config\nname: kedge\nstages:\n  initramfs:\n  - name: kedge\n    files:\n"
                .to_owned();
        for (path, content) in self.files() {
            text += &format!(
                "    - path: {path}\n      permissions: 0644\n      owner: 0\n      group: 0\n      content: |\n"
            );
            text += &indented(content, 8);
        }
        text
    }

    fn talos(&self) -> String {
        let mut text =
            "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: kedge\nconfigFiles:\n"
                .to_owned();
        for (path, content) in self.files() {
            text += "- content: |\n";
            text += &indented(content, 4);
            text += &format!("  mountPath: {path}\n");
        }
        text
    }
}

fn of_flavour(flavour: Flavour, vips: &[IpAddr]) -> Option<(&'static str, String)> {
    let first = vips.first()?;
    let names: String = vips.iter().map(|vip| format!("- \"{vip}\"\n")).collect();
    let names = format!("tls-san:\n{names}");
    Some(match flavour {
        Flavour::Kubeadm => {
            let endpoint = std::net::SocketAddr::new(*first, 6443);
            let text = format!(
                "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
                 controlPlaneEndpoint: \"{endpoint}\"\n"
            );
            ("/etc/kedge/kubeadm.yaml", text)
        }
        Flavour::K3s => ("/etc/rancher/k3s/config.yaml.d/10-kedge.yaml", names),
        Flavour::Rke2 => ("/etc/rancher/rke2/config.yaml.d/10-kedge.yaml", names),
    })
}

/// A text as the block of a YAML document.
fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        line => format!("{indent}{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A drop-in that no package owns: nobody is asked about it at an upgrade.
const SITE: &str = "/etc/kedge/agent.yaml.d/10-site.yaml";
