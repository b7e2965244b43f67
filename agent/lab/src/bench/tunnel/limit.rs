//! The limit of an engine: a copy loop that seals nothing, and a loop that seals and does nothing else.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::site::{MTU, Site, inner};
use crate::{error::LabError, stage::Stage};

/// Seconds of processor time for a gigabyte, both ends: what no engine of this kind can do without.
pub(super) fn limit(stage: &Stage) -> Result<(f64, Vec<String>), LabError> {
    let mut site = Site::copying(stage)?;
    let passed = site.stream(inner(1));
    let left = site.take_down();
    let passed = passed?;
    let copying = passed.processor_seconds / (passed.amount / 1e9).max(1e-9);
    let sealing = sealing()?;
    stage.tell(&format!(
        "the limit: {copying:.2} s of processor per GB to copy, {sealing:.2} to seal and open"
    ));
    Ok((copying + sealing, left))
}

/// To seal and to open a gigabyte in packets as large as the tunnel's.
fn sealing() -> Result<f64, LabError> {
    let failed = |_| LabError::Unexpected {
        who: "the seal loop".to_owned(),
        said: "ChaCha20-Poly1305 failed".to_owned(),
    };
    // Nobody's secret.
    let key = UnboundKey::new(&CHACHA20_POLY1305, &[7; 32]).map_err(failed)?;
    let key = LessSafeKey::new(key);
    let mut packet = vec![0; MTU as usize];
    let (begun, mut bytes) = (Instant::now(), 0.0);
    let mut counter = 0_u32;
    while begun.elapsed() < LOOP {
        for _ in 0..BATCH {
            counter = counter.wrapping_add(1);
            let mut nonce = [0; 12];
            let [_, _, _, _, number @ ..] = &mut nonce;
            number.copy_from_slice(&u64::from(counter).to_le_bytes());
            let nonce = || Nonce::assume_unique_for_key(nonce);
            packet.truncate(MTU as usize);
            let sealed = key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut packet);
            sealed.map_err(failed)?;
            let opened = key.open_in_place(nonce(), Aad::empty(), &mut packet);
            opened.map_err(failed)?;
            bytes += f64::from(MTU);
        }
    }
    Ok(begun.elapsed().as_secs_f64() / (bytes / 1e9))
}

const LOOP: Duration = Duration::from_secs(1);
const BATCH: usize = 256;
