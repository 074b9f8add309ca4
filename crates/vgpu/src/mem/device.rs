//! Device memory: labelled allocations with guard zones, on their own range of addresses.

use std::collections::HashMap;
use std::ptr::NonNull;

use super::shadow;
use super::window::{self, Windows};
use crate::program::Module;
use crate::world::{PAGE, World, mix};

/// A device address, as a kernel argument holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buffer(pub u64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    #[error("out of memory: {wanted} bytes asked, {free} free")]
    OutOfMemory { wanted: u64, free: u64 },
    #[error("address {0:#x} is not the start of an allocation")]
    NotAllocated(u64),
    #[error("range of {bytes} bytes at {address:#x} is not inside one allocation")]
    OutOfRange { address: u64, bytes: u64 },
}

/// Addresses between two allocations that belong to neither: an access there is a finding, whichever side it came
/// from. Addresses cost nothing, so the gap is wider than most buffers: a wild index rarely reaches the next one.
const GUARD: u64 = 1 << 28;
const GUARD_OF_VARIABLES: u64 = 1 << 20;
/// Host memory and modules' variables are aligned to this.
const ALIGN: u64 = 256;
/// What `cudaMalloc` aligns small allocations to; large ones start a page.
const ALIGN_OF_BUFFERS: u64 = 512;
const LARGE: u64 = 1 << 20;
/// Allocations from this size on are placed below the others, as CUDA does.
const VERY_LARGE: u64 = 32 << 20;
/// Device addresses lie between these two.
const LOWEST: u64 = 1 << 40;
const HIGHEST: u64 = 0x7fff_0000_0000;

/// Zeroed bytes with a stable address that several worker threads write through raw pointers.
#[derive(Debug)]
struct Bytes {
    data: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: plain memory; who may touch it when is settled by `Device::launch` taking the device mutably.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn zeroed(len: usize) -> Option<Bytes> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGN as usize).ok()?;
        // SAFETY: the layout has a size that is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Bytes { data, layout })
    }

    fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, dropped once.
        unsafe { std::alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
}

#[derive(Debug)]
struct Allocation {
    address: u64,
    bytes: u64,
    label: String,
    data: Bytes,
    /// One state byte per byte, see [`shadow`].
    shadow: Bytes,
    /// A module's constant memory.
    constant: bool,
}

/// What a launch sees of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub address: u64,
    pub bytes: u64,
    pub data: *mut u8,
    pub shadow: *mut u8,
    pub constant: bool,
}

// SAFETY: pointers into allocations that outlive the launch; see `Device::launch`.
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
    };

    /// Whether `bytes` bytes at `address` lie inside.
    #[inline(always)]
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let at = address.wrapping_sub(self.address);
        at <= self.bytes && bytes <= self.bytes - at
    }
}

/// A virtual GPU's memory and the modules placed in it.
#[derive(Debug)]
pub struct Device {
    /// Sorted by address.
    allocations: Vec<Allocation>,
    world: World,
    pub(crate) windows: Windows,
    /// Where the next allocation may start, and where the next one of those below the others has to end.
    above: u64,
    below: u64,
    /// Allocations made so far, and launches.
    made: u64,
    pub(crate) launches: u64,
    /// Nanoseconds of device time that launches have taken.
    pub(crate) uptime: u64,
    used: u64,
    limit: u64,
    /// Addresses of each module's variables.
    modules: HashMap<u64, Vec<u64>>,
    /// Freed ranges, newest last, so that a use after free can be named.
    freed: Vec<(u64, u64, String)>,
}

impl Default for Device {
    fn default() -> Self {
        Device::new(16 << 30)
    }
}

impl Device {
    /// A device with that many bytes of memory.
    pub fn new(memory: u64) -> Device {
        Device::in_world(memory, World::default())
    }

    /// A device with that many bytes of memory, whose addresses are the world's.
    pub fn in_world(memory: u64, world: World) -> Device {
        Device {
            allocations: Vec::new(),
            world,
            windows: Windows::new(&world),
            above: world.memory,
            below: world.memory.saturating_sub(GUARD),
            made: 0,
            launches: 0,
            uptime: 0,
            used: 0,
            limit: memory,
            modules: HashMap::new(),
            freed: Vec::new(),
        }
    }

    /// Places later allocations, and the windows of shared and local memory, as another world has them. What is
    /// allocated stays where it is.
    pub fn move_to(&mut self, world: World) {
        self.world = world;
        self.above = world.memory;
        self.below = world.memory.saturating_sub(GUARD);
        let mut shared = world.shared_window;
        while self.obstacle(shared, window::ALL, 0).is_some() && shared > LOWEST + window::ALL {
            shared -= window::ALL;
        }
        self.windows = Windows::at(shared, &world);
    }

    /// Allocates memory, uninitialised as far as the checks are concerned. The label names it in findings.
    pub fn alloc(&mut self, bytes: u64, label: &str) -> Result<Buffer, MemoryError> {
        let align = if bytes >= LARGE { PAGE } else { ALIGN_OF_BUFFERS };
        let buffer = self.allocate(bytes, label, align, false, GUARD)?;
        if self.world.garbage != 0 {
            self.fill_with_garbage(buffer);
        }
        Ok(buffer)
    }

    fn allocate(
        &mut self,
        bytes: u64,
        label: &str,
        align: u64,
        constant: bool,
        guard: u64,
    ) -> Result<Buffer, MemoryError> {
        let free = self.limit - self.used;
        let out_of_memory = MemoryError::OutOfMemory { wanted: bytes, free };
        if bytes > free {
            return Err(out_of_memory);
        }
        let (Some(data), Some(shadow)) = (Bytes::zeroed(bytes as usize), Bytes::zeroed(bytes as usize))
        else {
            return Err(out_of_memory);
        };
        let Some(address) = self.find_room(bytes, align.max(ALIGN), guard) else {
            return Err(out_of_memory);
        };
        self.used += bytes;
        let at = self.allocations.partition_point(|a| a.address < address);
        let label = label.to_string();
        self.allocations.insert(at, Allocation { address, bytes, label, data, shadow, constant });
        Ok(Buffer(address))
    }

    /// An address for an allocation, at least a guard away from everything else.
    fn find_room(&mut self, bytes: u64, align: u64, guard: u64) -> Option<u64> {
        let chance = if self.world.gaps == 0 { 0 } else { mix(self.world.gaps, self.made) };
        self.made += 1;
        // Between 0 and a whole guard more than is needed, in steps of what the allocation is aligned to.
        let more = (chance >> 16) % (guard / align).max(1) * align;
        let downwards = if self.world.gaps == 0 { bytes >= VERY_LARGE } else { chance & 1 == 1 };
        if !downwards {
            let mut address = self.above.checked_add(more)?.next_multiple_of(align);
            while let Some((_, end)) = self.obstacle(address, bytes, guard) {
                address = end.checked_add(guard)?.next_multiple_of(align);
            }
            if address.checked_add(bytes)? <= HIGHEST {
                self.above = (address + bytes).next_multiple_of(align) + guard;
                return Some(address);
            }
        }
        let downwards_from = |end: u64| Some(end.checked_sub(bytes)? / align * align);
        let mut address = downwards_from(self.below.checked_sub(more)?)?;
        while let Some((start, _)) = self.obstacle(address, bytes, guard) {
            address = downwards_from(start.checked_sub(guard)?)?;
        }
        self.below = address.checked_sub(guard)?;
        (address >= LOWEST).then_some(address)
    }

    /// Start and end of something that lies within `guard` of a range: an allocation, or the windows.
    fn obstacle(&self, address: u64, bytes: u64, guard: u64) -> Option<(u64, u64)> {
        let (low, high) =
            (address.saturating_sub(guard), address.saturating_add(bytes).saturating_add(guard));
        let meets = |start: u64, end: u64| start < high && low < end;
        let windows = (self.windows.shared, self.windows.shared + window::ALL);
        if guard > 0 && meets(windows.0, windows.1) {
            return Some(windows);
        }
        // The allocations on both sides of where it would start, and those it would cover.
        let after = self.allocations.partition_point(|a| a.address <= address);
        let near = &self.allocations[after.saturating_sub(1)..];
        near.iter()
            .take_while(|a| a.address < high)
            .map(|a| (a.address, a.address + a.bytes.max(1)))
            .find(|(start, end)| meets(*start, *end))
    }

    /// Memory that nothing wrote holds what an earlier kernel left there.
    fn fill_with_garbage(&mut self, buffer: Buffer) {
        const CHUNK: usize = 4096;
        let Ok(a) = self.find(buffer.0, 0) else { return };
        let mut chunk = [0u8; CHUNK];
        for (i, word) in chunk.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mix(self.world.garbage ^ self.made, i as u64).to_le_bytes());
        }
        let mut at = 0;
        while at < a.bytes as usize {
            let bytes = CHUNK.min(a.bytes as usize - at);
            // SAFETY: inside the allocation; `&mut self` means no launch is under way.
            unsafe { a.data.as_ptr().add(at).copy_from_nonoverlapping(chunk.as_ptr(), bytes) };
            at += bytes;
        }
    }

    pub fn free(&mut self, buffer: Buffer) -> Result<(), MemoryError> {
        let at = self
            .allocations
            .binary_search_by_key(&buffer.0, |a| a.address)
            .map_err(|_| MemoryError::NotAllocated(buffer.0))?;
        let gone = self.allocations.remove(at);
        self.used -= gone.bytes;
        if self.freed.len() >= 1024 {
            self.freed.remove(0);
        }
        self.freed.push((gone.address, gone.bytes, gone.label));
        Ok(())
    }

    fn find(&self, address: u64, bytes: u64) -> Result<&Allocation, MemoryError> {
        let after = self.allocations.partition_point(|a| a.address <= address);
        match after.checked_sub(1).map(|i| &self.allocations[i]) {
            Some(a) if address - a.address <= a.bytes && bytes <= a.bytes - (address - a.address) => Ok(a),
            _ => Err(MemoryError::OutOfRange { address, bytes }),
        }
    }

    /// Host to device. The bytes count as initialised from then on.
    pub fn write(&mut self, at: Buffer, data: &[u8]) -> Result<(), MemoryError> {
        let a = self.find(at.0, data.len() as u64)?;
        let offset = (at.0 - a.address) as usize;
        // SAFETY: `find` has checked the range; `&mut self` means no launch is under way.
        unsafe {
            a.data.as_ptr().add(offset).copy_from_nonoverlapping(data.as_ptr(), data.len());
            a.shadow.as_ptr().add(offset).write_bytes(shadow::DEFINED, data.len());
        }
        Ok(())
    }

    /// Device to host.
    pub fn read(&self, at: Buffer, into: &mut [u8]) -> Result<(), MemoryError> {
        let a = self.find(at.0, into.len() as u64)?;
        let offset = (at.0 - a.address) as usize;
        // SAFETY: `find` has checked the range; launches need `&mut self`.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(a.data.as_ptr().add(offset), into.len()) };
        Ok(())
    }

    /// Sets bytes, like `cudaMemset`.
    pub fn fill(&mut self, at: Buffer, value: u8, bytes: u64) -> Result<(), MemoryError> {
        let a = self.find(at.0, bytes)?;
        let offset = (at.0 - a.address) as usize;
        // SAFETY: as in `write`.
        unsafe {
            a.data.as_ptr().add(offset).write_bytes(value, bytes as usize);
            a.shadow.as_ptr().add(offset).write_bytes(shadow::DEFINED, bytes as usize);
        }
        Ok(())
    }

    /// Makes the contents count as uninitialised again, without changing them (an output about to be poisoned).
    pub fn forget(&mut self, at: Buffer) -> Result<(), MemoryError> {
        let a = self.find(at.0, 0)?;
        // SAFETY: as in `write`.
        unsafe { a.shadow.as_ptr().write_bytes(shadow::NEVER, a.bytes as usize) };
        Ok(())
    }

    pub fn size_of(&self, buffer: Buffer) -> Result<u64, MemoryError> {
        self.find(buffer.0, 0).map(|a| a.bytes)
    }

    /// The address of a module's global variable, placing the module if it is not there yet.
    pub fn symbol(&mut self, module: &Module, name: &str) -> Result<Option<(Buffer, u64)>, MemoryError> {
        let addresses = self.place(module)?;
        let found = module.variables.iter().position(|v| v.name == name);
        Ok(found.map(|i| (Buffer(addresses[i]), module.variables[i].bytes)))
    }

    /// The module's variables that kernels can write, with their addresses and sizes, placing the module if it is not
    /// there yet.
    pub fn variables(&mut self, module: &Module) -> Result<Vec<(String, Buffer, u64)>, MemoryError> {
        let addresses = self.place(module)?;
        let all = module.variables.iter().zip(addresses).filter(|(variable, _)| !variable.constant);
        Ok(all.map(|(variable, at)| (variable.name.clone(), Buffer(at), variable.bytes)).collect())
    }

    /// Gives the module's variables memory and their initial values, once per device.
    pub(crate) fn place(&mut self, module: &Module) -> Result<Vec<u64>, MemoryError> {
        if let Some(addresses) = self.modules.get(&module.id) {
            return Ok(addresses.clone());
        }
        let mut addresses = Vec::with_capacity(module.variables.len());
        for v in &module.variables {
            let buffer =
                self.allocate(v.bytes, &v.name, u64::from(v.align), v.constant, GUARD_OF_VARIABLES)?;
            addresses.push(buffer.0);
        }
        self.initialise(module, &addresses)?;
        self.modules.insert(module.id, addresses.clone());
        Ok(addresses)
    }

    /// Gives a module's variables their initial values again, as if it had just been loaded.
    pub fn reset(&mut self, module: &Module) -> Result<(), MemoryError> {
        match self.modules.get(&module.id) {
            Some(addresses) => self.initialise(module, &addresses.clone()),
            None => Ok(()),
        }
    }

    fn initialise(&mut self, module: &Module, addresses: &[u64]) -> Result<(), MemoryError> {
        for (v, base) in module.variables.iter().zip(addresses) {
            // Static storage without an initialiser is zero.
            self.fill(Buffer(*base), 0, v.bytes)?;
            let fits = v.init.len().min(v.bytes as usize);
            self.write(Buffer(*base), &v.init[..fits])?;
        }
        for (v, base) in module.variables.iter().zip(addresses) {
            for (offset, target, addend) in &v.relocations {
                if let Some(address) = addresses.get(*target as usize) {
                    let value = address.wrapping_add_signed(*addend);
                    self.write(Buffer(base + offset), &value.to_le_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Copies of a module's variables that kernels may write, by their index.
    pub(crate) fn writable_state(&self, module: &Module, addresses: &[u64]) -> Vec<(usize, Vec<u8>)> {
        let writable = module.variables.iter().zip(addresses).enumerate().filter(|(_, (v, _))| !v.constant);
        writable.map(|(i, (v, base))| (i, self.bytes(*base, v.bytes).to_vec())).collect()
    }

    /// Names of the variables that are not what they were.
    pub(crate) fn changed_state(
        &self,
        module: &Module,
        addresses: &[u64],
        before: &[(usize, Vec<u8>)],
    ) -> Vec<String> {
        let changed =
            before.iter().filter(|(i, old)| self.bytes(addresses[*i], old.len() as u64) != &old[..]);
        changed.map(|(i, _)| module.variables[*i].name.clone()).collect()
    }

    /// What an allocation holds; empty if there is none.
    fn bytes(&self, address: u64, bytes: u64) -> &[u8] {
        match self.find(address, bytes) {
            // SAFETY: `find` has checked the range; launches need `&mut self`.
            Ok(a) => unsafe {
                std::slice::from_raw_parts(
                    a.data.as_ptr().add((address - a.address) as usize),
                    bytes as usize,
                )
            },
            Err(_) => &[],
        }
    }

    /// All allocations as a launch sees them, sorted by address.
    pub(crate) fn regions(&self) -> Vec<Region> {
        self.allocations
            .iter()
            .map(|a| Region {
                address: a.address,
                bytes: a.bytes,
                data: a.data.as_ptr(),
                shadow: a.shadow.as_ptr(),
                constant: a.constant,
            })
            .collect()
    }

    /// Says what is at or near an address, for a finding.
    pub(crate) fn describe(&self, address: u64) -> (Option<String>, String) {
        if let Some((base, bytes, label)) =
            self.freed.iter().rev().find(|(base, bytes, _)| (*base..base + bytes.max(&1)).contains(&address))
        {
            let text = format!("{} bytes into `{label}` ({bytes} bytes), which was freed", address - base);
            return (Some(label.clone()), text);
        }
        let after = self.allocations.partition_point(|a| a.address <= address);
        let below = after.checked_sub(1).map(|i| &self.allocations[i]);
        let above = self.allocations.get(after);
        let past = below.map(|a| (address - a.address).saturating_sub(a.bytes));
        let before = above.map(|a| a.address - address);
        match (below, past, above, before) {
            (Some(a), Some(past), _, before) if before.is_none_or(|b| past < b) && past < 1 << 32 => (
                Some(a.label.clone()),
                format!("{past} bytes past the end of `{}` ({} bytes)", a.label, a.bytes),
            ),
            (_, _, Some(a), Some(before)) if before < 1 << 32 => (
                Some(a.label.clone()),
                format!("{before} bytes before the start of `{}` ({} bytes)", a.label, a.bytes),
            ),
            _ => (None, "no allocation is near".to_string()),
        }
    }

    pub(crate) fn label_at(&self, address: u64) -> Option<(&str, u64)> {
        self.find(address, 0).ok().map(|a| (a.label.as_str(), address - a.address))
    }
}
