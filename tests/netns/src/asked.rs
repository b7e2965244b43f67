//! What an agent says to whoever asks it on the command line.

use std::process::Output;

use serde_json::Value;

/// What a command ended with and said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// What went to stdout.
    pub out: String,
    /// What went to stderr.
    pub err: String,
}

impl Said {
    /// Of a process that has ended.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Its output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A host whose agent can be asked about the VIP `api`.
pub trait Asked {
    /// Runs `kedge` there; words are separated by one space.
    #[must_use]
    fn kedge(&self, line: &str) -> Said;

    /// What it says about the VIP.
    #[must_use]
    fn vip(&self) -> Value {
        self.kedge("vip show api -o json").json()
    }

    /// The state of the VIP.
    #[must_use]
    fn state(&self) -> String {
        let vip = self.vip();
        let state = vip.get("state").and_then(Value::as_str);
        state.unwrap_or_default().to_owned()
    }

    /// Whether it is Backup of the VIP and hears an Active.
    #[must_use]
    fn stands_by(&self) -> bool {
        let vip = self.vip();
        let hears = vip.get("active").is_some_and(Value::is_object);
        hears && vip.get("state").is_some_and(|it| it == "Backup")
    }

    /// Why the VIP is where it is.
    #[must_use]
    fn explanation(&self) -> Value {
        self.kedge("vip explain api -o json").json()
    }

    /// One of the VIP's counters since its agent started.
    #[must_use]
    fn counter(&self, name: &str) -> u64 {
        let told = self.explanation();
        let counter = told.get("counters").and_then(|all| all.get(name));
        counter.and_then(Value::as_u64).unwrap()
    }

    /// The priority of the VIP.
    #[must_use]
    fn priority(&self) -> u64 {
        let vip = self.vip();
        vip.get("priority").and_then(Value::as_u64).unwrap()
    }

    /// Whether one of the last changes of state of the VIP has such a reason.
    #[must_use]
    fn gave(&self, reason: &str) -> bool {
        let told = self.explanation();
        let changes = told.get("transitions").and_then(Value::as_array).unwrap();
        changes.iter().any(|change| {
            let because = change.get("because").and_then(Value::as_str);
            because.is_some_and(|it| it.contains(reason))
        })
    }
}
