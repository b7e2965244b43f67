//! The WireGuard keys of a role: one, or two while it goes over from one to the other
//! (docs/adr/0040).
//!
//! ```text
//!   tunnel.key ──────────── begin ──► tunnel.key + tunnel-next.key ──── finish ──► tunnel.key
//!                                                                        a rename
//! ```

use std::{
    borrow::Cow,
    fs, io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use kedge_control::local::TunnelKey as View;
use kedge_core::{Code, Coded as _, Fix, Problem, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Role, Root,
    identity::{KeyError, TunnelKey},
    wall,
};

/// The keys as they are on the disk.
#[derive(Debug)]
pub struct TunnelKeys {
    dir: PathBuf,
    current: TunnelKey,
    next: Option<TunnelKey>,
    /// Since when each of them is there, by the wall clock.
    since: [SystemTime; 2],
    /// Why the next one cannot be used.
    broken: Option<Problem>,
}

/// How old a key becomes before another one follows it; `off` unless somebody wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyRotation(Option<Duration>);

/// Who goes by the new key, and who does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Peers whose packets go by the new key.
    pub moved: Vec<String>,
    /// Peers that the old one is kept for.
    pub waiting: Vec<String>,
    /// Whether the old one is of no use to anybody, nor to anything that is on its way.
    pub over: bool,
}

impl TunnelKeys {
    /// Reads the keys of a role, or makes the first one.
    ///
    /// # Errors
    ///
    /// As for [`TunnelKey::load_or_create`]. A next key that cannot be used is a
    /// [problem](Self::problem): the one in use is.
    pub fn load_or_create(root: &Root, role: Role) -> Result<Self, KeyError> {
        let dir = root.state_dir(role);
        let current = TunnelKey::load_or_create(root, role)?;
        let next = dir.join(NEXT);
        let (next, broken) = match TunnelKey::load(&next) {
            Ok(next) => (next, None),
            Err(error) => (None, Some(error.problem())),
        };
        Ok(Self {
            since: [since(&dir.join(KEY)), since(&dir.join(NEXT))],
            dir,
            current,
            next,
            broken,
        })
    }

    /// The key in use.
    #[must_use]
    pub const fn current(&self) -> &TunnelKey {
        &self.current
    }

    /// The key that follows it.
    #[must_use]
    pub const fn next(&self) -> Option<&TunnelKey> {
        self.next.as_ref()
    }

    /// Since when the next one is there.
    #[must_use]
    pub fn next_since(&self) -> Option<SystemTime> {
        let [_, next] = self.since;
        self.next.as_ref().map(|_| next)
    }

    /// Until when the key of before is accepted at most.
    #[must_use]
    pub fn until(&self, longest: Duration) -> Option<SystemTime> {
        self.next_since()?.checked_add(longest)
    }

    /// Why the next key cannot be used.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        self.broken.as_ref()
    }

    /// Makes a key that follows the one in use, which stays.
    ///
    /// # Errors
    ///
    /// There is one already, or it cannot be written.
    pub fn begin(&mut self) -> Result<(), Problem> {
        if let Some(since) = self.next_since() {
            return Err(refused("the tunnel's key changes already")
                .evidence(format!("since {}", wall::rfc3339(since)))
                .fix(Fix::text("see how far it is").command("kedge tunnel rotate-key --dry-run")));
        }
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let key = TunnelKey::generate().map_err(|error| error.problem())?;
        let path = self.dir.join(NEXT);
        key.save(&path).map_err(|error| error.problem())?;
        let [current, _] = self.since;
        self.since = [current, since(&path)];
        self.next = Some(key);
        Ok(())
    }

    /// Has the next key alone from here on. The old one is gone.
    ///
    /// # Errors
    ///
    /// It cannot be renamed; both stay.
    pub fn finish(&mut self) -> Result<(), Problem> {
        let Some(next) = self.next.clone() else {
            return Ok(());
        };
        let (from, to) = (self.dir.join(NEXT), self.dir.join(KEY));
        let renamed = fs::rename(&from, &to).and_then(|()| fs::File::open(&self.dir)?.sync_all());
        renamed.map_err(|source| KeyError::Write { path: to, source }.problem())?;
        let [_, since] = self.since;
        self.since = [since, since];
        (self.current, self.next) = (next, None);
        Ok(())
    }

    /// Whether the key in use is as old as it may become.
    #[must_use]
    pub fn is_due(&self, every: Option<Duration>) -> bool {
        let [current, _] = self.since;
        // A clock that went back says nothing of its age.
        let age = SystemTime::now().duration_since(current).ok();
        self.next.is_none() && self.broken.is_none() && age.zip(every).is_some_and(|(a, b)| a >= b)
    }

    /// Whether the key of before was kept as long as it may be.
    #[must_use]
    pub fn is_overdue(&self, longest: Duration) -> bool {
        let until = self.until(longest);
        until.is_some_and(|until| SystemTime::now() >= until)
    }

    /// The keys as people see them. `public` are those of the current and the next one.
    #[must_use]
    pub fn view(
        &self,
        public: (String, Option<String>),
        standing: Standing,
        longest: Duration,
    ) -> View {
        let [current, _] = self.since;
        let (public_key, next_public_key) = public;
        View {
            public_key,
            since: wall::rfc3339(current),
            next_public_key,
            next_since: self.next_since().map(wall::rfc3339),
            until: self.until(longest).map(wall::rfc3339),
            because: because(self.next.is_some(), &standing),
            moved: standing.moved,
            waiting: standing.waiting,
        }
    }

    /// Says that peers do not go over, once that takes long.
    #[must_use]
    pub fn lingers(&self, standing: &Standing, longest: Duration) -> Option<Problem> {
        let age = SystemTime::now().duration_since(self.next_since()?).ok()?;
        if age < LONG || standing.waiting.is_empty() {
            return None;
        }
        let until = self.until(longest).map(wall::rfc3339).unwrap_or_default();
        let many = standing.waiting.len();
        let named: Vec<&str> = standing
            .waiting
            .iter()
            .map(String::as_str)
            .take(8)
            .collect();
        Some(
            Problem::warning(
                Code::TunKeyChange,
                format!("{many} tunnel peers do not use this end's new key"),
            )
            .object("tunnel")
            .evidence(named.join(", "))
            .consequence(format!(
                "the old key is accepted as well, until {until} at most; who knows no other by then is cut off"
            ))
            .fix(
                Fix::text("see who is missing, and whether the manager reaches it")
                    .command("kedge tunnel rotate-key --dry-run"),
            ),
        )
    }
}

/// A change of keys that cannot begin.
#[must_use]
pub fn refused(what: &str) -> Problem {
    Problem::new(Code::TunKeyChange, what).consequence("the tunnel keeps the keys it has")
}

impl KeyRotation {
    /// The age, unless it is off.
    #[must_use]
    pub const fn every(self) -> Option<Duration> {
        self.0
    }
}

impl TryFrom<String> for KeyRotation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == OFF {
            return Ok(Self(None));
        }
        let span: Span = text.parse().map_err(|error| format!("{error}"))?;
        if AGES.contains(&span.duration()) {
            Ok(Self(Some(span.duration())))
        } else {
            Err(format!(
                "the age of a key must be 1h to 365d, or off, not {text}"
            ))
        }
    }
}

impl From<KeyRotation> for String {
    fn from(rotation: KeyRotation) -> Self {
        rotation
            .0
            .map_or_else(|| OFF.to_owned(), |age| Span::new(age).to_string())
    }
}

impl JsonSchema for KeyRotation {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "KeyRotation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "examples": ["off", "720h"]})
    }
}

fn because(changes: bool, standing: &Standing) -> String {
    match (changes, standing.waiting.len()) {
        (false, _) => "no change of keys is under way".to_owned(),
        (true, 0) => {
            "all peers use the new key; the old one is kept until nothing that was sealed \
                      with it can be on its way"
                .to_owned()
        }
        (true, 1) => "one peer does not use the new key yet".to_owned(),
        (true, many) => format!("{many} peers do not use the new key yet"),
    }
}

/// When a file was written.
fn since(path: &Path) -> SystemTime {
    let written = || -> io::Result<SystemTime> { fs::metadata(path)?.modified() };
    written().unwrap_or_else(|_| SystemTime::now())
}

const OFF: &str = "off";
const AGES: RangeInclusive<Duration> = Duration::from_hours(1)..=Duration::from_hours(365 * 24);
const KEY: &str = "tunnel.key";
const NEXT: &str = "tunnel-next.key";
/// After what time peers that do not go over are worth a word.
const LONG: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn keys(root: &Root) -> TunnelKeys {
        TunnelKeys::load_or_create(root, Role::Agent).unwrap()
    }

    #[test]
    fn a_key_is_followed_by_another_one_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut first = keys(&root);
        let old = *first.current().expose();
        assert!(first.next().is_none() && first.next_since().is_none());
        first.begin().unwrap();
        let new = *first.next().unwrap().expose();
        assert_ne!(old, new);
        assert_eq!(first.begin().unwrap_err().code, Code::TunKeyChange);

        let mut second = keys(&root);
        assert_eq!(*second.current().expose(), old);
        assert_eq!(*second.next().unwrap().expose(), new);
        let file = root.state_dir(Role::Agent).join(NEXT);
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        second.finish().unwrap();
        assert_eq!(*second.current().expose(), new);

        let third = keys(&root);
        assert_eq!(*third.current().expose(), new);
        assert!(third.next().is_none() && !file.exists());
        // As bytes, since that is how an array would be shown.
        let shown = format!("{third:?}");
        let bytes = format!("{new:?}");
        assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "***");
    }

    #[test]
    fn a_next_key_that_cannot_be_used_costs_nothing_but_the_change() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let old = *keys(&root).current().expose();
        let file = root.state_dir(Role::Agent).join(NEXT);
        fs::write(&file, "half a k").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let mut again = keys(&root);
        assert_eq!(*again.current().expose(), old);
        assert!(again.next().is_none() && again.problem().is_some());
        again.begin().unwrap_err();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "half a k",
            "not replaced"
        );
    }

    #[test]
    fn a_key_is_due_by_its_age_and_never_while_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut keys = keys(&root);
        assert!(!keys.is_due(None));
        assert!(!keys.is_due(Some(Duration::from_hours(1))));
        assert!(keys.is_due(Some(Duration::ZERO)));
        keys.begin().unwrap();
        assert!(!keys.is_due(Some(Duration::ZERO)));
        assert!(!keys.is_overdue(Duration::from_hours(1)));
        assert!(keys.is_overdue(Duration::ZERO));
        // A clock that went back by a day.
        keys.since = [SystemTime::now() + Duration::from_hours(24); 2];
        keys.next = None;
        assert!(!keys.is_due(Some(Duration::ZERO)));
    }

    #[test]
    fn the_age_of_a_key_is_an_hour_to_a_year_or_off() {
        let read = |text: &str| KeyRotation::try_from(text.to_owned());
        assert_eq!(read("off").unwrap().every(), None);
        let month = read("30d").unwrap();
        assert_eq!(month.every(), Some(Duration::from_hours(30 * 24)));
        assert_eq!(read(&String::from(month)).unwrap(), month);
        assert_eq!(String::from(KeyRotation::default()), "off");
        for bad in ["59m", "366d", "0s", "30", "on", ""] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn peers_that_do_not_go_over_are_told_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut keys = keys(&root);
        let longest = Duration::from_hours(7 * 24);
        let waits = Standing {
            waiting: vec!["gw-0".to_owned()],
            ..Standing::default()
        };
        keys.begin().unwrap();
        assert!(keys.lingers(&waits, longest).is_none(), "it has just begun");
        keys.since[1] -= LONG;
        let told = keys.lingers(&waits, longest).unwrap();
        assert_eq!(told.code, Code::TunKeyChange);
        assert_eq!(told.evidence, ["gw-0"]);
        assert!(keys.lingers(&Standing::default(), longest).is_none());
    }
}
