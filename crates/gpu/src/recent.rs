//! A small cache of the values that were made last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Number of values that are kept.
const KEPT: usize = 8;

/// The values that were made last, by their keys. Threads share it.
#[derive(Debug)]
pub struct Recent<K, V> {
    values: Mutex<VecDeque<(K, V)>>,
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    /// An empty cache.
    pub const fn new() -> Self {
        Recent { values: Mutex::new(VecDeque::new()) }
    }

    /// The value of a key, if it is kept.
    pub fn get(&self, key: &K) -> Option<V> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    /// Keeps a value and forgets the oldest.
    pub fn keep(&self, key: K, value: V) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.push_front((key, value));
        values.truncate(KEPT);
    }

    /// The value of a key, made if it is not kept. Two threads may make it at the same time.
    pub fn get_or_make(&self, key: K, make: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let value = make();
            self.keep(key, value.clone());
            value
        })
    }
}

impl<K: PartialEq, V: Clone> Default for Recent<K, V> {
    fn default() -> Self {
        Recent::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_values_are_kept() {
        let recent = Recent::new();
        for number in 0..=KEPT {
            assert_eq!(recent.get_or_make(number, || 10 * number), 10 * number);
        }
        assert_eq!(recent.get_or_make(1, || unreachable!("it is kept")), 10);
        assert_eq!(recent.get(&0), None);
    }
}
