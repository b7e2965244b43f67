//! The page that agent and guardian share: which VIPs are Active here, when each advertised last, and
//! whether they are kept for an agent that takes the place of this one.
//!
//! | word | what it holds |
//! |---|---|
//! | 0 | whose page it is: 0, until another agent overtakes |
//! | 1 | how the rest is laid out |
//! | 2 | until when the VIPs are kept, ns since boot; 0: they are not |
//! | 3 | the guardian's process, 0 without one |
//! | 4 + 2n | when the VIP of slot n advertised last, ns since boot; 0: it is not held |
//! | 5 + 2n | which virtual router that is |

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use kedge_core::{Instant, vip::Vrid};
use kedge_net::page::Page;
use tracing::warn;

/// A place on the page; each VIP has one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct Slot(usize);

/// A virtual router of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RouterId {
    /// Its interface's index.
    pub(crate) ifindex: u32,
    pub(crate) vrid: Vrid,
    pub(crate) ipv6: bool,
}

/// A virtual router that is Active in the name of an agent that is being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) router: RouterId,
    pub(crate) last_advert: Instant,
}

/// What an agent left to the next one, in the hands of its guardian. Until it is taken the page stays
/// where it is: an heir that dies before leaves it to the next.
#[derive(Debug)]
pub(crate) struct Estate {
    left: Mastership,
    place: PathBuf,
    /// The page of the heir.
    next: PathBuf,
}

impl Estate {
    /// Overtakes the guardian: from here on nobody else advertises in the name of this host. Returned
    /// is what it kept until now.
    pub(crate) fn take(self) -> Vec<Kept> {
        self.left.end();
        if let Err(error) = fs::rename(&self.next, &self.place) {
            let error = &error as &dyn std::error::Error;
            warn!(error, "a later agent will not find the page of this one");
        }
        let slots = (0..SLOTS).map(Slot);
        let kept = slots.filter_map(|slot| {
            Some(Kept {
                router: self.left.router(slot)?,
                last_advert: self.left.last_advert(slot)?,
            })
        });
        kept.collect()
    }

    /// The guardian's process, which may be a child of this one.
    pub(crate) fn guardian(&self) -> Option<u32> {
        let pid = self.left.page.words().get(GUARDIAN_WORD)?;
        let pid = u32::try_from(pid.load(Ordering::Acquire)).ok()?;
        (pid != 0).then_some(pid)
    }
}

/// The page. Its first word says whose it is: one who finds another word there is overtaken.
#[derive(Debug)]
pub(crate) struct Mastership {
    page: Page,
}

impl Mastership {
    /// Makes a new page in the place of the one of that name. Whoever has that is overtaken, unless
    /// it keeps VIPs for this agent: then it is told once this agent goes on with them.
    ///
    /// # Errors
    ///
    /// The directory cannot be written, or there is no memory.
    pub(crate) fn create(path: &Path, now: Instant) -> io::Result<(Self, Option<Estate>)> {
        let earlier = File::options().read(true).write(true).open(path);
        let earlier = earlier.and_then(|file| Self::open(file.into()));
        let estate = earlier.ok().and_then(|earlier| earlier.bequeath(path, now));
        let place = estate.as_ref().map_or(path, |estate| &estate.next);
        let page = Page::create(place, WORDS)?;
        if let Some(layout) = page.words().get(LAYOUT_WORD) {
            layout.store(LAYOUT, Ordering::Release);
        }
        Ok((Self { page }, estate))
    }

    fn bequeath(self, path: &Path, now: Instant) -> Option<Estate> {
        let layout = self.page.words().get(LAYOUT_WORD);
        let is_known = layout.is_some_and(|layout| layout.load(Ordering::Acquire) == LAYOUT);
        let is_kept = self.kept_until().is_some_and(|until| until > now);
        if is_known && is_kept && !self.is_overtaken() {
            return Some(Estate {
                left: self,
                place: path.to_owned(),
                next: path.with_extension("next"),
            });
        }
        self.end();
        None
    }

    /// Overtakes whoever has this page.
    fn end(&self) {
        if let Some(epoch) = self.page.words().first() {
            epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The page of the agent.
    ///
    /// # Errors
    ///
    /// It is none.
    pub(crate) fn open(page: OwnedFd) -> io::Result<Self> {
        Page::open(page, WORDS).map(|page| Self { page })
    }

    /// Whether another agent has started since.
    pub(crate) fn is_overtaken(&self) -> bool {
        let epoch = self.page.words().first();
        epoch.is_none_or(|epoch| epoch.load(Ordering::Acquire) != 0)
    }

    /// Notes that the VIP of `slot` advertises now. Before the advert leaves: who dies right after
    /// it has taken over.
    pub(crate) fn advertises(&self, slot: Slot, now: Instant) {
        if let Some(word) = self.word(slot) {
            word.store(now.as_nanos().max(1), Ordering::Release);
        }
    }

    /// Notes that the addresses of the VIP of `slot` are gone.
    pub(crate) fn lets_go(&self, slot: Slot) {
        if let Some(word) = self.word(slot) {
            word.store(0, Ordering::Release);
        }
    }

    /// When the VIP of `slot` advertised last, if it is held here.
    pub(crate) fn last_advert(&self, slot: Slot) -> Option<Instant> {
        let nanos = self.word(slot)?.load(Ordering::Acquire);
        (nanos != 0).then(|| Instant::from_nanos(nanos))
    }

    /// Notes which virtual router has `slot`.
    pub(crate) fn identify(&self, slot: Slot, router: RouterId) {
        if let Some(word) = self.page.words().get(slot.first() + 1) {
            word.store(router.packed(), Ordering::Release);
        }
    }

    /// Notes who guards.
    pub(crate) fn guarded_by(&self, pid: u32) {
        if let Some(word) = self.page.words().get(GUARDIAN_WORD) {
            word.store(pid.into(), Ordering::Release);
        }
    }

    /// Notes that another agent will take the place of this one before `until`.
    pub(crate) fn keep(&self, until: Instant) {
        if let Some(word) = self.page.words().get(KEPT_WORD) {
            word.store(until.as_nanos(), Ordering::Release);
        }
    }

    /// Until when the VIPs are kept for another agent, if they are.
    pub(crate) fn kept_until(&self) -> Option<Instant> {
        let nanos = self.page.words().get(KEPT_WORD)?.load(Ordering::Acquire);
        (nanos != 0).then(|| Instant::from_nanos(nanos))
    }

    fn router(&self, slot: Slot) -> Option<RouterId> {
        let word = self.page.words().get(slot.first() + 1)?;
        RouterId::unpacked(word.load(Ordering::Acquire))
    }

    fn word(&self, slot: Slot) -> Option<&AtomicU64> {
        self.page.words().get(slot.first())
    }
}

impl RouterId {
    fn packed(self) -> u64 {
        u64::from(self.ifindex) << 16 | u64::from(self.vrid.get()) << 8 | u64::from(self.ipv6)
    }

    fn unpacked(word: u64) -> Option<Self> {
        let [_, _, a, b, c, d, vrid, ipv6] = word.to_be_bytes();
        Some(Self {
            ifindex: u32::from_be_bytes([a, b, c, d]),
            vrid: Vrid::new(vrid).ok()?,
            ipv6: ipv6 != 0,
        })
    }
}

impl AsFd for Mastership {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.page.as_fd()
    }
}

impl Slot {
    /// The lowest that none of `taken` has.
    pub(crate) fn free(taken: impl Iterator<Item = Self>) -> Option<Self> {
        let mut taken: Vec<usize> = taken.map(|slot| slot.0).collect();
        taken.sort_unstable();
        let mut free = 0;
        for slot in taken {
            free += usize::from(slot == free);
        }
        (free < SLOTS).then_some(Self(free))
    }

    const fn first(self) -> usize {
        HEADER + 2 * self.0
    }
}

/// Two pages of memory, of which as much is touched as there are VIPs.
const WORDS: usize = 1024;
const LAYOUT_WORD: usize = 1;
const KEPT_WORD: usize = 2;
const GUARDIAN_WORD: usize = 3;
const HEADER: usize = 4;
const SLOTS: usize = (WORDS - HEADER) / 2;
/// Another one when the words mean something else: what an older agent left is not understood then.
const LAYOUT: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vip_has_a_place_and_a_later_agent_overtakes() {
        let path = std::env::temp_dir().join(format!("kedge-mastership-{}", std::process::id()));
        let (agent, estate) = Mastership::create(&path, Instant::ZERO).unwrap();
        assert!(estate.is_none());
        let guardian = Mastership::open(agent.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let first = Slot::free([].into_iter()).unwrap();
        let second = Slot::free([first].into_iter()).unwrap();
        let third = Slot::free([second, first].into_iter()).unwrap();
        assert_eq!(Slot::free([third, first].into_iter()), Some(second));
        let now = Instant::from_nanos(17);
        agent.advertises(second, now);
        assert_eq!(guardian.last_advert(first), None);
        assert_eq!(guardian.last_advert(second), Some(now));
        agent.lets_go(second);
        assert_eq!(guardian.last_advert(second), None);
        assert!(!guardian.is_overtaken());
        agent.advertises(second, now);
        let (later, estate) = Mastership::create(&path, now).unwrap();
        assert!(guardian.is_overtaken() && !later.is_overtaken());
        assert_eq!(later.last_advert(second), None);
        assert!(estate.is_none(), "nothing was kept");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_later_agent_learns_what_is_kept_for_it_and_by_whom() {
        let path = std::env::temp_dir().join(format!("kedge-estate-{}", std::process::id()));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let router = |vrid, ipv6| RouterId {
            ifindex: 0x0102_0304,
            vrid: Vrid::new(vrid).unwrap(),
            ipv6,
        };
        let leave = || {
            let (agent, _) = Mastership::create(&path, at(0)).unwrap();
            for (slot, (vrid, ipv6)) in [(51, false), (52, true), (255, true)].iter().enumerate() {
                agent.identify(Slot(slot), router(*vrid, *ipv6));
            }
            agent.advertises(Slot(0), at(900));
            agent.advertises(Slot(2), at(950));
            agent.guarded_by(17);
            agent.keep(at(5_000));
            Mastership::open(agent.as_fd().try_clone_to_owned().unwrap()).unwrap()
        };
        let guardian = leave();
        let (_, estate) = Mastership::create(&path, at(1_000)).unwrap();
        let estate = estate.unwrap();
        assert!(!guardian.is_overtaken(), "it goes on until its heir does");
        guardian.advertises(Slot(0), at(1_000));
        assert_eq!(estate.guardian(), Some(17));
        let kept = |router, last_advert| Kept {
            router,
            last_advert,
        };
        assert_eq!(
            estate.take(),
            [
                kept(router(51, false), at(1_000)),
                kept(router(255, true), at(950))
            ]
        );
        assert!(guardian.is_overtaken());
        let (_, estate) = Mastership::create(&path, at(1_000)).unwrap();
        assert!(estate.is_none(), "it is inherited once");
        let guardian = leave();
        let (_, first) = Mastership::create(&path, at(1_000)).unwrap();
        drop(first);
        let (heir, estate) = Mastership::create(&path, at(1_100)).unwrap();
        let estate = estate.expect("the first heir died before it took anything");
        assert!(!guardian.is_overtaken());
        assert_eq!(estate.take().len(), 2);
        assert!(guardian.is_overtaken() && !heir.is_overtaken());
        let (_, estate) = Mastership::create(&path, at(1_200)).unwrap();
        assert!(estate.is_none() && heir.is_overtaken(), "its page is found");
        let guardian = leave();
        let (_, estate) = Mastership::create(&path, at(5_000)).unwrap();
        assert!(
            estate.is_none() && guardian.is_overtaken(),
            "it is too late"
        );
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_page_is_replaced_and_places_end() {
        let path = std::env::temp_dir().join(format!("kedge-no-page-{}", std::process::id()));
        fs::write(&path, "text").unwrap();
        let (agent, estate) = Mastership::create(&path, Instant::ZERO).unwrap();
        assert!(!agent.is_overtaken() && estate.is_none());
        assert_eq!(Slot::free((0..SLOTS).map(Slot)), None);
        fs::remove_file(&path).unwrap();
    }
}
