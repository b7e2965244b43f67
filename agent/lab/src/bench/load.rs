//! Every processor is busy, and not with what is measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

/// Threads that do nothing but use the CPU; they end when it is dropped.
pub(super) struct Load(Arc<AtomicBool>);

impl Load {
    pub(super) fn start() -> Self {
        let over = Self(Arc::default());
        for _ in 0..BUSY {
            let over = Arc::clone(&over.0);
            thread::spawn(move || {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        over
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// How many threads are busy.
const BUSY: usize = 8;
