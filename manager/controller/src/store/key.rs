//! Names of objects.

use std::fmt;

/// Namespace and name of an object whose kind is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Name {
    /// A name of its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Group, kind, namespace and name: what makes an object that object. Versions do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Namespace and name.
    pub name: Name,
}

/// The directory of the core group, whose name is empty.
const CORE: &str = "core";
/// The directory of cluster-scoped objects.
const CLUSTER_SCOPE: &str = "_";

impl ObjectKey {
    /// A key of its parts.
    pub fn new(group: &str, kind: &str, name: Name) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name,
        }
    }

    /// Whether every part is what Kubernetes would accept, and so may become part of a path.
    #[must_use]
    pub fn is_proper(&self) -> bool {
        let Self { group, kind, name } = self;
        (group.is_empty() || (is_subdomain(group) && group != CORE))
            && !kind.is_empty()
            && kind.len() <= 63
            && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && (name.namespace.is_empty() || is_label(&name.namespace))
            && is_subdomain(&name.name)
    }

    /// The path of the object's directory, relative to `owned` or `status`.
    #[must_use]
    pub fn path(&self) -> [&str; 4] {
        let or = |text: &'static str, part: &'_ str| part.is_empty().then_some(text);
        let group = or(CORE, &self.group).unwrap_or(&self.group);
        let namespace = or(CLUSTER_SCOPE, &self.name.namespace).unwrap_or(&self.name.namespace);
        [group, &self.kind, namespace, &self.name.name]
    }

    /// The inverse of [`ObjectKey::path`].
    #[must_use]
    pub fn from_path(parts: [&str; 4]) -> Option<Self> {
        let [group, kind, namespace, name] = parts;
        let group = if group == CORE { "" } else { group };
        let namespace = if namespace == CLUSTER_SCOPE {
            ""
        } else {
            namespace
        };
        let key = Self::new(group, kind, Name::new(namespace, name));
        key.is_proper().then_some(key)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Whether `text` is a DNS label (RFC 1123), as namespaces and hosts are named.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

/// Whether `text` is a DNS subdomain, as objects are named.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_its_directory_is_no_key() {
        let key = |namespace: &str, name: &str| {
            ObjectKey::new("kedge.dev", "EdgeHost", Name::new(namespace, name)).is_proper()
        };
        assert!(key("a", "b.c-1"));
        assert!(key("", "b"));
        for bad in ["", ".", "..", "a/b", "a\0", "A", "-a", "a-", "a..b", "_"] {
            assert!(!key("a", bad), "{bad}");
            assert!(bad.is_empty() || !key(bad, "a"), "{bad}");
        }
        let core = ObjectKey::new("", "Secret", Name::new("kedge-system", "ca"));
        assert_eq!(core.path(), ["core", "Secret", "kedge-system", "ca"]);
        assert_eq!(ObjectKey::from_path(core.path()), Some(core));
        let tenant = ObjectKey::new("kedge.dev", "Tenant", Name::new("", "t"));
        assert_eq!(ObjectKey::from_path(tenant.path()), Some(tenant));
    }
}
