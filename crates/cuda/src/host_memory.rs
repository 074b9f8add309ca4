//! Memory that host and device share: managed memory and pinned memory.
//!
//! Its pages are mapped twice. The program uses one mapping, whose address is also the device address; the library and
//! the kernels use the other one. While an operation on a stream may still use a page, the program's mapping of it is
//! closed. An access of host code then faults, and the handler checks the access and opens the page.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{RESERVED, try_state};

const PAGE: u64 = 4096;

/// A mapping of the program that can be closed. The fault handler reads these entries and must not wait for a lock, so
/// they are atomic.
struct Slot {
    start: AtomicU64,
    bytes: AtomicU64,
    closed: AtomicBool,
}

const SLOTS: usize = 1024;
static VIEWS: [Slot; SLOTS] =
    [const { Slot { start: AtomicU64::new(0), bytes: AtomicU64::new(0), closed: AtomicBool::new(false) } };
        SLOTS];

/// Memory that is mapped for the program and for the library.
#[derive(Debug)]
pub struct Shared {
    program: u64,
    library: NonNull<u8>,
    bytes: u64,
    /// The entry of `VIEWS`; `None` if all are in use. The memory is then never closed.
    slot: Option<usize>,
}

// SAFETY: the mappings belong to the value, and the lock of the state guards the accesses to them.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps new memory.
    pub fn new(bytes: u64) -> Option<Shared> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let size = usize::try_from(bytes).ok()?;
        // SAFETY: the name is a string; the file descriptor is checked.
        let file = unsafe { libc::memfd_create(c"warpsmith".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return None;
        }
        let map = || {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping at an address that the system chooses.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file, 0) };
            (at != libc::MAP_FAILED).then_some(at)
        };
        // SAFETY: the file is the new one.
        let mapped = if unsafe { libc::ftruncate(file, size as i64) } == 0 { map().zip(map()) } else { None };
        // SAFETY: the file is the new one; its mappings stay.
        unsafe { libc::close(file) };
        let (program, library) = mapped?;
        let program = program as u64;
        let free =
            |slot: &Slot| slot.start.compare_exchange(0, program, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let slot = VIEWS.iter().position(free);
        if let Some(slot) = slot {
            VIEWS[slot].closed.store(false, Ordering::SeqCst);
            VIEWS[slot].bytes.store(bytes, Ordering::SeqCst);
        }
        Some(Shared { program, library: NonNull::new(library.cast())?, bytes, slot })
    }

    /// The address for the program and for kernels.
    pub fn address(&self) -> u64 {
        self.program
    }

    /// The memory for the library.
    pub fn library(&self) -> NonNull<u8> {
        self.library
    }

    /// Opens all pages.
    pub fn open(&self) {
        if let Some(slot) = self.slot
            && VIEWS[slot].closed.swap(false, Ordering::SeqCst)
        {
            protect(self.program, self.bytes, libc::PROT_READ | libc::PROT_WRITE);
        }
    }

    /// Closes the pages of a range, for writes only or for all accesses. Pages that also have other bytes of the
    /// allocation (up to `end`) stay open: the program may pass those bytes to a system call, which would fail.
    pub fn close(&self, range: std::ops::Range<u64>, end: u64, for_reads: bool) {
        let Some(slot) = self.slot else { return };
        let first = range.start.max(self.program).next_multiple_of(PAGE);
        let last = if range.end >= end { range.end.next_multiple_of(PAGE) } else { range.end / PAGE * PAGE };
        let last = last.min(self.program + self.bytes);
        if first < last {
            VIEWS[slot].closed.store(true, Ordering::SeqCst);
            protect(first, last - first, if for_reads { libc::PROT_NONE } else { libc::PROT_READ });
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            VIEWS[slot].bytes.store(0, Ordering::SeqCst);
            VIEWS[slot].start.store(0, Ordering::SeqCst);
        }
        // SAFETY: both mappings belong to the value.
        unsafe {
            libc::munmap(self.program as *mut c_void, self.bytes as usize);
            libc::munmap(self.library.as_ptr().cast(), self.bytes as usize);
        }
    }
}

fn protect(start: u64, bytes: u64, access: i32) {
    // SAFETY: the range is part of a mapping that the program got from the library.
    unsafe { libc::mprotect(start as *mut c_void, bytes as usize, access) };
}

/// Opens the page of an address, if it may be closed. Returns whether it may have been.
pub fn open(address: u64) -> bool {
    let view = VIEWS.iter().find(|slot| {
        let start = slot.start.load(Ordering::SeqCst);
        start != 0 && address >= start && address - start < slot.bytes.load(Ordering::SeqCst)
    });
    let is_closed = view.is_some_and(|slot| slot.closed.load(Ordering::SeqCst));
    if is_closed {
        protect(address / PAGE * PAGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
    is_closed
}

/// The handler of faults before this one.
static mut EARLIER: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Watches faults of the program.
pub fn watch_faults() {
    // SAFETY: an all-zero `sigaction` is valid; the handler has the type that `SA_SIGINFO` asks for. This runs once.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, (&raw mut EARLIER).cast());
    }
}

/// Whether the access that faulted was a write; `None` if the processor does not say.
fn was_write(context: *mut c_void) -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the operating system passes a `ucontext_t` to a handler of this kind.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        Some(registers[libc::REG_ERR as usize] & 2 != 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        None
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the operating system passes the description of the fault.
    let address = unsafe { (*info).si_addr() } as u64;
    // If the processor does not say, the access counts as a read, which is in conflict with fewer operations.
    let write = was_write(context).unwrap_or(false);
    if open(address) {
        if let Some(mut state) = try_state() {
            state.host_accesses(address, write);
        }
        return;
    }
    if RESERVED.contains(&address)
        && let Some(mut state) = try_state()
    {
        state.host_touches_device(address, write);
    }
    // SAFETY: the earlier action is a valid one. The access is repeated, and the earlier handler gets its fault.
    unsafe { libc::sigaction(signal, (&raw const EARLIER).cast(), std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn is_closed(address: u64) -> bool {
        let mut byte = [0u8];
        let local = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: 1 };
        // SAFETY: the kernel checks both ranges.
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) != 1 }
    }

    #[test]
    fn only_pages_without_other_bytes_are_closed() {
        let shared = Shared::new(3 * PAGE - 100).unwrap();
        let (start, end) = (shared.address(), shared.address() + 3 * PAGE - 100);
        shared.close(start + 10..end, end, true);
        let closed = [0, 1, 2].map(|page| is_closed(start + page * PAGE));
        assert_eq!(closed, [false, true, true], "the last page has no other bytes");
        assert!(open(start + PAGE + 5));
        assert!(!is_closed(start + PAGE) && is_closed(start + 2 * PAGE));
        shared.open();
        assert!(!is_closed(start + 2 * PAGE));
        shared.close(start..start + PAGE + 8, end, true);
        assert!(is_closed(start) && !is_closed(start + PAGE));
        // The library's mapping always is open, and has the same bytes.
        // SAFETY: the mapping has three pages.
        unsafe { *shared.library().as_ptr() = 7 };
        shared.open();
        // SAFETY: as above.
        assert_eq!(unsafe { *(start as *const u8) }, 7);
    }
}
