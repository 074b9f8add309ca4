//! Runs work on all cores.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `work` on every item. Each thread has its own scratch, which it reuses for every item.
pub fn each_with<T: Send, S: Default>(items: Vec<T>, work: impl Fn(T, &mut S) + Sync) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let queue = Mutex::new(items.into_iter());
    let until_empty = || {
        let mut scratch = S::default();
        loop {
            // The lock guards only an iterator, which stays valid if another thread panics.
            let item = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(item) = item else { break };
            work(item, &mut scratch);
        }
    };
    // A single item is done faster without starting a thread.
    if threads <= 1 {
        return until_empty();
    }
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(until_empty);
        }
    });
}

/// Runs `work` on every item.
pub fn each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    each_with(items, |item, ()| work(item));
}
