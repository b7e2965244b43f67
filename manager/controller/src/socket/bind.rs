//! Opens the socket's file: its mode decides who may read.

use std::{
    fs, io,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::Path,
};

use kedge_core::{Code, Fix, Problem};
use tokio::net::UnixListener;

/// Binds the socket: 0660 for the group `kedge`, 0600 where there is no such group. A file a dead
/// manager left is replaced, a living one's is not.
///
/// # Errors
///
/// Another manager serves it, or the file system refuses.
pub fn bind(path: &Path) -> Result<UnixListener, Problem> {
    let refused = |error: io::Error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => Code::HostSocketPermission,
            _ => Code::HostStateNotPersisted,
        };
        Problem::new(
            code,
            format!("the control socket {} cannot be opened", path.display()),
        )
        .caused_by(&error)
        .consequence("the manager does not start")
        .fix(Fix::text("let the manager write in the socket's directory"))
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(refused)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Problem::new(
            Code::HostSocketInUse,
            format!("another process serves {}", path.display()),
        )
        .consequence("the manager does not start")
        .fix(Fix::text(
            "stop the other one, or give this one its own --root",
        )));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    let mode = match group("kedge") {
        Some(group) if chown(path, None, Some(group)).is_ok() => 0o660,
        _ => 0o600,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(refused)?;
    Ok(listener)
}

/// The id of a local group.
fn group(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        let id = fields.nth(1)?;
        found.then(|| id.parse().ok()).flatten()
    })
}
