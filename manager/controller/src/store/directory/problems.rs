//! What is wrong with the directory, as people are told.

use std::{io, path::Path};

use kedge_core::{Code, Fix, Problem};

use crate::store::{ObjectKey, UserDocument};

pub(super) fn duplicate(key: &ObjectKey, document: &UserDocument, first: &UserDocument) -> Problem {
    Problem::new(
        Code::CapiObjectInvalid,
        format!(
            "{}: {key} is already written at {}",
            document.origin, first.origin
        ),
    )
    .object(document.origin.clone())
    .consequence("the first one is in force")
    .fix(Fix::text("remove one of the two"))
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(
        Code::HostStateNotPersisted,
        format!("the directory store cannot use {}", path.display()),
    )
    .caused_by(error)
    .consequence("the manager does not start")
    .fix(Fix::text(
        "create the directory and let the manager write there",
    ))
}

pub(super) fn unlisted(path: &Path, error: &io::Error) -> Problem {
    Problem::new(
        Code::HostStateCorrupt,
        format!("{} cannot be read", path.display()),
    )
    .caused_by(error)
    .consequence("everything stays as it was last read")
    .fix(Fix::text(
        "bring the directory back, or restart the manager without it",
    ))
}

pub(super) fn corrupt(path: &Path, what: &str) -> Problem {
    Problem::new(
        Code::HostStateCorrupt,
        format!("{} is corrupt", path.display()),
    )
    .evidence(what)
    .consequence("what was last read of it stays in force; after a restart it counts as absent")
    .fix(Fix::text(
        "restore the file from a backup, or remove it to have it decided again",
    ))
}

/// Every file has gone at once.
pub(super) fn emptied(root: &Path) -> Problem {
    let root = root.display();
    Problem::new(
        Code::HostStateCorrupt,
        format!("{root} has no YAML file any more, where it had some"),
    )
    .evidence("a file system that is not mounted looks like this, too")
    .consequence("nothing counts as deleted: every object stays as it was last read")
    .fix(
        Fix::text("bring the files back; to delete everything, leave one YAML file, even an empty")
            .command(format!("touch {root}/none.yaml")),
    )
}
