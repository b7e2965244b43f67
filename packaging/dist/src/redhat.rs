//! Packages for rpm.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder, Scriptlet};

use crate::{
    Build,
    form::Form,
    tree::{Entry, Kind, Node},
};

/// Writes one.
pub(crate) fn write(build: &Build) -> anyhow::Result<Vec<u8>> {
    let tree = build.tree(Form::Rpm)?;
    let config = BuildConfig::v4()
        .source_date(u32::try_from(build.epoch)?)
        .compression(CompressionWithLevel::Xz(build.level));
    let mut package = PackageBuilder::new(
        "kedge",
        &build.version,
        "Apache-2.0",
        build.machine.kernel(),
        "Floating addresses and tunnels for hosts at the edge",
    );
    package
        .using_config(config)
        .release(REVISION)
        .url(crate::HOMEPAGE)
        .vendor("Kedge")
        .packager(crate::MAINTAINER)
        .group("System Environment/Daemons")
        .build_host("localhost")
        .description(crate::DESCRIPTION)
        .recommends(Dependency::any("dbus"))
        .recommends(Dependency::any("nftables"))
        .requires(Dependency::script_post("/bin/sh"))
        .requires(Dependency::script_preun("/bin/sh"))
        .requires(Dependency::script_postun("/bin/sh"))
        .post_install_script(shell(include_str!("../../host/rpm/post")))
        .pre_uninstall_script(shell(include_str!("../../host/rpm/preun")))
        .post_uninstall_script(shell(include_str!("../../host/rpm/postun")));
    let at = u32::try_from(build.epoch)?;
    package.add_changelog_entry(
        format!("{} - {}-{REVISION}", crate::MAINTAINER, build.version),
        "- Packaged by the project itself; what changed is in changelog.gz.",
        at,
    );
    for (path, entry) in tree.entries() {
        put(&mut package, &format!("/{path}"), entry)?;
    }
    let mut out = Vec::new();
    package.build()?.write(&mut out)?;
    Ok(out)
}

/// Its file name.
pub(crate) fn name(build: &Build) -> String {
    let (version, machine) = (&build.version, build.machine.kernel());
    format!("kedge-{version}-{REVISION}.{machine}.rpm")
}

fn put(package: &mut PackageBuilder, path: &str, entry: &Entry) -> anyhow::Result<()> {
    let mode = u16::try_from(entry.mode)?;
    match &entry.node {
        Node::Directory => package.with_dir_entry(FileOptions::dir(path).permissions(mode))?,
        Node::Link(to) => package.with_symlink(FileOptions::symlink(path, to.as_str()))?,
        Node::File(content) => {
            let options = FileOptions::new(path).permissions(mode);
            let options = match entry.kind {
                Kind::Plain => options,
                Kind::Configuration => options.config().noreplace(),
                Kind::Documentation => options.doc(),
                Kind::Licence => options.license(),
            };
            package.with_file_contents(content.clone(), options)?
        }
    };
    Ok(())
}

fn shell(text: &'static str) -> Scriptlet {
    Scriptlet::new(text).prog(vec!["/bin/sh"])
}

const REVISION: &str = "1";
