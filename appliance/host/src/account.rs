//! Users of this host, as `/etc/passwd` has them.

use std::{fs, io, path::Path};

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The number of the user.
    pub uid: u32,
    /// The number of the user's first group.
    pub gid: u32,
}

impl Account {
    /// The user of that name or number, if there is one. A number that nobody has is a user and a
    /// group of that number: nobody can do less.
    ///
    /// # Errors
    ///
    /// The list of users cannot be read.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        Ok(Self::find_in(&fs::read_to_string(Path::new(PASSWD))?, name))
    }

    fn find_in(passwd: &str, name: &str) -> Option<Self> {
        let number = name.parse().ok();
        let of_line = |line: &str| {
            let mut fields = line.split(':');
            let called = fields.next()?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            let meant = called == name || number == Some(uid);
            meant.then_some(Self { uid, gid })
        };
        let unknown = number.map(|number| Self {
            uid: number,
            gid: number,
        });
        passwd.lines().find_map(of_line).or(unknown)
    }

    /// Whether it may do everything.
    #[must_use]
    pub const fn is_root(self) -> bool {
        self.uid == 0
    }
}

const PASSWD: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let text =
            "root:x:0:0:root:/root:/bin/sh\nbroken\nx:y:z:w\nnobody:x:65534:65533::/:/bin/no\n";
        let found = |name| Account::find_in(text, name).map(|it| (it.uid, it.gid));
        assert_eq!(found("nobody"), Some((65_534, 65_533)));
        assert_eq!(found("65534"), Some((65_534, 65_533)));
        assert_eq!(found("root"), Some((0, 0)));
        assert_eq!(found("1234"), Some((1_234, 1_234)));
        assert_eq!(found("broken"), None);
        assert_eq!(found("x"), None);
        assert_eq!(found(""), None);
        assert_eq!(found("-1"), None);
    }
}
