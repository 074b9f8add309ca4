//! Memory of the host behind device addresses.

use std::ptr::NonNull;

use super::shadow;

/// Alignment of host memory and of the variables of modules.
pub(super) const ALIGN: u64 = 256;

/// Bytes with a stable address. Several worker threads write them through raw pointers. Large ones take memory of the host
/// only where they are written.
#[derive(Debug)]
pub(super) struct Bytes {
    data: NonNull<u8>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Heap(std::alloc::Layout),
    /// Pages of their own: their number of bytes.
    Pages(usize),
    /// Memory that belongs to someone else.
    Borrowed,
}

/// The least size of bytes with pages of their own.
pub(super) const LARGE: usize = 32 << 20;

// SAFETY: plain memory. `Device::launch` takes the device mutably, which decides who may access the memory and when.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(super) fn zeroed(len: usize) -> Option<Bytes> {
        if len >= LARGE
            && let Some(data) = pages::zeroed(len)
        {
            return Some(Bytes { data, backing: Backing::Pages(len) });
        }
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGN as usize).ok()?;
        // SAFETY: the layout has a size that is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Bytes { data, backing: Backing::Heap(layout) })
    }

    /// Memory of someone else, which must stay valid until these bytes are dropped.
    pub(super) fn borrowed(data: NonNull<u8>) -> Bytes {
        Bytes { data, backing: Backing::Borrowed }
    }

    /// Bytes that all have the state of defined memory.
    pub(super) fn defined(len: usize) -> Option<Bytes> {
        if len >= LARGE
            && let Some(data) = pages::defined(len)
        {
            return Some(Bytes { data, backing: Backing::Pages(len) });
        }
        let bytes = Bytes::zeroed(len)?;
        // SAFETY: the memory has `len` bytes.
        unsafe { bytes.as_ptr().write_bytes(shadow::DEFINED, len) };
        Some(bytes)
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        match self.backing {
            // SAFETY: allocated with this layout, and dropped once.
            Backing::Heap(layout) => unsafe { std::alloc::dealloc(self.data.as_ptr(), layout) },
            Backing::Pages(len) => pages::free(self.data, len),
            Backing::Borrowed => {}
        }
    }
}

#[cfg(target_os = "linux")]
mod pages {
    use std::ffi::c_void;
    use std::io::Write;
    use std::ptr::NonNull;
    use std::sync::OnceLock;

    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

    use super::shadow;

    /// Size of the file whose bytes all have the state of defined memory. It is mapped as often as necessary, and a page
    /// is copied when it is written.
    const FILE: usize = 16 << 20;

    fn protection() -> ProtFlags {
        ProtFlags::READ | ProtFlags::WRITE
    }

    pub fn zeroed(len: usize) -> Option<NonNull<u8>> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the system chooses.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection(), flags) }.ok()?;
        // A large page for each written byte would take as much memory as if all were written.
        // SAFETY: the range is the new mapping.
        let _ = unsafe { rustix::mm::madvise(at, len, rustix::mm::Advice::LinuxNoHugepage) };
        NonNull::new(at.cast())
    }

    pub fn defined(len: usize) -> Option<NonNull<u8>> {
        static DEFINED: OnceLock<Option<std::fs::File>> = OnceLock::new();
        let file = DEFINED.get_or_init(defined_file).as_ref()?;
        let start = zeroed(len)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        for at in (0..len).step_by(FILE) {
            let (part, size) = (start.as_ptr().wrapping_add(at).cast::<c_void>(), FILE.min(len - at));
            // SAFETY: the range lies in the mapping that was just made, which nothing refers to yet.
            if unsafe { mmap(part, size, protection(), flags, file, 0) }.is_err() {
                free(start, len);
                return None;
            }
        }
        Some(start)
    }

    fn defined_file() -> Option<std::fs::File> {
        let memory = rustix::fs::memfd_create("defined", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        let mut file = std::fs::File::from(memory);
        let piece = vec![shadow::DEFINED; 1 << 20];
        for _ in 0..FILE / piece.len() {
            file.write_all(&piece).ok()?;
        }
        Some(file)
    }

    pub fn free(at: NonNull<u8>, len: usize) {
        // SAFETY: the range is a mapping of this module, and it is freed once.
        let _ = unsafe { munmap(at.as_ptr().cast(), len) };
    }
}

#[cfg(not(target_os = "linux"))]
mod pages {
    use std::ptr::NonNull;

    pub fn zeroed(_: usize) -> Option<NonNull<u8>> {
        None
    }

    pub fn defined(_: usize) -> Option<NonNull<u8>> {
        None
    }

    pub fn free(_: NonNull<u8>, _: usize) {}
}

/// An allocation as a launch sees it.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub address: u64,
    pub bytes: u64,
    pub data: *mut u8,
    pub shadow: *mut u8,
    pub constant: bool,
    /// Every byte was defined when the launch began.
    pub defined: bool,
}

// SAFETY: the pointers go into allocations that outlive the launch; see `Device::launch`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub const NONE: Region = Region {
        address: u64::MAX,
        bytes: 0,
        data: std::ptr::null_mut(),
        shadow: std::ptr::null_mut(),
        constant: true,
        defined: false,
    };

    /// Whether `bytes` bytes at `address` lie inside the allocation.
    #[inline(always)]
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let at = address.wrapping_sub(self.address);
        at <= self.bytes && bytes <= self.bytes - at
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, LARGE};
    use crate::mem::shadow;

    #[test]
    fn large_bytes_are_defined_up_to_their_end() {
        for len in [1, LARGE - 1, LARGE + 12_345, 3 * LARGE] {
            let bytes = Bytes::defined(len).unwrap();
            for at in [0, len / 2, len - 1] {
                // SAFETY: the place lies inside the bytes, which nothing else refers to.
                assert_eq!(unsafe { *bytes.as_ptr().add(at) }, shadow::DEFINED, "{at} of {len}");
            }
            // SAFETY: as above.
            unsafe { *bytes.as_ptr() = shadow::WRITTEN };
            let other = Bytes::defined(len).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { *other.as_ptr() }, shadow::DEFINED, "a write is private");
        }
    }
}
