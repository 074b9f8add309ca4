//! Sets of hashes with numbers: equal sets have equal numbers. A set is never changed, so values can share it.

use std::collections::HashMap;

/// The number of a set; zero is the empty set.
pub type SetId = u32;

/// Limits of the size of a set and of all sets together. A union beyond them is not made.
const MAX_MEMBERS: usize = 512;
const MAX_TOTAL: usize = 1 << 22;

#[derive(Debug, Default)]
pub struct Sets {
    /// Sorted members of each set but the empty one.
    members: Vec<Box<[u64]>>,
    numbers: HashMap<Box<[u64]>, SetId>,
    unions: HashMap<(SetId, SetId), SetId>,
    total: usize,
}

impl Sets {
    fn members(&self, set: SetId) -> &[u64] {
        (set as usize).checked_sub(1).and_then(|at| self.members.get(at)).map_or(&[], |all| all)
    }

    /// The set with these members, in any order. `None` if it would be too large.
    pub fn of(&mut self, mut members: Vec<u64>) -> Option<SetId> {
        members.sort_unstable();
        members.dedup();
        if members.is_empty() {
            return Some(0);
        }
        if let Some(known) = self.numbers.get(members.as_slice()) {
            return Some(*known);
        }
        if members.len() > MAX_MEMBERS || self.total > MAX_TOTAL {
            return None;
        }
        self.total += members.len();
        let members = members.into_boxed_slice();
        self.members.push(members.clone());
        let number = self.members.len() as SetId;
        self.numbers.insert(members, number);
        Some(number)
    }

    /// The members of both sets.
    pub fn union(&mut self, one: SetId, other: SetId) -> Option<SetId> {
        let (low, high) = (one.min(other), one.max(other));
        if low == 0 || low == high {
            return Some(high);
        }
        if let Some(known) = self.unions.get(&(low, high)) {
            return Some(*known);
        }
        let united = self.of([self.members(low), self.members(high)].concat())?;
        self.unions.insert((low, high), united);
        Some(united)
    }

    /// The members but this one.
    pub fn without(&mut self, set: SetId, member: u64) -> Option<SetId> {
        match self.members(set).binary_search(&member) {
            Ok(at) => {
                let mut members = self.members(set).to_vec();
                members.remove(at);
                self.of(members)
            }
            Err(_) => Some(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_equal_numbers() {
        let mut sets = Sets::default();
        let a = sets.of(vec![3, 1, 3]).unwrap();
        assert_eq!(sets.of(vec![1, 3]), Some(a));
        let b = sets.of(vec![2]).unwrap();
        let united = sets.union(a, b).unwrap();
        assert_eq!(sets.union(b, a), Some(united));
        assert_eq!(sets.of(vec![2, 3, 1]), Some(united));
        assert_eq!(
            (sets.without(united, 2), sets.without(a, 9), sets.without(b, 2)),
            (Some(a), Some(a), Some(0))
        );
        assert_eq!((sets.of(vec![]), sets.union(0, a), sets.union(a, a)), (Some(0), Some(a), Some(a)));
    }

    #[test]
    fn a_set_that_is_too_large_is_not_made() {
        let mut sets = Sets::default();
        let half = |from: u64| (from..from + 300).collect::<Vec<u64>>();
        let (a, b) = (sets.of(half(0)).unwrap(), sets.of(half(1000)).unwrap());
        assert_eq!(sets.union(a, b), None);
        assert!(sets.union(a, sets.members.len() as SetId).is_none());
    }
}
