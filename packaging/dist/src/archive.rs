//! Archives whose bytes depend on nothing but what is in them.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use liblzma::write::XzEncoder;
use tar::{EntryType, Header};

use crate::tree::{Node, Tree};

/// A tar of a tree: everything belongs to root and has this age, and paths start with this.
///
/// # Errors
///
/// A path is too long.
pub(crate) fn tarred(tree: &Tree, prefix: &str, epoch: u64) -> io::Result<Vec<u8>> {
    let mut archive = Archive {
        builder: tar::Builder::new(Vec::new()),
        epoch,
    };
    archive.directory(prefix, 0o755)?;
    for path in tree.directories() {
        let mode = tree.mode(&path).unwrap_or(0o755);
        archive.directory(&format!("{prefix}/{path}"), mode)?;
    }
    for (path, entry) in tree.entries() {
        let path = format!("{prefix}/{path}");
        match &entry.node {
            Node::Directory => {}
            Node::Link(to) => archive.link(&path, to)?,
            Node::File(content) => archive.file(&path, entry.mode, content)?,
        }
    }
    archive.builder.into_inner()
}

struct Archive {
    builder: tar::Builder<Vec<u8>>,
    epoch: u64,
}

impl Archive {
    fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        let header = self.header(&format!("{path}/"), mode, EntryType::Directory)?;
        self.put(header, &[])
    }

    fn link(&mut self, path: &str, to: &str) -> io::Result<()> {
        let mut header = self.header(path, 0o777, EntryType::Symlink)?;
        header.set_link_name(to)?;
        self.put(header, &[])
    }

    fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let header = self.header(path, mode, EntryType::Regular)?;
        self.put(header, content)
    }

    fn header(&self, path: &str, mode: u32, kind: EntryType) -> io::Result<Header> {
        let mut header = Header::new_gnu();
        // As it is, with the `./` that Debian's tools start paths with.
        let place = header.as_old_mut().name.get_mut(..path.len());
        let too_long = || io::Error::other(format!("the path {path} is too long"));
        place.ok_or_else(too_long)?.copy_from_slice(path.as_bytes());
        header.set_mode(mode);
        header.set_entry_type(kind);
        header.set_mtime(self.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        Ok(header)
    }

    fn put(&mut self, mut header: Header, content: &[u8]) -> io::Result<()> {
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.builder.append(&header, content)
    }
}

/// Compresses with xz. Level 0 is for tests.
///
/// # Errors
///
/// None that is expected.
pub(crate) fn xz(bytes: &[u8], level: u32) -> io::Result<Vec<u8>> {
    let mut encoder = XzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Compresses with gzip, without a name or a time.
///
/// # Errors
///
/// None that is expected.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let plain = GzBuilder::new().mtime(0);
    let mut encoder: GzEncoder<Vec<u8>> = plain.write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
