//! A whole manager over a directory, as a process of its own, and what is in the directory.

use std::{fs, ops::Deref, path::Path};

use serde_json::Value;

use crate::{
    asked::{Asked, Said},
    lan::Host,
    role::RoleOf,
};

/// A manager and its folders; killed when dropped.
#[derive(Debug)]
pub struct Manager<'a>(RoleOf<'a>);

impl<'a> Manager<'a> {
    /// A manager that serves on port 9443 of the host, over these files.
    #[must_use]
    pub fn start(host: &'a Host, executable: &str, files: &[(&str, &str)]) -> Self {
        let yaml = format!("version: 1\nlisten: {}:9443\n", host.address());
        let mut role = RoleOf::new(host, executable, ("manager", "manager"), &yaml);
        let objects = role.root().join("objects");
        fs::create_dir_all(&objects).unwrap();
        for (name, text) in files {
            fs::write(objects.join(name), text).unwrap();
        }
        role.start_with(&["--dir", objects.to_str().unwrap()]);
        Self(role)
    }

    /// Writes a user's file.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join("objects").join(name), text).unwrap();
    }

    /// Removes a user's file.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.root().join("objects").join(name)).unwrap();
    }

    /// Puts a new token where a role below `root` expects it.
    pub fn token(&self, root: &Path, scope: &str) {
        let said = self.kedge(&format!("token create {scope}"));
        assert_eq!(said.code, 0, "{said:?}");
        let token = root.join("etc/kedge/token");
        fs::create_dir_all(root.join("etc/kedge")).unwrap();
        fs::write(&token, said.out).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&token, mode).unwrap();
    }

    /// What stands in the files of an object below `owned` or `status`; nothing where there are none.
    #[must_use]
    pub fn documents(&self, part: &str, kind: &str, name: &str) -> Vec<Value> {
        let object = format!("objects/{part}/kedge.dev/{kind}/{name}");
        let Ok(files) = fs::read_dir(self.root().join(object)) else {
            return Vec::new();
        };
        let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
        texts
            .filter_map(|text| serde_saphyr::from_str(&text).ok())
            .collect()
    }

    /// The status of an object.
    #[must_use]
    pub fn status(&self, kind: &str, name: &str) -> Value {
        let documents = self.documents("status", kind, name);
        let status = documents.into_iter().next();
        status.map_or(Value::Null, |status| status["status"].clone())
    }

    /// A condition of an object, as `STATUS REASON`.
    #[must_use]
    pub fn condition(&self, kind: &str, name: &str, condition: &str) -> String {
        let status = self.status(kind, name);
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|one| one["type"] == condition);
        found.map_or_else(String::new, |one| {
            let word = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", word("status"), word("reason"))
        })
    }
}

impl<'a> Deref for Manager<'a> {
    type Target = RoleOf<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Asked for Manager<'_> {
    fn kedge(&self, line: &str) -> Said {
        self.0.kedge(line)
    }
}
