use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    n: u32,
    ratio: f64,
}

fn sample(n: u32) -> Sample {
    Sample {
        n,
        ratio: 0.1 + f64::from(n),
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("state"));
    (dir, store)
}

#[test]
fn what_is_saved_is_loaded_and_only_its_owner_can_read_it() {
    let (_dir, store) = store();
    assert_eq!(store.load::<Sample>("a").value, None);
    store.save("a", &sample(1)).unwrap();
    store.save("a", &sample(2)).unwrap();
    let restored = store.load::<Sample>("a");
    assert_eq!(restored.value, Some(sample(2)));
    assert!(restored.problems.is_empty());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.current("a")), 0o600);
    assert_eq!(mode(store.dir()), 0o700);
}

#[test]
fn every_truncation_and_every_bit_flip_falls_back_to_the_other_generation() {
    let (_dir, store) = store();
    store.save("a", &sample(1)).unwrap();
    store.save("a", &sample(2)).unwrap();
    let good = fs::read(store.current("a")).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..good.len() - 1).map(|n| good[..n].to_vec()).collect();
    for (n, byte) in good.iter().enumerate().take(good.len() - 1) {
        let mut copy = good.clone();
        copy[n] = byte ^ 0x10;
        damaged.push(copy);
    }
    for bytes in damaged {
        fs::write(store.current("a"), &bytes).unwrap();
        let restored = store.load::<Sample>("a");
        assert_eq!(restored.value, Some(sample(1)), "{bytes:?}");
        assert_eq!(restored.problems.len(), 1);
        assert_eq!(restored.problems[0].code, Code::HostStateCorrupt);
        assert!(!store.current("a").exists(), "quarantined");
    }
    let quarantined = fs::read_dir(store.dir())
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().contains(".corrupt-")
        })
        .count();
    assert_eq!(quarantined, QUARANTINED_AT_MOST as usize);
}

#[test]
fn two_corrupt_generations_are_no_state_and_two_problems() {
    let (_dir, store) = store();
    store.save("a", &sample(1)).unwrap();
    store.save("a", &sample(2)).unwrap();
    fs::write(store.current("a"), b"").unwrap();
    fs::write(store.previous("a"), b"{}\n{}").unwrap();
    let restored = store.load::<Sample>("a");
    assert_eq!(restored.value, None);
    assert_eq!(restored.problems.len(), 2);
    store.save("a", &sample(3)).unwrap();
    assert_eq!(store.load::<Sample>("a").value, Some(sample(3)));
}

#[test]
fn a_crash_between_two_steps_leaves_a_good_generation() {
    let (_dir, store) = store();
    store.save("a", &sample(1)).unwrap();
    fs::write(store.dir().join(".a.json.new"), b"half").unwrap();
    fs::hard_link(store.current("a"), store.dir().join(".a.json.old")).unwrap();
    assert_eq!(store.load::<Sample>("a").value, Some(sample(1)));
    store.save("a", &sample(2)).unwrap();
    assert_eq!(store.load::<Sample>("a").value, Some(sample(2)));
}

#[test]
fn what_cannot_be_written_is_kept_in_memory_and_told() {
    let (dir, _) = store();
    // A file where the folder should be: not even root can create it.
    let blocked = dir.path().join("blocked");
    fs::write(&blocked, b"").unwrap();
    let store = Store::new(&blocked);
    let problem = store.save("a", &sample(7)).unwrap_err().problem();
    assert_eq!(problem.code, Code::HostStateNotPersisted);
    assert_eq!(store.clone().load::<Sample>("a").value, Some(sample(7)));
    fs::remove_file(&blocked).unwrap();
    store.save("a", &sample(8)).unwrap();
    assert_eq!(
        Store::new(&blocked).load::<Sample>("a").value,
        Some(sample(8))
    );
}

#[test]
fn removed_state_is_gone() {
    let (_dir, store) = store();
    store.save("a", &sample(1)).unwrap();
    store.save("a", &sample(2)).unwrap();
    store.remove("a").unwrap();
    store.remove("a").unwrap();
    assert_eq!(store.load::<Sample>("a").value, None);
}
