//! How the executable ends: one list for scripts, the help text and the tests.

use std::process::ExitCode;

use kedge_core::{Code, Problem, Severity};

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything is fine.
    Ok = 0,
    /// It failed.
    Failure = 1,
    /// The command line cannot be understood.
    Usage = 2,
    /// The role is not running or not reachable.
    NotRunning = 3,
    /// It works, with warnings.
    Degraded = 4,
    /// It does not work.
    Critical = 5,
    /// This user may not.
    Permission = 6,
    /// It took too long.
    TimedOut = 7,
    /// A safety check said no.
    Refused = 8,
    /// The command line and the role do not speak the same version.
    VersionSkew = 9,
}

impl Exit {
    /// Every code, with what it means.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Ok, "ok"),
        (Self::Failure, "failure"),
        (Self::Usage, "the command cannot be understood"),
        (Self::NotRunning, "the role is not running or not reachable"),
        (Self::Degraded, "degraded: there are warnings"),
        (Self::Critical, "critical: there are errors"),
        (Self::Permission, "no permission"),
        (Self::TimedOut, "timed out waiting"),
        (Self::Refused, "refused by a safety check"),
        (
            Self::VersionSkew,
            "the command line and the role do not fit together",
        ),
    ];

    /// The code a failed command ends with.
    #[must_use]
    pub const fn of(problem: &Problem) -> Self {
        match problem.code {
            Code::SysUsage | Code::SysUnknownCode => Self::Usage,
            Code::HostNotRunning | Code::LabNotUp => Self::NotRunning,
            Code::HostSocketPermission | Code::NetPermission | Code::LabPrivilege => {
                Self::Permission
            }
            Code::SysVersionSkew => Self::VersionSkew,
            Code::VipOrderRefused | Code::PkgTampered | Code::PkgUntrusted | Code::PkgOlder => {
                Self::Refused
            }
            _ => Self::Failure,
        }
    }

    /// The code of a state with these problems.
    #[must_use]
    pub fn of_state<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Self {
        problems
            .into_iter()
            .map(|problem| match problem.severity {
                Severity::Warning => Self::Degraded,
                Severity::Error => Self::Critical,
            })
            .max()
            .unwrap_or(Self::Ok)
    }

    /// The list as the help text shows it.
    #[must_use]
    pub fn help() -> String {
        let mut text = "Exit codes:".to_owned();
        for (code, meaning) in Self::ALL {
            text.push_str(&format!("\n  {}  {meaning}", code as u8));
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_complete_and_in_order() {
        for (index, (code, _)) in Exit::ALL.iter().enumerate() {
            assert_eq!(*code as usize, index);
        }
    }

    #[test]
    fn the_worst_problem_of_a_state_decides() {
        let warning = Problem::warning(Code::VipUnhealthy, "w");
        let error = Problem::new(Code::VipLinkDown, "e");
        assert_eq!(Exit::of_state([]), Exit::Ok);
        assert_eq!(Exit::of_state([&warning]), Exit::Degraded);
        assert_eq!(Exit::of_state([&warning, &error, &warning]), Exit::Critical);
    }
}
