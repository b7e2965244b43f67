//! The signature of a release: minisign's, over the list of checksums of its packages.

use std::{
    fmt::Write as _,
    fs,
    io::Cursor,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use minisign::{KeyPair, PublicKey, SecretKey, SecretKeyBox};
use sha2::{Digest as _, Sha256};

/// Who signs.
#[derive(Debug)]
pub struct Signer {
    secret: SecretKey,
    public: PublicKey,
}

impl Signer {
    /// Reads a secret key of minisign's; its password is in `KEDGE_SIGN_PASSWORD`, asked for, or there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let boxed = || SecretKeyBox::from_string(&text);
        let plain = boxed()?.into_unencrypted_secret_key().ok();
        let secret = match plain.or_else(|| unchecked(&text)) {
            Some(secret) => secret,
            None => {
                let password = std::env::var("KEDGE_SIGN_PASSWORD").ok();
                boxed()?
                    .into_secret_key(password)
                    .context("the key stays locked")?
            }
        };
        let public = PublicKey::from_secret_key(&secret)?;
        Ok(Self { secret, public })
    }

    /// A key that nobody has: for tests.
    ///
    /// # Errors
    ///
    /// There is no randomness.
    pub fn ephemeral() -> anyhow::Result<Self> {
        let KeyPair { pk, sk } = KeyPair::generate_unencrypted_keypair()?;
        Ok(Self {
            secret: sk,
            public: pk,
        })
    }

    /// The public key as a file.
    ///
    /// # Errors
    ///
    /// None that is expected.
    pub fn public(&self) -> anyhow::Result<String> {
        Ok(self.public.to_box()?.into_string())
    }

    /// Signs the list of checksums of a folder, as a file beside it.
    ///
    /// # Errors
    ///
    /// There is no list, or the folder cannot be written.
    pub fn sign(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let list = folder.join(SUMS);
        let bytes = fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let trusted = format!("file:{SUMS}");
        let signed = minisign::sign(
            Some(&self.public),
            &self.secret,
            Cursor::new(bytes),
            Some(&trusted),
            Some("checksums of a release of Kedge"),
        )?;
        let path = folder.join(SIGNATURE);
        fs::write(&path, signed.into_string())?;
        Ok(path)
    }
}

/// Writes the list of checksums of every package in a folder, by name, as `sha256sum` does: of every machine, and of
/// every version that lies there.
///
/// # Errors
///
/// A file cannot be read, or the folder not be written.
pub fn list(folder: &Path) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if PACKAGES.iter().any(|end| name.ends_with(end)) {
            lines.push((
                name,
                format!("{:x}", Sha256::digest(fs::read(entry.path())?)),
            ));
        }
    }
    lines.sort_unstable();
    let mut text = String::new();
    for (name, sum) in lines {
        writeln!(text, "{sum}  {name}")?;
    }
    Ok(fs::write(folder.join(SUMS), text)?)
}

/// A key without a password as `minisign -GW` writes it: without a checksum, too, which the crate asks for.
fn unchecked(text: &str) -> Option<SecretKey> {
    let bytes = STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    let locked = bytes.get(2..4)? != [0; 2];
    let sum = bytes.get(LENGTH - 32..LENGTH)?;
    if locked || bytes.len() != LENGTH || sum != [0; 32] {
        return None;
    }
    SecretKey::from_bytes(&bytes).ok()
}

/// Of a secret key; its checksum is the end of it.
const LENGTH: usize = 158;
const PACKAGES: &[&str] = &[".deb", ".raw", ".rpm", ".tar.xz"];
const SUMS: &str = "SHA256SUMS";
const SIGNATURE: &str = "SHA256SUMS.minisig";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use minisign::SignatureBox;

    use super::*;

    /// What minisign's own program writes without a password.
    fn written(sum: bool) -> String {
        let Signer { secret, .. } = Signer::ephemeral().unwrap();
        let mut bytes = secret.to_bytes();
        if !sum {
            bytes.splice(LENGTH - 32.., [0; 32]);
        }
        format!("untrusted comment: a key\n{}\n", STANDARD.encode(bytes))
    }

    #[test]
    fn a_key_without_a_password_signs_with_and_without_its_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("release.key");
        for sum in [true, false] {
            fs::write(&key, written(sum)).unwrap();
            fs::write(folder.path().join(SUMS), "a list\n").unwrap();
            let signer = Signer::of(&key).unwrap();
            let signature = signer.sign(folder.path()).unwrap();
            let signature =
                SignatureBox::from_string(&fs::read_to_string(signature).unwrap()).unwrap();
            let list = Cursor::new("a list\n");
            minisign::verify(&signer.public, &signature, list, true, false, false).unwrap();
        }
    }

    #[test]
    fn a_key_that_was_touched_does_not_sign() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("release.key");
        let mut text = written(true);
        let last = text.trim_end().len() - 4;
        text.replace_range(
            last..last + 1,
            if text.get(last..=last) == Some("A") {
                "B"
            } else {
                "A"
            },
        );
        fs::write(&key, text).unwrap();
        Signer::of(&key).unwrap_err();
    }
}
