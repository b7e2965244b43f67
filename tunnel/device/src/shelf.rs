//! Where workers leave what must outlive them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kedge_tunnel_proto::memory::Memory;

/// What each worker has learned last, until somebody takes it.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    /// By the worker's number. Of those that have left nothing yet it is what they began with.
    memories: Vec<Memory>,
    any: bool,
}

impl Shelf {
    /// For workers that begin with this.
    pub(crate) fn new(memories: Vec<Memory>) -> Self {
        Self(Mutex::new(Places {
            memories,
            any: false,
        }))
    }

    pub(crate) fn leave(&self, worker: u8, memory: Memory) {
        let mut places = self.lock();
        let worker = usize::from(worker);
        if places.memories.len() <= worker {
            places.memories.resize_with(worker + 1, Memory::default);
        }
        if let Some(place) = places.memories.get_mut(worker) {
            *place = memory;
        }
        places.any = true;
    }

    /// All of it, if there is more than the last time.
    pub(crate) fn take(&self) -> Option<Memory> {
        let mut places = self.lock();
        if !std::mem::take(&mut places.any) {
            return None;
        }
        let known = places.memories.iter().flat_map(|memory| &memory.0);
        Some(Memory(known.map(|(key, known)| (*key, *known)).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kedge_tunnel_proto::{keys::PrivateKey, memory::Remembered};

    use super::*;

    #[test]
    fn what_one_worker_leaves_loses_nothing_of_the_others() {
        let memory = |number: u8, port: u16| {
            let key = PrivateKey::from_random([number; 32]).public();
            let endpoint = Some(([192, 0, 2, number], port).into());
            let remembered = Remembered {
                endpoint,
                ..Remembered::default()
            };
            Memory(BTreeMap::from([(key, remembered)]))
        };
        let shelf = Shelf::new(vec![memory(1, 1), memory(2, 1)]);
        assert_eq!(shelf.take(), None);
        shelf.leave(1, memory(2, 9));
        let all = [memory(1, 1), memory(2, 9)].map(|memory| memory.0);
        let all = Memory(all.into_iter().flatten().collect());
        assert_eq!(shelf.take(), Some(all));
        assert_eq!(shelf.take(), None, "nothing new");
    }
}
