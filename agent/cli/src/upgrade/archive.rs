//! The archive of a release: files of `/usr`, and configuration that nobody has written yet.

use std::io::{self, Read as _};

use liblzma::read::XzDecoder;
use tar::{Archive, EntryType};

use super::installed::is_ours;

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it belongs, without a slash at its begin.
    pub path: String,
    /// What it is.
    pub content: Content,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes, and their permissions.
    Bytes(Vec<u8>, u32),
    /// A symbolic link, and where it leads.
    Link(String),
}

impl File {
    /// Whether it is configuration, which an upgrade leaves as it is.
    pub fn is_configuration(&self) -> bool {
        self.path.starts_with("etc/")
    }
}

/// The files of an archive, without the folder that they are in there.
///
/// # Errors
///
/// It is none, is too large, or has something that no archive of ours has.
pub fn read(bytes: &[u8]) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    let unpacked = XzDecoder::new(bytes).take(UNPACKED_AT_MOST);
    for entry in Archive::new(unpacked).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_str().map(str::to_owned);
        let path = path.ok_or_else(|| io::Error::other("a name that is no text"))?;
        let inside = path.split_once('/').map_or("", |it| it.1).to_owned();
        let content = match entry.header().entry_type() {
            EntryType::Directory => continue,
            EntryType::Regular => {
                let mode = entry.header().mode()? & 0o777;
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                Content::Bytes(content, mode)
            }
            EntryType::Symlink => {
                let to = entry.link_name()?;
                let to = to.as_ref().and_then(|to| to.to_str());
                // Beside itself, as all of ours are.
                let to = to.filter(|to| !to.is_empty() && !to.contains('/') && *to != "..");
                Content::Link(to.ok_or_else(|| odd(&path))?.to_owned())
            }
            _ => return Err(odd(&path)),
        };
        if !is_ours(&inside) && !is_configuration(&inside) {
            return Err(odd(&path));
        }
        files.push(File {
            path: inside,
            content,
        });
    }
    Ok(files)
}

fn is_configuration(path: &str) -> bool {
    path.strip_prefix("etc/kedge/")
        .is_some_and(|rest| is_ours(&format!("usr/{rest}")))
}

fn odd(path: &str) -> io::Error {
    io::Error::other(format!("it has {path}, which no archive of Kedge has"))
}

/// A multiple of what it takes, and much less than a host has.
const UNPACKED_AT_MOST: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use liblzma::write::XzEncoder;
    use tar::{Builder, Header};

    use super::*;

    fn archive(path: &str, kind: EntryType, to: &str) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(if to.is_empty() { 3 } else { 0 });
        if !to.is_empty() {
            header.set_link_name(to).unwrap();
        }
        header.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder
            .append(&header, if to.is_empty() { &b"abc"[..] } else { b"" })
            .unwrap();
        let mut packed = XzEncoder::new(Vec::new(), 0);
        packed.write_all(&builder.into_inner().unwrap()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn files_of_usr_and_configuration_come_out_without_rights_that_nobody_needs() {
        let files = read(&archive("kedge-1/usr/bin/kedge", EntryType::Regular, "")).unwrap();
        let expected = Content::Bytes(b"abc".to_vec(), 0o755);
        assert_eq!(
            (files[0].path.as_str(), &files[0].content),
            ("usr/bin/kedge", &expected)
        );
        let link = read(&archive(
            "kedge-1/usr/bin/kedge-wg",
            EntryType::Symlink,
            "kedge",
        ))
        .unwrap();
        assert_eq!(link[0].content, Content::Link("kedge".into()));
        let site = read(&archive(
            "kedge-1/etc/kedge/agent.yaml",
            EntryType::Regular,
            "",
        ))
        .unwrap();
        assert!(site[0].is_configuration());
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for (path, kind, to) in [
            ("kedge-1/etc/shadow", EntryType::Regular, ""),
            ("kedge-1/usr/../etc/shadow", EntryType::Regular, ""),
            ("kedge-1/etc/kedge/../shadow", EntryType::Regular, ""),
            ("usr", EntryType::Regular, ""),
            ("kedge-1/usr/bin/kedge", EntryType::Symlink, "/etc/shadow"),
            ("kedge-1/usr/bin/kedge", EntryType::Symlink, ".."),
            ("kedge-1/usr/bin/kedge", EntryType::Link, "kedge"),
            ("kedge-1/usr/bin/kedge", EntryType::Fifo, ""),
        ] {
            assert!(
                read(&archive(path, kind, to)).is_err(),
                "{path} {kind:?} {to}"
            );
        }
        assert!(read(b"not an archive").is_err());
        let whole = archive("kedge-1/usr/bin/kedge", EntryType::Regular, "");
        assert!(read(&whole[..whole.len() / 2]).is_err(), "cut short");
    }
}
