//! Waiting without a runtime: a deadline and a doorbell as descriptors, and one call that waits
//! for any of them.
//!
//! tokio's timers tick in whole milliseconds and stand still while the host is suspended; a thread
//! whose deadlines are a fraction of a millisecond apart waits here.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use kedge_core::Instant;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll},
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use crate::{clock, sys};

/// A deadline as a descriptor that becomes readable, on the clock of [`crate::clock::now`].
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
    set: Option<Instant>,
}

impl Alarm {
    /// An alarm that never rings.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let fd = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        Ok(Self { fd, set: None })
    }

    /// Rings at `deadline`, or never; costs nothing when that is what it does already.
    ///
    /// # Errors
    ///
    /// The kernel's answer; it has no reason to give one.
    pub fn set(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let deadline = deadline.filter(|deadline| *deadline < Instant::FAR);
        if self.set == deadline {
            return Ok(());
        }
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // All zero would disarm; a deadline at the epoch is merely long past.
        let value = deadline.map_or(zero, |deadline| {
            let nanos = deadline.as_nanos().max(1);
            Timespec {
                tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or_default(),
            }
        });
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &spec)?;
        self.set = deadline;
        Ok(())
    }

    /// Stops an alarm that rings. A later [`set`](Self::set) arms it anew.
    pub fn silence(&mut self) {
        if drain(self.fd.as_fd()) {
            self.set = None;
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Wakes a waiting thread from another one.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A doorbell nobody has rung.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
        )?))
    }

    /// Wakes the waiting thread. Never waits; ringing twice is ringing once.
    pub fn ring(&self) {
        // The only refusal is a counter at its maximum, and then the bell rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Stops the ringing.
    pub fn silence(&self) {
        drain(self.0.as_fd());
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for any of several descriptors to become readable or to break.
///
/// A descriptor that is closed leaves by itself.
#[derive(Debug)]
pub struct Waiter {
    fd: OwnedFd,
    ready: Vec<u64>,
    /// The kernel has no `epoll_pwait2`, as its first answer said.
    coarse: bool,
}

impl Waiter {
    /// Waits for nothing yet.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            fd,
            ready: Vec::with_capacity(READY),
            coarse: false,
        })
    }

    /// Waits for `source` from here on, and calls it `key`.
    ///
    /// # Errors
    ///
    /// The kernel's answer: out of memory.
    pub fn add<Fd: AsFd>(&self, source: &Fd, key: u64) -> io::Result<()> {
        let key = epoll::EventData::new_u64(key);
        Ok(epoll::add(&self.fd, source, key, epoll::EventFlags::IN)?)
    }

    /// Waits for `source` no longer. Before a descriptor is closed of which another process has a
    /// duplicate: it would not leave by itself.
    pub fn remove<Fd: AsFd>(&self, source: &Fd) {
        // One that is not waited for is one that is waited for no longer.
        let _ = epoll::delete(&self.fd, source);
    }

    /// Waits, without a limit, and returns the keys of what is ready.
    ///
    /// # Errors
    ///
    /// The kernel's answer; a signal is no error and leaves nothing ready.
    pub fn wait(&mut self) -> io::Result<&[u64]> {
        self.wait_for(None)
    }

    /// The same until `deadline` at the latest, which may be long past; then nothing is ready. Cheaper
    /// than an [`Alarm`]: no descriptor is armed, and none has to be told apart from others.
    ///
    /// While the host is suspended the time left stands still.
    ///
    /// # Errors
    ///
    /// See [`wait`](Self::wait).
    pub fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<&[u64]> {
        let deadline = deadline.filter(|deadline| *deadline < Instant::FAR);
        let left = deadline.map(|deadline| deadline.since(clock::now()));
        self.wait_for(left.and_then(|left| Timespec::try_from(left).ok()).as_ref())
    }

    fn wait_for(&mut self, limit: Option<&Timespec>) -> io::Result<&[u64]> {
        self.ready.clear();
        if self.coarse {
            return self.wait_in_two(limit);
        }
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; READY];
        match epoll::wait(&self.fd, &mut events[..], limit) {
            Ok((ready, _)) => {
                self.ready
                    .extend(ready.iter().map(|event| event.data.u64()));
                Ok(&self.ready)
            }
            Err(Errno::INTR) => Ok(&self.ready),
            // Some sandboxes refuse what they do not know; this call refuses nothing else that way.
            Err(Errno::NOSYS | Errno::PERM) => {
                self.coarse = true;
                self.wait_in_two(limit)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same before Linux 5.11 and under qemu-user, where epoll itself waits in milliseconds: `ppoll`
    /// waits for the epoll, in nanoseconds, and then epoll says at once what it is.
    #[cold]
    fn wait_in_two(&mut self, limit: Option<&Timespec>) -> io::Result<&[u64]> {
        let waited = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], limit);
        let asked = match waited {
            Ok(0) => Ok(()),
            Ok(_) => sys::epoll::ready::<READY>(self.fd.as_fd(), &mut self.ready),
            Err(error) => Err(error.into()),
        };
        match asked {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(&self.ready),
        }
    }
}

fn drain(fd: BorrowedFd<'_>) -> bool {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count).is_ok()
}

/// More than this is served in the next round.
const READY: usize = 32;

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::clock::now;

    #[test]
    fn an_alarm_rings_at_its_deadline_and_not_before() {
        alarm();
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        deadline();
    }

    #[test]
    fn a_doorbell_wakes_a_waiting_thread() {
        doorbell();
    }

    /// Runs it on a thread for which the kernel is one without `epoll_pwait2`.
    fn without_pwait2<R: Send>(errno: Errno, run: impl FnOnce() -> R + Send) -> R {
        let old = || {
            sys::epoll::forget_pwait2(errno.raw_os_error()).unwrap();
            let fd = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 1];
            let at_once = Timespec::default();
            let answer = epoll::wait(&fd, &mut events[..], Some(&at_once)).map(|_| ());
            assert_eq!(answer, Err(errno));
            run()
        };
        std::thread::scope(|scope| scope.spawn(old).join().unwrap())
    }

    #[test]
    fn an_old_kernel_does_the_same() {
        for errno in [Errno::NOSYS, Errno::PERM] {
            without_pwait2(errno, alarm);
            without_pwait2(errno, deadline);
            without_pwait2(errno, doorbell);
        }
    }

    #[test]
    fn an_old_kernel_waits_for_fractions_of_a_millisecond() {
        let shortest = without_pwait2(Errno::NOSYS, || {
            let mut waiter = Waiter::new().unwrap();
            let waits = (0..50).map(|_| {
                let start = now();
                let ready = waiter.wait_until(Some(start + Duration::from_micros(300)));
                assert!(ready.unwrap().is_empty());
                now().since(start)
            });
            let shortest = waits.min().unwrap();
            assert!(waiter.coarse, "it is asked once");
            shortest
        });
        assert!(shortest >= Duration::from_micros(300), "{shortest:?}");
        assert!(shortest < Duration::from_millis(1), "{shortest:?}");
    }

    #[test]
    fn what_is_ready_comes_with_its_keys_on_an_old_kernel_too() {
        without_pwait2(Errno::NOSYS, || {
            let bells = [(); READY + 3].map(|()| Doorbell::new().unwrap());
            let mut waiter = Waiter::new().unwrap();
            let mut keys = Vec::new();
            for (bell, key) in bells.iter().zip(u64::MAX - 100..) {
                waiter.add(bell, key).unwrap();
                bell.ring();
                keys.push(key);
            }
            let mut seen = waiter.wait().unwrap().to_vec();
            assert_eq!(seen.len(), READY);
            for (bell, key) in bells.iter().zip(&keys) {
                if seen.contains(key) {
                    bell.silence();
                }
            }
            seen.extend(waiter.wait().unwrap());
            seen.sort_unstable();
            assert_eq!(seen, keys);
        });
    }

    fn alarm() {
        let mut alarm = Alarm::new().unwrap();
        let mut waiter = Waiter::new().unwrap();
        waiter.add(&alarm, 7).unwrap();
        let deadline = now() + Duration::from_micros(2_500);
        alarm.set(Some(deadline)).unwrap();
        assert_eq!(waiter.wait().unwrap(), [7]);
        let late = now().since(deadline);
        assert!(now() >= deadline);
        assert!(late < Duration::from_millis(500), "{late:?}");
        alarm.silence();
        alarm.set(Some(deadline)).unwrap();
        assert_eq!(
            waiter.wait().unwrap(),
            [7],
            "a deadline long past rings at once"
        );
    }

    fn deadline() {
        let bell = Doorbell::new().unwrap();
        let mut waiter = Waiter::new().unwrap();
        waiter.add(&bell, 1).unwrap();
        let deadline = now() + Duration::from_micros(2_500);
        assert!(waiter.wait_until(Some(deadline)).unwrap().is_empty());
        let late = now().since(deadline);
        assert!(now() >= deadline);
        assert!(late < Duration::from_millis(500), "{late:?}");
        assert!(waiter.wait_until(Some(deadline)).unwrap().is_empty());
        bell.ring();
        assert_eq!(waiter.wait_until(Some(deadline)).unwrap(), [1]);
        assert_eq!(waiter.wait_until(None).unwrap(), [1]);
        assert_eq!(waiter.wait_until(Some(Instant::FAR)).unwrap(), [1]);
    }

    fn doorbell() {
        let bell = Arc::new(Doorbell::new().unwrap());
        let mut waiter = Waiter::new().unwrap();
        waiter.add(&*bell, 1).unwrap();
        let other = Arc::clone(&bell);
        let thread = std::thread::spawn(move || other.ring());
        assert_eq!(waiter.wait().unwrap(), [1]);
        bell.silence();
        thread.join().unwrap();
        let mut alarm = Alarm::new().unwrap();
        waiter.add(&alarm, 2).unwrap();
        alarm.set(Some(now())).unwrap();
        assert_eq!(waiter.wait().unwrap(), [2], "the bell is silent");
        drop(alarm);
        bell.ring();
        assert_eq!(waiter.wait().unwrap(), [1]);
    }
}
