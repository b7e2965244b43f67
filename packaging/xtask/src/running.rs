//! The programs of a tier, one after the other or several at once.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

use crate::{heard::Heard, programs::Program};

/// Runs a tier's programs one after the other, and fails with all that failed.
pub fn run_all<'a>(
    tier: &str,
    programs: impl IntoIterator<Item = &'a Program>,
    arguments: &[&str],
) -> anyhow::Result<()> {
    let ended = run(tier, programs, 1, arguments)?;
    let failed = ended.iter().filter(|it| !it.heard.status.success());
    fail(
        tier,
        failed.map(|it| it.program.failure(&it.heard)).collect(),
    )
}

/// Runs a tier's programs, `at_once` of them at any time. Tests that fail so are run again with the machine to
/// themselves, and that decides: either the others were in their way, or they fail.
pub fn run_together(
    tier: &str,
    programs: &[Program],
    at_once: usize,
    arguments: &[&str],
) -> anyhow::Result<()> {
    let ended = run(tier, programs, at_once, arguments)?;
    let (mut again, mut failed) = (Vec::new(), Vec::new());
    for Ended { program, heard, .. } in ended.iter().filter(|it| !it.heard.status.success()) {
        match program.failed(heard) {
            Some(tests) => {
                println!(
                    "── failed beside others, and decides alone: {}: {}",
                    program.name,
                    tests.join(", ")
                );
                let name = format!("what failed of {} beside others", program.name);
                again.push(program.of_tests(&name, tests));
            }
            None => failed.push(program.failure(heard)),
        }
    }
    if !again.is_empty()
        && let Err(err) = run_all(tier, &again, &["--test-threads=1", "--nocapture"])
    {
        failed.push(format!("{err:#}"));
    }
    fail(tier, failed)
}

fn fail(tier: &str, failed: Vec<String>) -> anyhow::Result<()> {
    if !failed.is_empty() {
        bail!("{tier}: {}", failed.join("\n"));
    }
    Ok(())
}

struct Ended<'a> {
    program: &'a Program,
    took: Duration,
    heard: Heard,
}

fn run<'a>(
    tier: &str,
    programs: impl IntoIterator<Item = &'a Program>,
    at_once: usize,
    arguments: &[&str],
) -> anyhow::Result<Vec<Ended<'a>>> {
    println!("── {tier}");
    let start = Instant::now();
    let left: Mutex<VecDeque<&Program>> = Mutex::new(programs.into_iter().collect());
    let next = || {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        left.pop_front()
    };
    let one_by_one = || {
        let mut ended = Vec::new();
        while let Some(program) = next() {
            println!("     Running {} of {}", program.name, program.package);
            let start = Instant::now();
            let heard = program.run(arguments, at_once > 1)?;
            let took = start.elapsed();
            ended.push(Ended {
                program,
                took,
                heard,
            });
        }
        anyhow::Ok(ended)
    };
    let mut ended = Vec::new();
    thread::scope(|scope| {
        let all: Vec<_> = (0..at_once).map(|_| scope.spawn(one_by_one)).collect();
        for own in all {
            match own.join() {
                Ok(own) => ended.extend(own?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    ended.sort_by_key(|it| Reverse(it.took));
    let longest = ended.iter().take(12);
    let longest = longest.map(|it| format!("{} {:.0} s", it.program.name, it.took.as_secs_f64()));
    let longest = longest.collect::<Vec<_>>().join(", ");
    let took = start.elapsed().as_secs_f64();
    println!("── {tier}: {took:.1} s; the longest were {longest}");
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::PermissionsExt as _,
        path::{Path, PathBuf},
    };

    use super::*;

    /// A program of tests: what it does when it is started beside others, and alone.
    fn program(folder: &Path, name: &str, beside: &str, alone: &str) -> Program {
        let path: PathBuf = folder.join(name);
        let script =
            format!("#!/bin/sh\ncase \"$*\" in *--test-threads=1*) {alone};; *) {beside};; esac\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Program::sample(&path, &["a::one", "a::two"])
    }

    fn together(programs: &[Program]) -> Result<(), String> {
        run_together("tier", programs, 2, &[]).map_err(|err| err.to_string())
    }

    const FAILS: &str = "printf 'failures:\\n    a::two\\n\\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\\n'; exit 101";

    #[test]
    fn what_fails_beside_others_decides_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name, beside, alone| program(folder.path(), name, beside, alone);
        let good = of("good", "exit 0", "exit 9");
        // Alone only what failed is run.
        let disturbed = of(
            "disturbed",
            FAILS,
            "test \"$*\" = '--test-threads=1 --nocapture --exact a::two'",
        );
        assert_eq!(together(&[good.clone(), disturbed.clone()]), Ok(()));
        // The same where all of its tests were asked for, and none by name.
        let whole = disturbed.of_tests("whole", []);
        assert_eq!(together(&[good.clone(), whole]), Ok(()));

        let bad = of("bad", FAILS, FAILS);
        let said = together(&[good.clone(), bad]).unwrap_err();
        assert!(said.contains("test result: FAILED"), "{said}");

        // Which of its tests are to blame it did not come to say.
        let killed = of("killed", "kill -9 $$", "exit 0");
        let said = together(&[killed, good]).unwrap_err();
        assert!(said.contains("SIGKILL"), "{said}");
    }

    #[test]
    fn as_many_run_at_once_as_may() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // Each end of a pipe opens only when the other one does.
        let (reads, writes) = (
            format!("read line <{}", pipe.display()),
            format!("echo hello >{}", pipe.display()),
        );
        let one = program(folder.path(), "one", &reads, "exit 9");
        let other = program(folder.path(), "other", &writes, "exit 9");
        assert_eq!(together(&[one, other]), Ok(()));
    }
}
