//! The table: what a host gets, and where.

use crate::{
    form::Form,
    tree::{Kind, Node, Tree},
};

/// A file that is the same for every version and architecture.
struct Asset {
    path: &'static str,
    content: Content,
    kind: Kind,
    /// The forms it is in; all of them without one.
    only: &'static [Form],
}

enum Content {
    Text(&'static str),
    Link(&'static str),
    Directory,
}

use Content::{Directory, Link, Text};
use Kind::{Configuration, Documentation, Licence, Plain};

const fn asset(path: &'static str, kind: Kind, content: Content) -> Asset {
    Asset {
        path,
        content,
        kind,
        only: &[],
    }
}

const fn only(forms: &'static [Form], path: &'static str, kind: Kind, content: Content) -> Asset {
    Asset {
        path,
        content,
        kind,
        only: forms,
    }
}

macro_rules! here {
    ($path:literal) => {
        Text(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../",
            $path
        )))
    };
}

const ASSETS: &[Asset] = &[
    // The same executable, by the name wg-quick is given.
    asset("usr/bin/kedge-wg", Plain, Link("kedge")),
    // Units.
    asset(
        "usr/lib/systemd/system/kedge-agent.service",
        Plain,
        here!("packaging/systemd/kedge-agent.service"),
    ),
    asset(
        "usr/lib/systemd/system/kedge-handover.service",
        Plain,
        here!("packaging/systemd/kedge-handover.service"),
    ),
    asset(
        "usr/lib/systemd/system/kedge-gateway.service",
        Plain,
        here!("packaging/systemd/kedge-gateway.service"),
    ),
    asset(
        "usr/lib/systemd/system/kedge-console@.service",
        Plain,
        here!("packaging/systemd/kedge-console@.service"),
    ),
    // The group that may ask, and folders.
    asset(
        "usr/lib/sysusers.d/kedge.conf",
        Plain,
        here!("packaging/host/sysusers.conf"),
    ),
    asset(
        "usr/lib/tmpfiles.d/kedge.conf",
        Plain,
        here!("packaging/host/tmpfiles.conf"),
    ),
    // Who may speak to the agent on the bus.
    asset(
        "usr/share/dbus-1/system.d/dev.kedge.Agent1.conf",
        Plain,
        here!("packaging/dbus/dev.kedge.Agent1.conf"),
    ),
    // Neighbours that configure links.
    asset(
        "usr/lib/systemd/networkd.conf.d/10-kedge.conf",
        Plain,
        here!("packaging/host/networkd.conf"),
    ),
    asset(
        "usr/lib/systemd/network/10-kedge.network",
        Plain,
        here!("packaging/host/kedge.network"),
    ),
    asset(
        "usr/lib/NetworkManager/conf.d/10-kedge.conf",
        Plain,
        here!("packaging/host/NetworkManager.conf"),
    ),
    // Configuration. What a site writes goes into the folder, which holds nothing of the package.
    only(
        Form::OWNING_ETC,
        "etc/kedge/agent.yaml",
        Configuration,
        here!("packaging/host/agent.yaml"),
    ),
    only(Form::OWNING_ETC, "etc/kedge/agent.yaml.d", Plain, Directory),
    // Documents.
    asset(
        "usr/share/doc/kedge/copyright",
        Documentation,
        here!("packaging/host/copyright"),
    ),
    asset(
        "usr/share/doc/kedge/README.md",
        Documentation,
        here!("packaging/host/README.md"),
    ),
    // Debian keeps the text of this licence at a place of its own.
    only(
        Form::WITHOUT_COMMON_LICENSES,
        "usr/share/licenses/kedge/LICENSE",
        Licence,
        here!("LICENSE"),
    ),
    only(
        &[Form::Deb],
        "usr/share/lintian/overrides/kedge",
        Plain,
        here!("packaging/host/deb/lintian-overrides"),
    ),
    // Where nobody enables units and no package manager runs scripts.
    only(
        &[Form::Sysext],
        "usr/lib/systemd/system/kedge-sysext-setup.service",
        Plain,
        here!("packaging/host/sysext/kedge-sysext-setup.service"),
    ),
    only(
        &[Form::Sysext],
        "usr/lib/systemd/system/kedge-agent.service.d/10-sysext.conf",
        Plain,
        here!("packaging/host/sysext/agent.conf"),
    ),
    only(
        &[Form::Sysext],
        "usr/lib/systemd/system/multi-user.target.d/10-kedge.conf",
        Plain,
        here!("packaging/host/sysext/multi-user.conf"),
    ),
];

/// The files of the table that this form has.
#[must_use]
pub fn files(form: Form) -> Tree {
    let mut tree = Tree::default();
    for asset in ASSETS {
        if !asset.only.is_empty() && !asset.only.contains(&form) {
            continue;
        }
        let (mode, node) = match asset.content {
            Text(text) => (0o644, Node::File(text.into())),
            Link(to) => (0o777, Node::Link(to.to_owned())),
            Directory => (0o755, Node::Directory),
        };
        tree.add(asset.path, mode, asset.kind, node);
    }
    tree
}
