//! What tells about the executable itself: version, completions, man pages.

use std::{fs, io, path::Path};

use clap::Command;
use clap_complete::Shell;
use kedge_core::{Code, Fix, Problem};
use serde_json::json;

use crate::{args::Format, client::Failure, show};

/// The version.
///
/// # Errors
///
/// It cannot be written in that format.
pub fn version(format: Format) -> Result<String, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match format {
        Format::Table | Format::Wide => Ok(format!("kedge {version}\n")),
        Format::Name => Ok(format!("{version}\n")),
        data => show::data(
            &json!({
                "apiVersion": kedge_control::CLI_VERSION,
                "kind": "Version",
                "version": version,
                "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            }),
            data,
        ),
    }
}

/// Completions for a shell.
#[must_use]
pub fn completions(shell: Shell, command: &Command) -> String {
    let mut command = visible(command);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "kedge", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The command without its hidden sub-commands: some shells would offer them.
fn visible(command: &Command) -> Command {
    Command::new("kedge")
        .args(command.get_arguments())
        .subcommands(command.get_subcommands().filter(|sub| !sub.is_hide_set()))
}

/// Writes every man page into a folder.
///
/// # Errors
///
/// The folder cannot be written.
pub fn man(dir: &Path, command: Command) -> Result<String, Failure> {
    let failed = |error: io::Error| -> Failure {
        Problem::new(
            Code::SysUnexpected,
            format!("the man pages cannot be written to {}", dir.display()),
        )
        .caused_by(&error)
        .fix(Fix::text("choose a folder you may write").command("kedge man /tmp/kedge-man"))
        .into()
    };
    fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command, dir).map_err(failed)?;
    Ok(format!("man pages written to {}\n", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_help_and_a_man_page() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path(), crate::command()).unwrap();
        assert!(dir.path().join("kedge.1").exists());
        assert!(dir.path().join("kedge-vip-explain.1").exists());
        assert!(!dir.path().join("kedge-lab-role.1").exists());
        helped(&crate::command());
    }

    fn helped(command: &Command) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            for argument in sub.get_arguments().filter(|one| !one.is_hide_set()) {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    sub.get_name(),
                    argument.get_id()
                );
            }
            helped(sub);
        }
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions(shell, &crate::command());
            assert!(text.contains("explain"), "{shell}");
            assert!(!text.contains("lab-role"), "{shell}");
        }
    }
}
