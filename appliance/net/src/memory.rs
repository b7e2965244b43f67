//! What of this program lies in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    thread,
    time::Duration,
};

use tracing::debug;

use crate::{sched, sys};

/// Gives back what was needed once, to start: pages of program text, constants and relocations, what
/// lies free in the heap, and on the main thread what its stack held. What is needed again is mapped
/// again, from the page cache as a rule.
///
/// A process that locks its memory would keep it for good. Pages that were locked are locked again
/// when they are touched again.
///
/// # Errors
///
/// The kernel's answer.
pub fn forget_program() -> io::Result<()> {
    let mappings = read(BufReader::new(File::open("/proc/self/smaps")?))?;
    sched::while_unlocked(|| {
        sys::memory::trim_heap();
        if let Some(stack) = mappings.stack {
            sys::memory::forget_stack(stack.from, stack.to);
        }
        let mut clean = mappings.clean.iter();
        clean.try_for_each(|range| sys::memory::forget(range.from, range.to))
    })?
}

/// Has the kernel read a program into its cache, in one go. Page by page, as it is run, that takes longest
/// where it hurts most: in a thread with deadlines, from a slow or compressed disk. What is cached takes
/// no time, and none of it becomes this process's memory.
///
/// A program that is too large to be one that ships is left alone.
///
/// # Errors
///
/// The kernel's answer.
pub fn read_ahead(program: &Path) -> io::Result<()> {
    let file = File::open(program)?;
    let length = file.metadata()?.len();
    if length <= LARGEST_SHIPPED {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed)?;
    }
    Ok(())
}

/// Twice what an executable for hosts may take.
const LARGEST_SHIPPED: u64 = 32 << 20;

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

/// What can be given back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mappings {
    /// Of files that nobody can write to and nobody has written to: what lies in them is what the file
    /// holds. What the linker relocated is read-only as well, and is not one of them.
    clean: Vec<Range>,
    /// The main thread's.
    stack: Option<Range>,
}

fn read(smaps: impl BufRead) -> io::Result<Mappings> {
    let (mut found, mut candidate) = (Mappings::default(), None);
    for line in smaps.lines() {
        let line = line?;
        if let Some(number) = line.strip_prefix("Anonymous:") {
            let none = number.trim() == "0 kB";
            found.clean.extend(candidate.take().filter(|_| none));
        } else if line
            .starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase())
        {
            candidate = of_file(&line);
            if line.ends_with(" [stack]") {
                found.stack = range(&line);
            }
        }
    }
    Ok(found)
}

/// The range of a mapping, if it is of a file and cannot be written to.
fn of_file(line: &str) -> Option<Range> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let rights = words.next()?;
    let is_file = words.nth(3)?.starts_with('/');
    let is_read_only = matches!(rights, "r-xp" | "r--p");
    range(line).filter(|_| is_file && is_read_only)
}

fn range(line: &str) -> Option<Range> {
    let (from, to) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some(Range {
        from: usize::from_str_radix(from, 16).ok()?,
        to: usize::from_str_radix(to, 16).ok()?,
    })
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
7000-7010 rw-p 00000000 00:00 0     [stack]
Anonymous:             0 kB
5630-5640 r-xp 00000000 00:00 0
Anonymous:             0 kB
";
        let range = |from, to| Range { from, to };
        let found = Mappings {
            clean: vec![range(0x55d0, 0x55e0), range(0x55f0, 0x5600)],
            stack: Some(range(0x7000, 0x7010)),
        };
        assert_eq!(read(smaps.as_bytes()).unwrap(), found);
    }

    #[test]
    fn a_stack_is_given_back_below_what_is_in_use() {
        fn deep(levels: u32) -> u64 {
            let taken = std::hint::black_box([u64::from(levels); 512]);
            let rest = if levels == 0 { 0 } else { deep(levels - 1) };
            taken.iter().sum::<u64>() + rest
        }
        let in_use = deep(3);
        let pages = || {
            let smaps = std::fs::read_to_string("/proc/thread-self/smaps").unwrap();
            let here = &raw const smaps as usize;
            let mut lines = smaps.lines();
            let range = lines.find_map(|line| {
                let found = range(line).filter(|_| line.contains(" rw-p "))?;
                (found.from..found.to).contains(&here).then_some(found)
            });
            let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
            let kib: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
            (range.unwrap(), kib)
        };
        deep(60);
        let (stack, before) = pages();
        let after = sched::while_unlocked(|| {
            sys::memory::forget_stack(stack.from, stack.to);
            // Another's is left alone.
            sys::memory::forget_stack(stack.to, stack.to + 4096);
            pages().1
        });
        assert!(after.unwrap() + 100 < before, "{before}");
        assert_eq!(deep(3), in_use);
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
