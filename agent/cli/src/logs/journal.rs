//! The systemd journal, natively: every field is a field of its own (`KEDGE_CODE`, `VIP`,
//! `MESSAGE_ID`), and the line `journalctl` shows carries their values, too.
//!
//! `tracing-journald` sends the fields but shows the bare message, which is a constant here: an
//! operator would read "state changed" without what, from and to.

use std::{
    fmt::{self, Write as _},
    io,
    os::unix::net::UnixDatagram,
    path::Path,
};

use kedge_core::Code;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Sends events to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// The journal of this system.
    pub(super) fn connect() -> io::Result<Self> {
        Self::connect_to(Path::new("/run/systemd/journal/socket"))
    }

    fn connect_to(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A journal that stands still must not stop a role.
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }
}

/// The fields of an event or a span, in order.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, kedge_core::with_causes(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: String) {
        self.0.push((field.name(), value));
    }
}

impl<S> Layer<S> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.extend(of_span.0.iter().cloned());
            }
        }
        event.record(&mut fields);
        let record = record(
            *event.metadata().level(),
            event.metadata().target(),
            &fields.0,
        );
        // Nobody is left to tell: the journal is where one would.
        let _ = self.socket.send(&record);
    }
}

fn record(level: Level, target: &str, fields: &[(&'static str, String)]) -> Vec<u8> {
    let mut line = String::new();
    for (_, value) in fields.iter().filter(|(name, _)| *name == MESSAGE) {
        line.push_str(value);
    }
    for (name, value) in fields.iter().filter(|(name, _)| *name != MESSAGE) {
        let _ = write!(line, " {name}={}", Shown(value));
    }
    let mut record = Vec::with_capacity(256);
    put(&mut record, "PRIORITY", priority(level));
    put(&mut record, "SYSLOG_IDENTIFIER", "kedge");
    put(&mut record, "TARGET", target);
    put(&mut record, "MESSAGE", line.trim_start());
    let code = fields.iter().find(|(name, _)| *name == CODE);
    if let Some(code) = code.and_then(|(_, code)| code.parse::<Code>().ok()) {
        // What `journalctl -x` looks up.
        put(&mut record, "MESSAGE_ID", &code.message_id());
    }
    for (name, value) in fields.iter().filter(|(name, _)| *name != MESSAGE) {
        if let Some(name) = journal_name(name) {
            put(&mut record, &name, value);
        }
        if record.len() > RECORD_AT_MOST {
            break;
        }
    }
    record
}

/// A value as it stands in a line: quoted when it has spaces.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty()
            || self
                .0
                .contains(|c: char| c.is_whitespace() || c.is_control())
        {
            write!(f, "{:?}", self.0)
        } else {
            f.write_str(self.0)
        }
    }
}

/// One field of the journal's native protocol: the long form, in which a value may have lines.
fn put(record: &mut Vec<u8>, name: &str, value: &str) {
    let mut end = value.len().min(VALUE_AT_MOST);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    let value = value.as_bytes().get(..end).unwrap_or_default();
    record.extend_from_slice(name.as_bytes());
    record.push(b'\n');
    record.extend_from_slice(&(value.len() as u64).to_le_bytes());
    record.extend_from_slice(value);
    record.push(b'\n');
}

/// A name the journal takes: capital letters, digits and `_`, a letter first.
fn journal_name(name: &str) -> Option<String> {
    let name: String = name
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
            _ => '_',
        })
        .take(64)
        .collect();
    let first = name.trim_start_matches('_');
    let named = first.starts_with(|c: char| c.is_ascii_uppercase());
    // The journal's own names are not ours to set.
    let own = matches!(
        first,
        "MESSAGE" | "MESSAGE_ID" | "PRIORITY" | "SYSLOG_IDENTIFIER" | "TARGET"
    );
    (named && !own).then(|| first.to_owned())
}

const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

const MESSAGE: &str = "message";
const CODE: &str = "KEDGE_CODE";
const VALUE_AT_MOST: usize = 16 * 1024;
// A datagram of this size always fits the journal's socket buffer.
const RECORD_AT_MOST: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn read(record: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut rest = record;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let name = String::from_utf8(rest[..at].to_vec()).unwrap();
            let (length, after) = rest[at + 1..].split_first_chunk::<8>().unwrap();
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
            fields.push((name, String::from_utf8(after[..length].to_vec()).unwrap()));
            assert_eq!(after[length], b'\n');
            rest = &after[length + 1..];
        }
        assert!(rest.is_empty());
        fields
    }

    #[test]
    fn an_event_is_a_line_and_its_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let layer = Journal::connect_to(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("vip", vip = "api", late = tracing::field::Empty);
            span.record("late", 3);
            let _inside = span.enter();
            let error = io::Error::other("line one\nline two");
            tracing::warn!(
                KEDGE_CODE = "KEDGE-VIP-0005",
                from = "Active",
                because = "the link is down",
                error = &error as &dyn std::error::Error,
                "state changed"
            );
        });
        let mut record = [0; 4096];
        let length = journal.recv(&mut record).unwrap();
        let fields = read(&record[..length]);
        let get = |name: &str| {
            let found = fields.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(get("PRIORITY"), Some("4"));
        assert_eq!(get("SYSLOG_IDENTIFIER"), Some("kedge"));
        assert_eq!(get("KEDGE_CODE"), Some("KEDGE-VIP-0005"));
        assert_eq!(get("MESSAGE_ID"), Some("5d1be8c0a84f4d3b9e72564950000005"));
        assert_eq!(get("VIP"), Some("api"));
        assert_eq!(get("LATE"), Some("3"));
        assert_eq!(get("ERROR"), Some("line one\nline two"));
        assert_eq!(
            get("MESSAGE"),
            Some(
                "state changed vip=api late=3 KEDGE_CODE=KEDGE-VIP-0005 from=Active \
                 because=\"the link is down\" error=\"line one\\nline two\""
            )
        );
    }

    #[test]
    fn names_and_sizes_stay_within_what_the_journal_takes() {
        assert_eq!(journal_name("vip.name"), Some("VIP_NAME".to_owned()));
        assert_eq!(journal_name("_pid"), Some("PID".to_owned()));
        assert_eq!(journal_name("1st"), None);
        assert_eq!(journal_name("priority"), None);
        let long = "ä".repeat(VALUE_AT_MOST);
        let fields: Vec<(&'static str, String)> = vec![("x", long); 50];
        let record = record(Level::INFO, "t", &fields);
        assert!(record.len() < RECORD_AT_MOST + 2 * VALUE_AT_MOST);
        for (_, value) in read(&record) {
            assert!(value.len() <= VALUE_AT_MOST);
        }
    }
}
