//! Packages for Debian: two tars and a version in an `ar` (deb(5)).

use std::fmt::Write as _;

use jiff::{Timestamp, fmt::rfc2822};
use md5::{Digest as _, Md5};

use crate::{
    Build, archive,
    form::Form,
    tree::{Kind, Node, Tree},
};

/// Writes one.
pub(crate) fn write(build: &Build) -> anyhow::Result<Vec<u8>> {
    let mut tree = build.tree(Form::Deb)?;
    tree.add(
        "usr/share/doc/kedge/changelog.Debian.gz",
        0o644,
        Kind::Documentation,
        Node::File(archive::gzip(changelog(build)?.as_bytes())?),
    );
    let data = archive::tarred(&tree, ".", build.epoch)?;
    let control = archive::tarred(&control(build, &tree), ".", build.epoch)?;
    let mut out = ar::Builder::new(Vec::new());
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.xz", archive::xz(&control, build.level)?),
        ("data.tar.xz", archive::xz(&data, build.level)?),
    ];
    for (name, content) in members {
        let mut header = ar::Header::new(name.into(), content.len() as u64);
        header.set_mtime(build.epoch);
        header.set_mode(0o100_644);
        out.append(&header, content.as_slice())?;
    }
    Ok(out.into_inner()?)
}

/// Its file name.
pub(crate) fn name(build: &Build) -> String {
    let (version, machine) = (&build.version, build.machine.debian());
    format!("kedge_{version}-{REVISION}_{machine}.deb")
}

fn control(build: &Build, tree: &Tree) -> Tree {
    let mut control = Tree::default();
    control.file("control", description(build, tree));
    let mut sums = String::new();
    let mut conffiles = String::new();
    for (path, entry) in tree.entries() {
        let Node::File(content) = &entry.node else {
            continue;
        };
        if entry.kind == Kind::Configuration {
            let _ = writeln!(conffiles, "/{path}");
        } else {
            let _ = writeln!(sums, "{:x}  {path}", Md5::digest(content));
        }
    }
    control.file("md5sums", sums);
    control.file("conffiles", conffiles);
    for (name, text) in SCRIPTS {
        control.add(*name, 0o755, Kind::Plain, Node::File((*text).into()));
    }
    control
}

fn description(build: &Build, tree: &Tree) -> String {
    format!(
        "Package: kedge\nVersion: {}-{REVISION}\nArchitecture: {}\nMaintainer: {}\n\
         Installed-Size: {}\nRecommends: dbus, nftables\nSuggests: bash-completion\nSection: net\n\
         Priority: optional\nHomepage: {}\nDescription: {}\n{}",
        build.version,
        build.machine.debian(),
        crate::MAINTAINER,
        tree.size().div_ceil(1024),
        crate::HOMEPAGE,
        crate::SUMMARY,
        indented(crate::DESCRIPTION),
    )
}

fn indented(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = if line.is_empty() { "." } else { line };
        let _ = writeln!(out, " {line}");
    }
    out
}

fn changelog(build: &Build) -> anyhow::Result<String> {
    let at = Timestamp::from_second(i64::try_from(build.epoch)?)?;
    let at = rfc2822::to_string(&at.to_zoned(jiff::tz::TimeZone::UTC))?;
    Ok(format!(
        "kedge ({}-{REVISION}) stable; urgency=medium\n\n  * Packaged by the project itself; what \
         changed is in changelog.gz.\n\n -- {}  {at}\n",
        build.version,
        crate::MAINTAINER
    ))
}

/// Of the packaging, and whose it is: a distribution that packages it too counts from 1.
const REVISION: &str = "1kedge1";
const SCRIPTS: &[(&str, &str)] = &[
    ("postinst", include_str!("../../host/deb/postinst")),
    ("prerm", include_str!("../../host/deb/prerm")),
    ("postrm", include_str!("../../host/deb/postrm")),
];
