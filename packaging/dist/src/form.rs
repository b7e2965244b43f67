//! The forms of a package, and for what machine.

/// The form of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// For Debian, Ubuntu and what is made of them.
    Deb,
    /// For Fedora, RHEL, SLE and what is made of them.
    Rpm,
    /// A system extension (systemd-sysext), for systems whose `/usr` is not written.
    Sysext,
    /// Files in an archive.
    Tarball,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Deb, Self::Rpm, Self::Sysext, Self::Tarball];
    /// Those that may put files into `/etc`.
    pub(crate) const OWNING_ETC: &[Self] = &[Self::Deb, Self::Rpm, Self::Tarball];
    /// Those for systems that need not have the usual licences.
    pub(crate) const WITHOUT_COMMON_LICENSES: &[Self] = &[Self::Rpm, Self::Sysext, Self::Tarball];
}

/// The machine a package is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`.
    X86,
    /// `aarch64`.
    Arm,
}

impl Machine {
    /// Every machine.
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// As Rust's targets call it, of the C library the binary is linked with.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-gnu",
            Self::Arm => "aarch64-unknown-linux-gnu",
        }
    }

    /// As the kernel and rpm call it.
    #[must_use]
    pub const fn kernel(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// As Debian calls it.
    #[must_use]
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// As systemd calls it.
    #[must_use]
    pub const fn systemd(self) -> &'static str {
        match self {
            Self::X86 => "x86-64",
            Self::Arm => "arm64",
        }
    }

    /// The one that this program runs on, if packages are made for it.
    #[must_use]
    pub const fn here() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Arm)
        } else {
            None
        }
    }

    /// What cargo and the builders of C libraries take from the environment, where another machine builds for this
    /// one: Debian's cross compiler.
    #[must_use]
    pub fn cross_tools(self) -> &'static [(&'static str, &'static str)] {
        match self {
            _ if Self::here() == Some(self) => &[],
            Self::X86 => &[
                (
                    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
                    "x86_64-linux-gnu-gcc",
                ),
                ("CC_x86_64_unknown_linux_gnu", "x86_64-linux-gnu-gcc"),
                ("AR_x86_64_unknown_linux_gnu", "x86_64-linux-gnu-ar"),
            ],
            Self::Arm => &[
                (
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                    "aarch64-linux-gnu-gcc",
                ),
                ("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc"),
                ("AR_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-ar"),
            ],
        }
    }

    /// What runs an executable for it here: nothing, where this is such a machine.
    #[must_use]
    pub fn runner(self) -> Option<&'static str> {
        match self {
            _ if Self::here() == Some(self) => None,
            Self::X86 => Some("qemu-x86_64-static"),
            Self::Arm => Some("qemu-aarch64-static"),
        }
    }

    /// The machine an executable is for, by its header; `None` for another one, and for scripts.
    #[must_use]
    pub fn of(executable: &[u8]) -> Option<Self> {
        let header = executable.get(..20)?;
        match header {
            [0x7f, b'E', b'L', b'F', .., 62, 0] => Some(Self::X86),
            [0x7f, b'E', b'L', b'F', .., 183, 0] => Some(Self::Arm),
            _ => None,
        }
    }
}
