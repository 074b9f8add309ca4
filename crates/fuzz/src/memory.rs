//! An allocator that counts the allocations of each thread.
//!
//! Tests run in parallel, so the count is per thread. Allocations of threads that a target starts are not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator refuses more than this to a fuzzing thread. The process then aborts, unless the code under test
/// handles the failed allocation.
const REFUSED_BYTES: usize = 3 << 30;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts an allocation. Returns `false` if it must be refused.
fn allowed(bytes: usize) -> bool {
    let now = NOW.get().saturating_add(bytes);
    MOST.set(MOST.get().max(now));
    if now > REFUSED_BYTES {
        return false;
    }
    NOW.set(now);
    true
}

fn freed(bytes: usize) {
    // A thread may free memory that another thread allocated.
    NOW.set(NOW.get().saturating_sub(bytes));
}

// SAFETY: passes every request to the system's allocator or refuses it with a null pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !allowed(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !allowed(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !allowed(size) {
            return std::ptr::null_mut();
        }
        freed(layout.size());
        // SAFETY: the caller guarantees it.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller guarantees it.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The largest number of bytes that this thread had allocated at once during `work`, beyond those before it.
pub fn most_during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    MOST.set(before);
    let result = work();
    (result, MOST.get().saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sum_of_allocations_is_reported() {
        let ((), most) = most_during(|| {
            let first = vec![0_u8; 1 << 20];
            drop(first);
            let second = vec![1_u8; 3 << 20];
            assert_eq!(second.len(), 3 << 20);
        });
        assert!((3 << 20..4 << 20).contains(&most), "{most}");
    }

    #[test]
    fn a_huge_allocation_is_refused() {
        let mut bytes: Vec<u8> = Vec::new();
        assert!(bytes.try_reserve_exact(REFUSED_BYTES + 1).is_err());
    }
}
