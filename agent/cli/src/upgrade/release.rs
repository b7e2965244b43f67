//! What is in a release: the list of checksums that is signed, and what its names say.

use kedge_control::local::PackageForm;
use semver::Version;

/// The packages of a release, or of several in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release(Vec<(String, String)>);

/// One that fits a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its file name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// What its bytes hash to, in hexadecimal digits.
    pub sha256: String,
}

/// What a machine is called in names.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    kernel: &'static str,
    debian: &'static str,
    systemd: &'static str,
}

/// This one.
pub const HERE: Machine = if cfg!(target_arch = "aarch64") {
    Machine {
        kernel: "aarch64",
        debian: "arm64",
        systemd: "arm64",
    }
} else {
    Machine {
        kernel: "x86_64",
        debian: "amd64",
        systemd: "x86-64",
    }
};

/// A line of the list that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} of SHA256SUMS is not a checksum and the name of a file")]
pub struct Malformed(usize);

impl Release {
    /// Reads what `sha256sum` writes.
    ///
    /// # Errors
    ///
    /// A line is another one.
    pub fn parse(sums: &str) -> Result<Self, Malformed> {
        let mut packages = Vec::new();
        for (at, line) in sums.lines().enumerate() {
            let (sum, name) = line.split_once("  ").ok_or(Malformed(at + 1))?;
            let is_a_sum = sum.len() == 64 && sum.bytes().all(|it| it.is_ascii_hexdigit());
            // A name leads nowhere else.
            let is_a_name = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
            if !is_a_sum || !is_a_name {
                return Err(Malformed(at + 1));
            }
            packages.push((name.to_owned(), sum.to_ascii_lowercase()));
        }
        Ok(Self(packages))
    }

    /// Names without their checksums: packages that lie on this host.
    pub fn of_names(names: impl IntoIterator<Item = String>) -> Self {
        Self(
            names
                .into_iter()
                .map(|name| (name, String::new()))
                .collect(),
        )
    }

    /// The package for this form and machine: the named one, of that version, the newest otherwise.
    pub fn choose(
        &self,
        (form, machine): (PackageForm, Machine),
        named: Option<&str>,
        version: Option<&Version>,
    ) -> Option<Package> {
        let fitting = self.0.iter().filter_map(|(name, sum)| {
            let of = version_of(name, form, machine)?;
            let is_meant = named.is_none_or(|it| it == name) && version.is_none_or(|it| *it == of);
            is_meant.then(|| Package {
                name: name.clone(),
                version: of,
                sha256: sum.clone(),
            })
        });
        fitting.max_by(|one, other| one.version.cmp(&other.version))
    }

    /// The names there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// The version in a package's name, if it is of this form and for this machine.
fn version_of(name: &str, form: PackageForm, machine: Machine) -> Option<Version> {
    let text = match form {
        PackageForm::Archive => {
            let rest = name.strip_suffix(".tar.xz")?.strip_suffix(machine.kernel)?;
            rest.strip_prefix("kedge-")?.strip_suffix("-linux-")?
        }
        PackageForm::Deb => {
            let rest = name.strip_suffix(".deb")?.strip_suffix(machine.debian)?;
            let rest = rest.strip_prefix("kedge_")?.strip_suffix('_')?;
            // Behind the last dash is the packaging's own number.
            rest.rsplit_once('-')?.0
        }
        PackageForm::Rpm => {
            let rest = name.strip_suffix(".rpm")?.strip_suffix(machine.kernel)?;
            let rest = rest.strip_prefix("kedge-")?.strip_suffix('.')?;
            rest.rsplit_once('-')?.0
        }
        PackageForm::Sysext => {
            let rest = name.strip_suffix(".raw")?.strip_suffix(machine.systemd)?;
            rest.strip_prefix("kedge-")?.strip_suffix('-')?
        }
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: Machine = Machine {
        kernel: "x86_64",
        debian: "amd64",
        systemd: "x86-64",
    };

    fn release(names: &[&str]) -> Release {
        let sum = "0".repeat(64);
        let lines = names.iter().map(|name| format!("{sum}  {name}\n"));
        Release::parse(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn each_form_finds_its_package_and_no_other() {
        use PackageForm::{Archive, Deb, Rpm, Sysext};
        let names = [
            (Archive, "kedge-1.2.3-linux-x86_64.tar.xz"),
            (Deb, "kedge_1.2.3-1kedge1_amd64.deb"),
            (Rpm, "kedge-1.2.3-1.x86_64.rpm"),
            (Sysext, "kedge-1.2.3-x86-64.raw"),
        ];
        let all = release(&names.map(|it| it.1));
        for (form, name) in names {
            let found = all.choose((form, X86), None, None).unwrap();
            assert_eq!(
                (found.name.as_str(), found.version.to_string()),
                (name, "1.2.3".into())
            );
        }
        let arm = release(&["kedge-1.2.3-linux-aarch64.tar.xz", "kedge-1.2.3-arm64.raw"]);
        for (form, _) in names {
            assert_eq!(arm.choose((form, X86), None, None), None);
        }
    }

    #[test]
    fn of_several_versions_the_newest_is_meant_unless_another_is_named() {
        let several = release(&[
            "kedge-0.9.0-x86-64.raw",
            "kedge-0.10.0-rc.1-x86-64.raw",
            "kedge-0.10.0-x86-64.raw",
        ]);
        let choose = |named, version: Option<&str>| {
            let version = version.map(|it| it.parse().unwrap());
            let found = several.choose((PackageForm::Sysext, X86), named, version.as_ref());
            found.map(|it| it.version.to_string())
        };
        assert_eq!(choose(None, None).unwrap(), "0.10.0");
        assert_eq!(choose(None, Some("0.10.0-rc.1")).unwrap(), "0.10.0-rc.1");
        assert_eq!(
            choose(Some("kedge-0.9.0-x86-64.raw"), None).unwrap(),
            "0.9.0"
        );
        assert_eq!(choose(None, Some("1.0.0")), None);
    }

    #[test]
    fn a_list_with_a_line_that_is_none_or_a_name_that_leads_elsewhere_is_refused() {
        let sum = "a".repeat(64);
        for bad in [
            "nothing".to_owned(),
            format!("{sum} one-space"),
            format!("{sum}  ../etc/passwd"),
            format!("{sum}  .."),
            format!("{}  short", &sum[..63]),
            format!("{}g  odd", &sum[..63]),
        ] {
            assert_eq!(Release::parse(&bad), Err(Malformed(1)), "{bad}");
        }
    }
}
