//! What of this program lies in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    thread,
    time::Duration,
};

use tracing::debug;

use crate::sys;

/// Gives back the pages of program text, constants and relocations that were needed once, to start.
/// What is needed again is mapped again, from the page cache as a rule.
///
/// A process that locks its memory would keep them for good. Pages that were locked are locked
/// again when they are touched again.
///
/// # Errors
///
/// The kernel's answer.
pub fn forget_program() -> io::Result<()> {
    for range in clean(BufReader::new(File::open("/proc/self/smaps")?))? {
        sys::memory::forget(range.from, range.to)?;
    }
    Ok(())
}

/// [`forget_program`] for who goes on in any case.
pub fn forget_start() {
    if let Err(error) = forget_program() {
        let error = &error as &dyn std::error::Error;
        debug!(error, "the text of its start stays in memory");
    }
}

/// The same in a moment, on a thread of its own: what the caller still does before it sleeps would
/// come back at once.
pub fn forget_start_soon() {
    let forget = || {
        thread::sleep(ASLEEP);
        forget_start();
    };
    let thread = thread::Builder::new().name("kedge-settle".into());
    if let Err(error) = thread.spawn(forget) {
        let error = &error as &dyn std::error::Error;
        debug!(error, "the text of its start stays in memory");
    }
}

const ASLEEP: Duration = Duration::from_millis(200);

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: usize,
    to: usize,
}

/// The mappings of files that nobody can write to and nobody has written to: what lies in them is
/// what the file holds. What the linker relocated is read-only as well, and is not one of them.
fn clean(smaps: impl BufRead) -> io::Result<Vec<Range>> {
    let (mut found, mut candidate) = (Vec::new(), None);
    for line in smaps.lines() {
        let line = line?;
        if let Some(number) = line.strip_prefix("Anonymous:") {
            let none = number.trim() == "0 kB";
            found.extend(candidate.take().filter(|_| none));
        } else if line
            .starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase())
        {
            candidate = of_file(&line);
        }
    }
    Ok(found)
}

/// The range of a mapping, if it is of a file and cannot be written to.
fn of_file(line: &str) -> Option<Range> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let is_file = words.nth(3)?.starts_with('/');
    let (from, to) = range.split_once('-')?;
    let range = Range {
        from: usize::from_str_radix(from, 16).ok()?,
        to: usize::from_str_radix(to, 16).ok()?,
    };
    (is_file && matches!(rights, "r-xp" | "r--p")).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_file_still_holds_is_given_back() {
        let smaps = "\
55d0-55e0 r-xp 00001000 08:01 42    /usr/bin/kedge
Size:                 64 kB
Anonymous:             0 kB
VmFlags: rd ex
55e0-55f0 r--p 00001000 08:01 42    /usr/bin/kedge
Anonymous:             4 kB
55f0-5600 r--p 00001000 08:01 42    /usr/bin/kedge
Anonymous:             0 kB
5600-5610 rw-p 00001000 08:01 42    /usr/bin/kedge
Anonymous:             0 kB
5610-5620 rwxp 00001000 08:01 42    /usr/bin/kedge
Anonymous:             0 kB
5620-5630 r-xp 00000000 00:00 0     [vdso]
Anonymous:             0 kB
5630-5640 r-xp 00000000 00:00 0
Anonymous:             0 kB
";
        let found = clean(smaps.as_bytes()).unwrap();
        let range = |from, to| Range { from, to };
        assert_eq!(found, [range(0x55d0, 0x55e0), range(0x55f0, 0x5600)]);
    }

    #[test]
    fn the_process_goes_on_without_it() {
        forget_program().unwrap();
        forget_program().unwrap();
        assert_eq!(
            std::process::Command::new("true").status().unwrap().code(),
            Some(0)
        );
    }
}
