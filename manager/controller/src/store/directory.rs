//! A directory as a store: the user's YAML files, and ours beside them in `owned` and `status`.
//!
//! ```text
//! DIR/**/*.yaml                                              the user's; never written
//! DIR/owned/<group>/<Kind>/<namespace>/<name>/<manager>.yaml what Kedge decided, by field manager
//! DIR/status/<group>/<Kind>/<namespace>/<name>/kedge-manager.yaml
//! DIR/owned/.last-good/**/*.yaml                             the user's files when last all good
//! ```
//!
//! Everything is read again at every rescan; only a file whose text changed is parsed again. A
//! mistake spoils one document, whose last good version stays in force, also over a restart. A
//! directory that lost every file at once, or is another one, has deleted nothing.

mod presence;
mod problems;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Fix, Problem};
use serde_json::Value;

use self::{
    presence::Place,
    problems::{corrupt, duplicate, emptied, unlisted, unusable},
};
use super::{
    Layer, ObjectKey, Objects, UserDocument, Write,
    document::{self, MAX_FILE},
    files,
};

/// A directory that holds a store.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    place: Place,
    objects: Objects,
    user_files: BTreeMap<String, UserFile>,
    own_files: BTreeMap<PathBuf, String>,
    lock: Option<File>,
}

/// One of the user's files as it was last read.
#[derive(Debug, Default)]
struct UserFile {
    text: Option<String>,
    documents: BTreeMap<ObjectKey, UserDocument>,
    problems: Vec<Problem>,
    incomplete: bool,
}

impl Directory {
    /// Opens the directory, takes its lock and reads everything.
    ///
    /// # Errors
    ///
    /// The directory does not exist, cannot be written, or another manager holds it.
    pub fn open(root: &Path) -> Result<Self, Problem> {
        let root = root
            .canonicalize()
            .map_err(|error| unusable(root, &error))?;
        let owned = root.join(OWNED);
        fs::create_dir_all(&owned).map_err(|error| unusable(&owned, &error))?;
        let path = owned.join(".lock");
        let lock = File::create(&path).map_err(|error| unusable(&path, &error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Problem::new(
                Code::HostSocketInUse,
                format!("another manager works on {}", root.display()),
            )
            .consequence("this manager does not start: two writers would undo each other's work")
            .fix(Fix::text(
                "stop the other manager, or give this one its own directory",
            )),
            TryLockError::Error(error) => unusable(&path, &error),
        })?;
        let place = Place::of(&root).map_err(|error| unusable(&root, &error))?;
        let mut directory = Self {
            root,
            place,
            objects: Objects::default(),
            user_files: BTreeMap::new(),
            own_files: BTreeMap::new(),
            lock: Some(lock),
        };
        let read = directory.read();
        read.map_err(|(path, error)| unusable(&path, &error))?;
        directory.prune_last_good();
        Ok(directory)
    }

    /// What the directory holds.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads everything again; says whether anything differs. While a folder cannot be listed
    /// everything stays as it was: what is not seen is not gone.
    pub fn rescan(&mut self) -> bool {
        let before = self.objects.clone();
        if let Err((path, error)) = self.read() {
            let problem = unlisted(&path, &error);
            if !self.objects.problems.contains(&problem) {
                self.objects.problems.push(problem);
            }
        }
        self.objects != before
    }

    fn read(&mut self) -> Result<(), files::Unlisted> {
        self.is_here().map_err(|error| (self.root.clone(), error))?;
        let users = files::yaml(&self.root, &[OWNED, STATUS])?;
        let mut own = Vec::new();
        for top in [OWNED, STATUS] {
            let base = self.root.join(top);
            if base.try_exists().map_err(|error| (base.clone(), error))? {
                own.push((top, files::yaml(&base, &[])?));
            }
        }
        let mut problems = Vec::new();
        let mut objects = Objects::default();
        self.read_own(own, &mut objects, &mut problems);
        self.read_users(users, &mut objects, &mut problems);
        objects.problems = problems;
        self.objects = objects;
        Ok(())
    }

    /// Carries out the writes in order, on disk first.
    ///
    /// # Errors
    ///
    /// A file cannot be written; the writes before it stand.
    pub fn write(&mut self, writes: &[Write]) -> Result<(), Problem> {
        for write in writes {
            self.write_one(write).map_err(|error| {
                Problem::new(
                    Code::HostStateNotPersisted,
                    format!("cannot write below {}", self.root.display()),
                )
                .object(write.key.to_string())
                .caused_by(&error)
                .consequence("nothing that depends on it is handed out; it is tried again")
                .fix(Fix::text(
                    "make room on the disk, or make the directory writable",
                ))
            })?;
        }
        Ok(())
    }

    /// Lets the directory go: another manager may take it, and nothing is written by this one.
    pub fn close(&mut self) {
        self.lock = None;
    }

    /// Whether it was let go.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.lock.is_none()
    }

    /// Creates an owned document unless there is one; answers with the one that is there.
    ///
    /// # Errors
    ///
    /// The file cannot be written or read back.
    pub fn create(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        content: &Value,
    ) -> Result<Value, Problem> {
        let layer = Layer::Owned(manager.to_owned());
        let path = self.path_of(key, &layer);
        let text = render(content);
        let made = text.and_then(|text| {
            files::create(&path, text.as_bytes(), mode_of(key))?;
            fs::read_to_string(&path)
        });
        let text = made.map_err(|error| unusable(&path, &error))?;
        let value =
            parse_own(&text).ok_or_else(|| corrupt(&path, "it is not the YAML Kedge wrote"))?;
        self.objects.apply(&Write {
            key: key.clone(),
            layer,
            content: Some(value.clone()),
        });
        self.own_files.insert(path, text);
        Ok(value)
    }

    fn write_one(&mut self, write: &Write) -> io::Result<()> {
        if self.lock.is_none() {
            return Err(io::Error::other("the manager is leaving"));
        }
        self.is_here()?;
        let path = self.path_of(&write.key, &write.layer);
        match &write.content {
            Some(content) => {
                let text = render(content)?;
                files::replace(&path, text.as_bytes(), mode_of(&write.key))?;
                self.own_files.insert(path, text);
            }
            None => {
                files::remove(&path, &self.root.join(layer_directory(&write.layer)))?;
                self.own_files.remove(&path);
            }
        }
        self.objects.apply(write);
        Ok(())
    }

    fn path_of(&self, key: &ObjectKey, layer: &Layer) -> PathBuf {
        let mut path = self.root.join(layer_directory(layer));
        path.extend(key.path());
        let manager = match layer {
            Layer::Owned(manager) => manager,
            Layer::Status => STATUS_MANAGER,
            Layer::Marks => MARKS_MANAGER,
        };
        path.join(format!("{manager}.yaml"))
    }

    fn read_own(
        &mut self,
        own: Vec<(&str, Vec<PathBuf>)>,
        objects: &mut Objects,
        problems: &mut Vec<Problem>,
    ) {
        let mut texts = BTreeMap::new();
        for (top, files) in own {
            let base = self.root.join(top);
            for path in files {
                let Some((key, layer)) = own_key(&base, top, &path) else {
                    problems.push(corrupt(&path, "its path names no object"));
                    continue;
                };
                let text = fs::read_to_string(&path).unwrap_or_default();
                let last = || self.objects.content(&key, &layer).cloned();
                let unchanged = self.own_files.get(&path) == Some(&text);
                let kept = unchanged.then(last).flatten();
                let value = match kept.or_else(|| parse_own(&text)) {
                    Some(value) => {
                        texts.insert(path, text);
                        Some(value)
                    }
                    None => {
                        problems.push(corrupt(&path, "it is not the YAML Kedge wrote"));
                        last()
                    }
                };
                if let Some(value) = value {
                    objects.apply(&Write {
                        key,
                        layer,
                        content: Some(value),
                    });
                }
            }
        }
        self.own_files = texts;
    }

    fn read_users(
        &mut self,
        files: Vec<PathBuf>,
        objects: &mut Objects,
        problems: &mut Vec<Problem>,
    ) {
        let kept = if files.is_empty() && self.is_emptied() {
            problems.push(emptied(&self.root));
            objects.incomplete = true;
            let mut kept: Vec<_> = std::mem::take(&mut self.user_files).into_iter().collect();
            kept.sort_by(|one, other| Path::new(&one.0).cmp(Path::new(&other.0)));
            kept
        } else {
            self.read_user_files(files)
        };
        for (name, file) in kept {
            for (key, document) in &file.documents {
                match objects.by_key.entry(key.clone()).or_default().user {
                    Some(ref first) => problems.push(duplicate(key, document, first)),
                    ref mut user => *user = Some(document.clone()),
                }
            }
            problems.extend(file.problems.iter().cloned());
            objects.incomplete |= file.incomplete;
            self.user_files.insert(name, file);
        }
    }

    fn read_user_files(&mut self, files: Vec<PathBuf>) -> Vec<(String, UserFile)> {
        let mut last = std::mem::take(&mut self.user_files);
        let mut read = Vec::new();
        for path in files {
            let name = path
                .strip_prefix(&self.root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let before = last.remove(&name);
            let file = self.read_user(&name, &path, before);
            read.push((name, file));
        }
        for name in last.keys() {
            let _: io::Result<()> = files::remove(&self.last_good(name), &self.root.join(OWNED));
        }
        read
    }

    fn read_user(&self, name: &str, path: &Path, before: Option<UserFile>) -> UserFile {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(what) => {
                let what = format!("{name} {what}");
                let problem = Problem::new(Code::CapiObjectInvalid, what).object(name);
                return self.with_last_good(name, before, Vec::new(), vec![problem]);
            }
        };
        match before {
            Some(before) if before.text.as_ref() == Some(&text) => before,
            before => {
                let read = document::read_all(name, &text);
                let (mut good, mut bad) = (Vec::new(), Vec::new());
                let last = self.last_documents(name, before.as_ref());
                for one in read {
                    match one {
                        Ok((key, document)) => match document::refusal(&document, last.get(&key)) {
                            None => good.push((key, document)),
                            Some(problem) => bad.push(problem),
                        },
                        Err(problem) => bad.push(*problem),
                    }
                }
                let mut file = self.with_last_good(name, before, good, bad);
                if file.problems.is_empty() {
                    let _: io::Result<()> =
                        files::replace(&self.last_good(name), text.as_bytes(), files::SECRET);
                }
                file.text = Some(text);
                file
            }
        }
    }

    /// The documents that were last good, by which changes are judged.
    fn last_documents(
        &self,
        name: &str,
        before: Option<&UserFile>,
    ) -> BTreeMap<ObjectKey, UserDocument> {
        match before {
            Some(before) => before.documents.clone(),
            None => self
                .shown_by_disk(name)
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }
    }

    /// What was last good of a file, over a restart.
    fn shown_by_disk(&self, name: &str) -> Option<Vec<(ObjectKey, UserDocument)>> {
        let text = fs::read_to_string(self.last_good(name)).ok()?;
        let read = document::read_all(name, &text);
        Some(read.into_iter().filter_map(Result::ok).collect())
    }

    /// The file's good documents, and for the bad ones what was last good of it.
    fn with_last_good(
        &self,
        name: &str,
        before: Option<UserFile>,
        good: Vec<(ObjectKey, UserDocument)>,
        mut problems: Vec<Problem>,
    ) -> UserFile {
        let mut documents = BTreeMap::new();
        for (key, document) in good {
            match documents.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(document);
                }
                Entry::Occupied(first) => {
                    problems.push(duplicate(first.key(), &document, first.get()));
                }
            }
        }
        let mut incomplete = false;
        if !problems.is_empty() {
            let last = before.map(|file| file.documents.into_iter().collect());
            match last.or_else(|| self.shown_by_disk(name)) {
                Some(last) => {
                    for (key, document) in last {
                        documents.entry(key).or_insert(document);
                    }
                }
                None => incomplete = true,
            }
        }
        UserFile {
            text: None,
            documents,
            problems,
            incomplete,
        }
    }

    fn last_good(&self, name: &str) -> PathBuf {
        self.root.join(OWNED).join(LAST_GOOD).join(name)
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let told = |error: io::Error| format!("cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(told)?;
    if !metadata.is_file() {
        // Reading a pipe would wait for ever.
        return Err("is no file".to_owned());
    }
    if metadata.len() > MAX_FILE {
        return Err("is larger than 1 MiB".to_owned());
    }
    let bytes = fs::read(path).map_err(told)?;
    if bytes.contains(&0) {
        return Err("is not text".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

fn own_key(base: &Path, top: &str, path: &Path) -> Option<(ObjectKey, Layer)> {
    let parts: Vec<&str> = path
        .strip_prefix(base)
        .ok()?
        .iter()
        .map(|part| part.to_str())
        .collect::<Option<_>>()?;
    let [group, kind, namespace, name, file] = parts.as_slice() else {
        return None;
    };
    let manager = file.strip_suffix(".yaml")?;
    let layer = if top == STATUS {
        Layer::Status
    } else if manager == MARKS_MANAGER {
        Layer::Marks
    } else {
        Layer::Owned(manager.to_owned())
    };
    Some((ObjectKey::from_path([group, kind, namespace, name])?, layer))
}

fn parse_own(text: &str) -> Option<Value> {
    let value: Value = serde_saphyr::from_str(text).ok()?;
    value.is_object().then_some(value)
}

fn render(content: &Value) -> io::Result<String> {
    let text = serde_saphyr::to_string(content).map_err(io::Error::other)?;
    Ok(format!(
        "# Written by kedge manager. What is changed here is overwritten.\n{text}"
    ))
}

fn mode_of(key: &ObjectKey) -> u32 {
    if key.group.is_empty() && key.kind == "Secret" {
        files::SECRET
    } else {
        files::PUBLIC
    }
}

const fn layer_directory(layer: &Layer) -> &'static str {
    match layer {
        Layer::Owned(_) | Layer::Marks => OWNED,
        Layer::Status => STATUS,
    }
}

/// The folder of our documents.
pub(super) const OWNED: &str = "owned";
/// The folder of our status documents.
pub(super) const STATUS: &str = "status";
const LAST_GOOD: &str = ".last-good";
const STATUS_MANAGER: &str = "kedge-manager";
const MARKS_MANAGER: &str = "kedge-marks";

#[cfg(test)]
mod tests;
