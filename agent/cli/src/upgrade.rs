//! `kedge upgrade`: another release in the place of the one that is installed, with every VIP staying where
//! it is (docs/adr/0057).
//!
//! A release is a folder of packages with a signed list of their checksums. What is installed here says how
//! ([`Installed`]), and that decides which package fits and who installs it. What is replaced is kept, so
//! that the version before is put back when the new agent does not become ready, and with `--rollback`.

mod archive;
mod extension;
mod files;
mod handover;
mod installed;
mod kept;
mod keys;
mod package;
mod release;
mod source;
mod step;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use kedge_control::local::{PackageForm, Upgrade, UpgradeOutcome};
use kedge_core::{Code, Fix, Problem};

use self::{
    handover::Running,
    installed::Installed,
    kept::{Before, Kept},
    keys::Trusted,
    release::{HERE, Package, Release},
    source::Source,
    step::Step,
};
use crate::{App, args::UpgradeArgs, ask::show, client::Failure, exit::Exit, show::own};

/// Installs a release, or goes back to the one before.
///
/// # Errors
///
/// It is not what was signed, does not fit, is older, or was taken back.
pub fn run(app: &App, args: &UpgradeArgs) -> Result<Exit, Failure> {
    match &args.release {
        Some(release) if !args.rollback => install(app, args, &Source::of(release)),
        _ => roll_back(app, args),
    }
}

fn install(app: &App, args: &UpgradeArgs, source: &Source) -> Result<Exit, Failure> {
    let installed = Installed::at(&app.root)?;
    let trusted = Trusted::of(&app.root, args.key.as_deref())?;
    let (release, by) = source.release(&trusted)?;
    let named = source.named.as_deref();
    let package = release.choose((installed.form, HERE), named, args.to.as_ref());
    let package = package.ok_or_else(|| nothing_fits(&installed, &release))?;
    let step = Step::from(&installed.version, &package.version, args.allow_downgrade)?;
    let running = Running::here(app)?;
    let mut upgrade = Upgrade {
        given: false,
        form: installed.form,
        from: installed.version.to_string(),
        to: package.version.to_string(),
        plan: Vec::new(),
        outcome: None,
    };
    if step == Step::Stay {
        upgrade.plan.push("that version is installed".to_owned());
        return show(app, &own(&upgrade)?, Exit::Ok);
    }
    let signed = format!("{}, signed by {},", package.name, by.display());
    upgrade.plan.push(match installed.form {
        PackageForm::Archive => {
            format!("the files of {signed} take the place of those that are installed")
        }
        PackageForm::Deb => format!("{signed} is installed by dpkg"),
        PackageForm::Rpm => format!("{signed} is installed by rpm"),
        PackageForm::Sysext => format!("{signed} is merged by systemd-sysext"),
    });
    upgrade.plan.extend(running.plan());
    let bytes = source.package(&package)?;
    if args.dry_run {
        return show(app, &own(&upgrade)?, Exit::Ok);
    }
    running.may_be_replaced(args.yes)?;
    let kept = Kept::of(&app.root)?;
    let begun = Instant::now();
    let change = Change {
        app,
        kept: &kept,
        installed: &installed,
        package: &package,
        running: &running,
    };
    let before = change.put(bytes)?;
    match running.go_on(app, begun, is_a_packages(installed.form)) {
        Ok(took) => {
            kept.settle()
                .map_err(|error| not_installed(app.root.path(), &error))?;
            upgrade.given = true;
            upgrade.outcome = Some(UpgradeOutcome {
                restarted: running.is_any(),
                ready_seconds: took.as_secs_f64(),
                kept: Some(before.version.to_string()),
            });
            show(app, &own(&upgrade)?, Exit::Ok)
        }
        Err(why) => Err(taken_back(app, &kept, &before, &running, &why).into()),
    }
}

/// One version in the place of another.
struct Change<'a> {
    app: &'a App,
    kept: &'a Kept,
    installed: &'a Installed,
    package: &'a Package,
    running: &'a Running,
}

impl Change<'_> {
    /// Puts the package into the place of what is installed, and keeps that.
    fn put(&self, bytes: Vec<u8>) -> Result<Before, Failure> {
        match self.installed.form {
            PackageForm::Archive => self.put_files(&bytes),
            PackageForm::Deb | PackageForm::Rpm => self.put_package(bytes),
            PackageForm::Sysext => self.put_image(bytes),
        }
    }

    fn put_files(&self, bytes: &[u8]) -> Result<Before, Failure> {
        let root = self.app.root.path();
        let files = archive::read(bytes)
            .map_err(|error| keys::tampered("the archive cannot be unpacked").caused_by(&error))?;
        let places: Vec<String> = files.iter().map(|it| it.path.clone()).collect();
        let added = places.iter().filter(|path| {
            let is_new = root.join(path).symlink_metadata().is_err();
            is_new && installed::is_ours(path)
        });
        let before = Before {
            added: added.cloned().collect(),
            ..self.before()
        };
        // What is replaced is kept, whether or not the package before named it.
        let mut replaced = self.installed.clone();
        replaced
            .files
            .extend(places.into_iter().filter(|path| installed::is_ours(path)));
        replaced.files.sort();
        replaced.files.dedup();
        let failed = |error| Failure::from(not_installed(root, &error));
        let staged = files::Staged::write(root, &files).map_err(failed)?;
        if self.running.is_any()
            && let Some(executable) = staged.executable(root)
        {
            step::check(&self.app.root, executable)?;
        }
        self.kept.keep(&replaced, before).map_err(failed)?;
        let before = self.kept.before()?;
        if let Err(error) = staged.commit() {
            let back = self
                .kept
                .put_back(&before)
                .and_then(|()| self.kept.forget());
            let back = back.err();
            let problem = not_installed(root, &error);
            return Err(match back {
                Some(back) => problem.evidence(format!("and what was there is not back: {back}")),
                None => problem.evidence("what was there is back"),
            }
            .into());
        }
        Ok(before)
    }

    fn put_package(&self, bytes: Vec<u8>) -> Result<Before, Failure> {
        let failed = |error| Failure::from(not_installed(self.app.root.path(), &error));
        let path = package::store(self.kept, self.package, bytes).map_err(failed)?;
        self.kept
            .keep(self.installed, self.before())
            .map_err(failed)?;
        if let Err(problem) = package::install(self.installed.form, &path) {
            // What is left of it is for the package manager to say.
            self.kept.forget().map_err(failed)?;
            return Err(problem.into());
        }
        let mut before = self.kept.before()?;
        if let Ok(new) = Installed::at(&self.app.root) {
            let is_new = |path: &&String| !self.installed.files.contains(path);
            before.added = new.files.iter().filter(is_new).cloned().collect();
        }
        Ok(before)
    }

    fn put_image(&self, bytes: Vec<u8>) -> Result<Before, Failure> {
        let extension = extension::Extension::of(&self.app.root)?;
        let failed = |error| Failure::from(not_installed(self.app.root.path(), &error));
        let before = Before {
            image: Some(extension.image(self.installed).map_err(failed)?),
            ..self.before()
        };
        let image = extension.store(self.package, bytes).map_err(failed)?;
        // The image is all that there is to keep.
        let none = Installed {
            files: Vec::new(),
            ..self.installed.clone()
        };
        self.kept.keep(&none, before).map_err(failed)?;
        let before = self.kept.before()?;
        if let Err(problem) = extension.merge(&image, &self.package.version) {
            let back = before.image.as_deref();
            let back = back.map(|image| extension.merge(image, &before.version));
            let failed = |error| not_installed(self.app.root.path(), &error);
            self.kept.forget().map_err(failed)?;
            return Err(match back {
                Some(Ok(())) => problem.evidence("the image before is merged again"),
                _ => problem.evidence("and the image before is not merged again"),
            }
            .into());
        }
        Ok(before)
    }

    fn before(&self) -> Before {
        Before {
            version: self.installed.version.clone(),
            form: self.installed.form,
            replaced_by: self.package.version.clone(),
            files: Vec::new(),
            added: Vec::new(),
            image: None,
        }
    }
}

/// Goes back because somebody says so.
fn roll_back(app: &App, args: &UpgradeArgs) -> Result<Exit, Failure> {
    let installed = Installed::at(&app.root)?;
    let kept = Kept::of(&app.root)?;
    let before = kept.before()?;
    let running = Running::here(app)?;
    let mut plan = vec![match way_back(app, &kept, &before) {
        Some(package) => package::command(before.form, &package),
        None => format!("what {} replaced is put back", before.replaced_by),
    }];
    plan.extend(running.plan());
    let mut upgrade = Upgrade {
        given: false,
        form: before.form,
        from: installed.version.to_string(),
        to: before.version.to_string(),
        plan,
        outcome: None,
    };
    if args.dry_run {
        return show(app, &own(&upgrade)?, Exit::Ok);
    }
    running.may_be_replaced(args.yes)?;
    let begun = Instant::now();
    let by_package = put_back(app, &kept, &before)?;
    let ready = running.go_on(app, begun, by_package);
    let took = ready.map_err(|why| {
        Problem::new(
            Code::PkgTakenBack,
            "the version before is installed, and its agent is not ready",
        )
        .evidence(why)
        .consequence("the VIPs of this host are handed over, if others can have them")
        .fix(handover::see_the_log())
    })?;
    kept.forget()
        .map_err(|error| not_installed(app.root.path(), &error))?;
    upgrade.given = true;
    upgrade.outcome = Some(UpgradeOutcome {
        restarted: running.is_any(),
        ready_seconds: took.as_secs_f64(),
        kept: None,
    });
    show(app, &own(&upgrade)?, Exit::Ok)
}

/// Goes back because the new agent is not ready.
fn taken_back(app: &App, kept: &Kept, before: &Before, running: &Running, why: &str) -> Problem {
    let begun = Instant::now();
    let (new, old) = (&before.replaced_by, &before.version);
    let back = put_back(app, kept, before)
        .map_err(|failure| failure.problem.what)
        .and_then(|by_package| running.go_on(app, begun, by_package))
        .and_then(|took| {
            kept.forget()
                .map(|()| took)
                .map_err(|error| error.to_string())
        });
    let problem = Problem::new(
        Code::PkgTakenBack,
        format!("the agent of {new} did not become ready"),
    )
    .evidence(why.to_owned());
    match back {
        Ok(took) => problem
            .evidence(format!(
                "{old} is back and ready after {:.2} s",
                took.as_secs_f64()
            ))
            .consequence(format!("{old} goes on, as if nothing had been done"))
            .fix(handover::see_the_log()),
        Err(why) => problem
            .evidence(format!("and {old} is not back: {why}"))
            .consequence(
                "no agent is ready here, and its VIPs are handed over if others can have them",
            )
            .fix(handover::see_the_log()),
    }
}

/// Puts back what was replaced; whether a package manager did, which restarts what runs as well.
fn put_back(app: &App, kept: &Kept, before: &Before) -> Result<bool, Failure> {
    if let Some(package) = way_back(app, kept, before) {
        package::install(before.form, &package)?;
        return Ok(true);
    }
    if let Some(image) = &before.image {
        extension::Extension::of(&app.root)?.merge(image, &before.version)?;
        return Ok(false);
    }
    let failed = |error| Failure::from(not_installed(app.root.path(), &error));
    kept.put_back(before).map_err(failed)?;
    if is_a_packages(before.form) && !app.quiet {
        say!(
            "The files of {} are back; the package manager still counts {} as installed.",
            before.version,
            before.replaced_by
        );
    }
    Ok(false)
}

fn way_back(app: &App, kept: &Kept, before: &Before) -> Option<PathBuf> {
    let root = app.root.path();
    is_a_packages(before.form)
        .then(|| package::stored(kept, root, before.form, &before.version))
        .flatten()
}

const fn is_a_packages(form: PackageForm) -> bool {
    matches!(form, PackageForm::Deb | PackageForm::Rpm)
}

fn nothing_fits(installed: &Installed, release: &Release) -> Failure {
    let names: Vec<&str> = release.names().collect();
    let form = match installed.form {
        PackageForm::Archive => "the archive",
        PackageForm::Deb => "a deb",
        PackageForm::Rpm => "an rpm",
        PackageForm::Sysext => "a system extension",
    };
    Problem::new(Code::PkgNothingFits, Code::PkgNothingFits.title())
        .evidence(format!(
            "here Kedge is installed as {form}, for {}",
            std::env::consts::ARCH
        ))
        .evidence(format!("there is {}", names.join(", ")))
        .consequence("nothing was changed")
        .fix(Fix::text(
            "name a release that has it, or leave --to and the package out",
        ))
        .into()
}

/// Files that cannot be written.
fn not_installed(place: &Path, error: &std::io::Error) -> Problem {
    Problem::new(Code::PkgNotInstalled, Code::PkgNotInstalled.title())
        .object(place.display().to_string())
        .caused_by(error)
        .fix(Fix::text(
            "run it as root, and see whether that is writable and has room",
        ))
}
