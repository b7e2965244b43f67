//! A configuration and an enrolment token as systemd credentials: from the firmware (SMBIOS), the kernel's command line or a
//! container manager, before anything is on the disk.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::Role;

/// The file systemd gave this process for a role, if it gave one.
#[must_use]
pub fn file(role: Role) -> Option<PathBuf> {
    given(name(role)?)
}

/// The file with an enrolment token that systemd gave this process, if it gave one: for where no file is configured.
#[must_use]
pub fn token() -> Option<PathBuf> {
    given(TOKEN)
}

fn given(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER)?;
    let path = Path::new(&folder).join(name);
    path.exists().then_some(path)
}

/// An agent's configuration as a string of SMBIOS type 11, or after `systemd.set_credential_binary=` on
/// the kernel's command line without its first part.
#[must_use]
pub fn as_text(configuration: &str) -> String {
    format!(
        "io.systemd.credential.binary:{AGENT}={}",
        STANDARD.encode(configuration)
    )
}

const fn name(role: Role) -> Option<&'static str> {
    match role {
        Role::Agent => Some(AGENT),
        Role::Gateway | Role::Manager => None,
    }
}

const AGENT: &str = "kedge.config";
const TOKEN: &str = "kedge.token";
const FOLDER: &str = "CREDENTIALS_DIRECTORY";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_line_that_firmware_can_carry() {
        let text = as_text("version: 1\n");
        assert_eq!(
            text,
            "io.systemd.credential.binary:kedge.config=dmVyc2lvbjogMQo="
        );
    }
}
