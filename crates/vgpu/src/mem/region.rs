//! Memory of the host behind device addresses.

use std::ptr::NonNull;

/// Alignment of host memory and of the variables of modules.
pub(super) const ALIGN: u64 = 256;

/// Zeroed bytes with a stable address. Several worker threads write them through raw pointers.
#[derive(Debug)]
pub(super) struct Bytes {
    data: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: plain memory. `Device::launch` takes the device mutably, which decides who may access the memory and when.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(super) fn zeroed(len: usize) -> Option<Bytes> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGN as usize).ok()?;
        // SAFETY: the layout has a size that is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Bytes { data, layout })
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { std::alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
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
