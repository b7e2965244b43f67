//! A first configuration: `kedge init` writes it, for this host or for those that are to come, and `kedge
//! up` has a VIP on this host within one command.

mod emit;
mod site;
mod up;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;

pub use self::up::up;
use self::{emit::UserData, site::Site};
use crate::{App, args::InitArgs, client::Failure, exit::Exit};

/// `kedge init`.
///
/// # Errors
///
/// The configuration does not hold, or a file is there already.
pub fn init(app: &App, args: &InitArgs) -> Result<Exit, Failure> {
    let site = match &args.file {
        Some(file) => Site::read(app, file)?,
        None => Site::of(&args.site, args)?,
    };
    if let Some(kind) = args.emit {
        out!("{}", UserData::of(&site, args.flavour).text(kind)?);
        return Ok(Exit::Ok);
    }
    if args.dry_run {
        out!("{}", site.text);
        return Ok(Exit::Ok);
    }
    let path = app.root.config_file(Role::Agent);
    write(&path, &site.text, args.force)?;
    if !app.quiet {
        say!(
            "{} is written.\n{}",
            path.display(),
            app.view.next(&[
                "kedge config check".to_owned(),
                "systemctl enable --now kedge-agent".to_owned()
            ])
        );
    }
    Ok(Exit::Ok)
}

/// Writes a file that everybody may read: it holds no secret, and the group `kedge` may look at it.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o644);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| options.open(path))
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure {
            problem: Problem::new(Code::SysUsage, format!("{shown} is there already"))
                .consequence("nothing was written")
                .fix(Fix::text(
                    "look at it with `kedge config view`, or say --force to overwrite it",
                )),
            exit: Exit::Refused,
        },
        io::ErrorKind::PermissionDenied => Failure {
            problem: Problem::new(Code::SysUsage, format!("{shown} cannot be written"))
                .caused_by(error)
                .consequence("nothing was written")
                .fix(Fix::text("do it as root, or look with --dry-run")),
            exit: Exit::Permission,
        },
        _ => Problem::new(Code::SysUnexpected, format!("{shown} cannot be written"))
            .caused_by(error)
            .consequence("nothing was written")
            .into(),
    }
}
