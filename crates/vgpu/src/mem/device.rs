//! Device memory: labelled allocations with guard zones, in a separate address range.

use std::collections::HashMap;

use super::heap::{self, Heap};
use super::region::{ALIGN, Bytes, LARGE as LARGE_BYTES, Region};
use super::shadow;
use super::window::{self, Windows};
use crate::program::Module;
use crate::texture::{Texture, TextureError};
use crate::world::{PAGE, World, mix};

/// A device address, in the form that a kernel argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buffer(pub u64);

/// An error of an operation on device memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The device does not have enough free memory.
    #[error("out of memory: {wanted} bytes asked, {free} free")]
    OutOfMemory {
        /// Requested size in bytes.
        wanted: u64,
        /// Free memory in bytes.
        free: u64,
    },
    /// The range meets another allocation.
    #[error("range of {bytes} bytes at {address:#x} meets another allocation")]
    Occupied {
        /// Start of the range.
        address: u64,
        /// Size of the range in bytes.
        bytes: u64,
    },
    /// The address is not the start of an allocation.
    #[error("address {0:#x} is not the start of an allocation")]
    NotAllocated(u64),
    /// The range is not inside one allocation.
    #[error("range of {bytes} bytes at {address:#x} is not inside one allocation")]
    OutOfRange {
        /// Start of the range.
        address: u64,
        /// Size of the range in bytes.
        bytes: u64,
    },
}

/// Number of addresses between two allocations that belong to neither. An access there is a finding, whichever
/// allocation it came from. Addresses cost nothing, so the gap is larger than most buffers: a wrong index rarely
/// reaches the next allocation.
const GUARD: u64 = 1 << 28;
const GUARD_OF_VARIABLES: u64 = 1 << 20;
/// Alignment of small allocations by `cudaMalloc`. Large allocations start on a page.
const ALIGN_OF_BUFFERS: u64 = 512;
const LARGE: u64 = 1 << 20;
/// Allocations of at least this size are placed below the others, as CUDA does.
const VERY_LARGE: u64 = 32 << 20;
/// Device addresses lie between `LOWEST` and `HIGHEST`.
const LOWEST: u64 = 1 << 40;
const HIGHEST: u64 = 0x7fff_0000_0000;
/// The first handle of a texture, and the distance between two. No address and no small number is a handle, so that a
/// wrong argument is found.
const FIRST_TEXTURE: u64 = 0x5445_0000_0000_0000;
const BETWEEN_TEXTURES: u64 = 1 << 32;

#[derive(Debug)]
struct Allocation {
    address: u64,
    bytes: u64,
    label: String,
    data: Bytes,
    /// One state byte per byte, see [`shadow`].
    shadow: Bytes,
    /// True for the constant memory of a module.
    constant: bool,
    /// True if it is certain that every byte is defined.
    defined: bool,
    /// True for memory of the host, which may write it at any time.
    host: bool,
}

/// The memory of a virtual GPU, and the modules that are placed in it.
#[derive(Debug)]
pub struct Device {
    /// Sorted by address.
    allocations: Vec<Allocation>,
    world: World,
    pub(crate) windows: Windows,
    /// The lowest start of the next allocation, and the highest end of the next allocation below the others.
    above: u64,
    below: u64,
    /// Number of allocations so far, and number of launches so far.
    made: u64,
    pub(crate) launches: u64,
    /// Device time in nanoseconds that the launches have taken.
    pub(crate) uptime: u64,
    used: u64,
    limit: u64,
    /// Addresses of the variables of each module.
    modules: HashMap<u64, Vec<u64>>,
    /// Freed ranges, newest last, so that a finding can name a use after free.
    freed: Vec<(u64, u64, String)>,
    /// The heap of device-side `malloc`, once a kernel has used it.
    heap: Option<Heap>,
    /// The textures with the buffers of their texels. [`FIRST_TEXTURE`] is the handle of the first one.
    textures: Vec<(Texture, Buffer)>,
    /// Memory that a cooperative grid uses to synchronise its blocks.
    workspace: Option<Buffer>,
    /// What the last launch accessed, if its options asked for that.
    pub(crate) touched: Vec<Touched>,
}

/// A range of global memory that a launch accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the launch wrote the range.
    pub written: bool,
}

/// Bytes of the workspace of a grid: its size and a barrier.
const WORKSPACE: u64 = 8;

impl Default for Device {
    fn default() -> Self {
        Device::new(16 << 30)
    }
}

impl Device {
    /// Creates a device with `memory` bytes of memory.
    pub fn new(memory: u64) -> Device {
        Device::in_world(memory, World::default())
    }

    /// Creates a device with `memory` bytes of memory and the addresses of `world`.
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
            heap: None,
            textures: Vec::new(),
            workspace: None,
            touched: Vec::new(),
        }
    }

    /// Makes memory of the host accessible to kernels at `address`. All of it counts as initialised.
    ///
    /// # Safety
    ///
    /// `data` must point to `bytes` bytes that stay valid until the allocation is freed, and it must have the same
    /// remainder as `address` modulo 256.
    pub unsafe fn adopt(
        &mut self,
        address: u64,
        data: std::ptr::NonNull<u8>,
        bytes: u64,
        label: &str,
    ) -> Result<Buffer, MemoryError> {
        let end = address.checked_add(bytes).ok_or(MemoryError::OutOfRange { address, bytes })?;
        let windows = (self.windows.shared, self.windows.shared + window::ALL);
        if (address < windows.1 && windows.0 < end) || self.obstacle(address, bytes.max(1), 0).is_some() {
            return Err(MemoryError::Occupied { address, bytes });
        }
        let Some(shadow) = Bytes::defined(bytes as usize) else {
            return Err(MemoryError::OutOfMemory { wanted: bytes, free: self.limit - self.used });
        };
        let at = self.allocations.partition_point(|a| a.address < address);
        let allocation = Allocation {
            address,
            bytes,
            label: label.to_string(),
            data: Bytes::borrowed(data),
            shadow,
            constant: false,
            defined: true,
            host: true,
        };
        self.allocations.insert(at, allocation);
        Ok(Buffer(address))
    }

    /// Lets later allocations use the addresses of freed ones again. Allocations otherwise never do, so that a use after
    /// free is found.
    pub fn reuse_addresses(&mut self) {
        self.above = self.world.memory;
        self.below = self.world.memory.saturating_sub(GUARD);
    }

    /// Marks the adopted memory as initialised again: the host may have written it since the last launch.
    pub fn define_host_memory(&mut self) {
        for a in self.allocations.iter_mut().filter(|a| a.host && !a.defined) {
            // SAFETY: the shadow has as many bytes as the allocation; `&mut self` means that no launch is under way.
            unsafe { a.shadow.as_ptr().write_bytes(shadow::DEFINED, a.bytes as usize) };
            a.defined = true;
        }
    }

    /// The ranges that the last launch accessed, sorted by address, if it asked for them ([`crate::Options::touched`]).
    pub fn touched(&self) -> &[Touched] {
        &self.touched
    }

    /// Start, size and label of the allocation that contains an address.
    pub fn allocation_at(&self, address: u64) -> Option<(Buffer, u64, &str)> {
        self.find(address, 0).ok().map(|a| (Buffer(a.address), a.bytes, a.label.as_str()))
    }

    /// Changes how many bytes allocations may use together.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes.max(self.used);
    }

    /// Bytes that allocations use, and bytes of the device.
    pub fn usage(&self) -> (u64, u64) {
        (self.used, self.limit)
    }

    /// The heap of device-side `malloc`. [`Device::provide_heap`] creates it.
    pub(crate) fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()
    }

    /// The addresses of the heap, if it exists: start and size.
    pub(crate) fn heap_range(&self) -> Option<(u64, u64)> {
        self.heap.as_ref().map(|heap| (heap.base, heap::SPAN))
    }

    pub(crate) fn provide_heap(&mut self) -> Result<(), MemoryError> {
        if self.heap.is_none() {
            let wanted = heap::SPAN;
            let base = self.find_room(wanted, PAGE, GUARD);
            self.heap = base.and_then(Heap::new);
            if self.heap.is_none() {
                return Err(MemoryError::OutOfMemory { wanted, free: self.limit - self.used });
            }
        }
        Ok(())
    }

    /// The address of the workspace of a cooperative grid, with its barrier in the initial state.
    pub(crate) fn provide_workspace(&mut self) -> Result<u64, MemoryError> {
        let buffer = match self.workspace {
            Some(buffer) => buffer,
            None => self.allocate(WORKSPACE, "the grid's workspace", ALIGN, false, GUARD_OF_VARIABLES)?,
        };
        self.workspace = Some(buffer);
        self.fill(buffer, 0, WORKSPACE)?;
        Ok(buffer.0)
    }

    /// Places later allocations, and the windows of shared and local memory, according to another world. Existing
    /// allocations keep their addresses. The heap of `malloc` is empty again, as after a reset.
    pub fn move_to(&mut self, world: World) {
        self.world = world;
        self.heap = None;
        self.above = world.memory;
        self.below = world.memory.saturating_sub(GUARD);
        let mut shared = world.shared_window;
        while self.obstacle(shared, window::ALL, 0).is_some() && shared > LOWEST + window::ALL {
            shared -= window::ALL;
        }
        self.windows = Windows::at(shared, &world);
    }

    /// Allocates memory. The checks treat it as uninitialised. Findings name it by its label.
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
        self.allocations.insert(
            at,
            Allocation { address, bytes, label, data, shadow, constant, defined: false, host: false },
        );
        Ok(Buffer(address))
    }

    /// Finds an address for an allocation, at least one guard zone away from everything else.
    fn find_room(&mut self, bytes: u64, align: u64, guard: u64) -> Option<u64> {
        let chance = if self.world.gaps == 0 { 0 } else { mix(self.world.gaps, self.made) };
        self.made += 1;
        // Adds a distance between 0 and one guard zone, in steps of the allocation's alignment.
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

    /// Returns start and end of an allocation, or of the windows, that lies within `guard` bytes of a range.
    fn obstacle(&self, address: u64, bytes: u64, guard: u64) -> Option<(u64, u64)> {
        let (low, high) =
            (address.saturating_sub(guard), address.saturating_add(bytes).saturating_add(guard));
        let meets = |start: u64, end: u64| start < high && low < end;
        let windows = (self.windows.shared, self.windows.shared + window::ALL);
        if guard > 0 && meets(windows.0, windows.1) {
            return Some(windows);
        }
        if let Some((start, bytes)) = self.heap_range()
            && meets(start, start + bytes)
        {
            return Some((start, start + bytes));
        }
        // The allocations on both sides of the start address, and the allocations that the range would cover.
        let after = self.allocations.partition_point(|a| a.address <= address);
        let near = &self.allocations[after.saturating_sub(1)..];
        near.iter()
            .take_while(|a| a.address < high)
            .map(|a| (a.address, a.address + a.bytes.max(1)))
            .find(|(start, end)| meets(*start, *end))
    }

    /// Fills a new allocation with garbage: on hardware, unwritten memory holds what an earlier kernel left there.
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
            // SAFETY: inside the allocation; `&mut self` means that no launch is under way.
            unsafe { a.data.as_ptr().add(at).copy_from_nonoverlapping(chunk.as_ptr(), bytes) };
            at += bytes;
        }
    }

    /// Frees the allocation that starts at `buffer`.
    pub fn free(&mut self, buffer: Buffer) -> Result<(), MemoryError> {
        let at = self
            .allocations
            .binary_search_by_key(&buffer.0, |a| a.address)
            .map_err(|_| MemoryError::NotAllocated(buffer.0))?;
        let gone = self.allocations.remove(at);
        if !gone.host {
            self.used -= gone.bytes;
        }
        if self.freed.len() >= 1024 {
            self.freed.remove(0);
        }
        self.freed.push((gone.address, gone.bytes, gone.label));
        Ok(())
    }

    fn find(&self, address: u64, bytes: u64) -> Result<&Allocation, MemoryError> {
        self.position(address, bytes).map(|index| &self.allocations[index])
    }

    fn find_mut(&mut self, address: u64, bytes: u64) -> Result<&mut Allocation, MemoryError> {
        self.position(address, bytes).map(|index| &mut self.allocations[index])
    }

    /// The index of the allocation that contains a range.
    fn position(&self, address: u64, bytes: u64) -> Result<usize, MemoryError> {
        let after = self.allocations.partition_point(|a| a.address <= address);
        let index = after.checked_sub(1).filter(|index| {
            let a = &self.allocations[*index];
            address - a.address <= a.bytes && bytes <= a.bytes - (address - a.address)
        });
        index.ok_or(MemoryError::OutOfRange { address, bytes })
    }

    /// A launch has stored undefined values.
    pub(crate) fn has_undefined_values(&mut self) {
        for allocation in &mut self.allocations {
            allocation.defined = false;
        }
    }

    /// Copies from the host to the device. The bytes count as initialised from then on.
    pub fn write(&mut self, at: Buffer, data: &[u8]) -> Result<(), MemoryError> {
        let a = self.find_mut(at.0, data.len() as u64)?;
        let offset = (at.0 - a.address) as usize;
        // SAFETY: `find_mut` has checked the range; `&mut self` means that no launch is under way.
        unsafe {
            a.data.as_ptr().add(offset).copy_from_nonoverlapping(data.as_ptr(), data.len());
            a.shadow.as_ptr().add(offset).write_bytes(shadow::DEFINED, data.len());
        }
        a.defined |= data.len() as u64 == a.bytes;
        Ok(())
    }

    /// Copies from the device to the host.
    pub fn read(&self, at: Buffer, into: &mut [u8]) -> Result<(), MemoryError> {
        let a = self.find(at.0, into.len() as u64)?;
        let offset = (at.0 - a.address) as usize;
        // SAFETY: `find` has checked the range; launches need `&mut self`.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(a.data.as_ptr().add(offset), into.len()) };
        Ok(())
    }

    /// Sets bytes, like `cudaMemset`.
    pub fn fill(&mut self, at: Buffer, value: u8, bytes: u64) -> Result<(), MemoryError> {
        let a = self.find_mut(at.0, bytes)?;
        let offset = (at.0 - a.address) as usize;
        // Zeros take no memory.
        if value == 0
            && !a.host
            && bytes == a.bytes
            && bytes as usize >= LARGE_BYTES
            && let (Some(data), Some(shadow)) =
                (Bytes::zeroed(bytes as usize), Bytes::defined(bytes as usize))
        {
            (a.data, a.shadow, a.defined) = (data, shadow, true);
            return Ok(());
        }
        // SAFETY: as in `write`.
        unsafe {
            a.data.as_ptr().add(offset).write_bytes(value, bytes as usize);
            a.shadow.as_ptr().add(offset).write_bytes(shadow::DEFINED, bytes as usize);
        }
        a.defined |= bytes == a.bytes;
        Ok(())
    }

    /// Marks the contents as uninitialised again, without changing them (an output that is about to be poisoned).
    pub fn forget(&mut self, at: Buffer) -> Result<(), MemoryError> {
        let a = self.find_mut(at.0, 0)?;
        // SAFETY: as in `write`.
        unsafe { a.shadow.as_ptr().write_bytes(shadow::NEVER, a.bytes as usize) };
        a.defined = false;
        Ok(())
    }

    /// Creates a texture object whose texels are in a buffer, packed, with x innermost. Returns its handle: the value of
    /// a `cudaTextureObject_t` parameter.
    pub fn create_texture(&mut self, texture: Texture, texels: Buffer) -> Result<u64, TextureError> {
        texture.validate()?;
        let (wanted, given) = (texture.bytes(), self.size_of(texels)?);
        if wanted != given {
            return Err(TextureError::Buffer { wanted, given });
        }
        self.textures.push((texture, texels));
        Ok(FIRST_TEXTURE + (self.textures.len() as u64 - 1) * BETWEEN_TEXTURES)
    }

    /// The texture of a handle, and the address of its texels.
    pub(crate) fn texture(&self, handle: u64) -> Option<(Texture, u64)> {
        let distance = handle.checked_sub(FIRST_TEXTURE)?;
        self.near_texture(handle).filter(|_| distance.is_multiple_of(BETWEEN_TEXTURES))
    }

    /// The texture whose handle is at or less than 4 GiB before an address: the kernel has used it as a pointer.
    fn near_texture(&self, address: u64) -> Option<(Texture, u64)> {
        let number = address.checked_sub(FIRST_TEXTURE)? / BETWEEN_TEXTURES;
        self.textures.get(usize::try_from(number).ok()?).map(|(texture, texels)| (*texture, texels.0))
    }

    /// Returns the size in bytes of the allocation that contains `buffer`.
    pub fn size_of(&self, buffer: Buffer) -> Result<u64, MemoryError> {
        self.find(buffer.0, 0).map(|a| a.bytes)
    }

    /// Returns the address and size of a global variable of a module. Places the module first if necessary.
    pub fn symbol(&mut self, module: &Module, name: &str) -> Result<Option<(Buffer, u64)>, MemoryError> {
        let addresses = self.place(module)?;
        let found = module.variables.iter().position(|v| v.name == name);
        Ok(found.map(|i| (Buffer(addresses[i]), module.variables[i].bytes)))
    }

    /// Returns the variables of the module that kernels can write, with their addresses and sizes. Places the module
    /// first if necessary.
    pub fn variables(&mut self, module: &Module) -> Result<Vec<(String, Buffer, u64)>, MemoryError> {
        let addresses = self.place(module)?;
        let all = module.variables.iter().zip(addresses).filter(|(variable, _)| !variable.constant);
        Ok(all.map(|(variable, at)| (variable.name.clone(), Buffer(at), variable.bytes)).collect())
    }

    /// Returns the variables of the module that only the host can write (`__constant__`), like [`Device::variables`].
    pub fn constants(&mut self, module: &Module) -> Result<Vec<(String, Buffer, u64)>, MemoryError> {
        let addresses = self.place(module)?;
        let all = module.variables.iter().zip(addresses).filter(|(variable, _)| variable.constant);
        Ok(all.map(|(variable, at)| (variable.name.clone(), Buffer(at), variable.bytes)).collect())
    }

    /// Returns the names and sizes of the variables of a module that are in managed memory.
    pub fn managed(module: &Module) -> Vec<(String, u64)> {
        let managed = module.variables.iter().filter(|variable| variable.managed);
        managed.map(|variable| (variable.name.clone(), variable.bytes)).collect()
    }

    /// Places the variables of a module, some of them in allocations that exist. They get their initial values. A module
    /// that is placed already stays where it is.
    pub fn place_in(&mut self, module: &Module, given: &[(String, Buffer)]) -> Result<(), MemoryError> {
        self.place_with(module, given).map(|_| ())
    }

    /// Allocates the variables of the module and sets their initial values, once per device.
    pub(crate) fn place(&mut self, module: &Module) -> Result<Vec<u64>, MemoryError> {
        self.place_with(module, &[])
    }

    fn place_with(&mut self, module: &Module, given: &[(String, Buffer)]) -> Result<Vec<u64>, MemoryError> {
        if let Some(addresses) = self.modules.get(&module.id) {
            return Ok(addresses.clone());
        }
        let mut addresses = Vec::with_capacity(module.variables.len());
        for v in &*module.variables {
            let buffer = match given.iter().find(|(name, _)| *name == v.name) {
                Some((_, buffer)) => *buffer,
                None => {
                    self.allocate(v.bytes, &v.name, u64::from(v.align), v.constant, GUARD_OF_VARIABLES)?
                }
            };
            addresses.push(buffer.0);
        }
        self.initialise(module, &addresses)?;
        self.modules.insert(module.id, addresses.clone());
        Ok(addresses)
    }

    /// Sets the variables of a module to their initial values again, as if the module had just been loaded.
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

    /// Copies the variables of a module that kernels may write, by variable index.
    pub(crate) fn writable_state(&self, module: &Module, addresses: &[u64]) -> Vec<(usize, Vec<u8>)> {
        let writable = module.variables.iter().zip(addresses).enumerate().filter(|(_, (v, _))| !v.constant);
        writable.map(|(i, (v, base))| (i, self.bytes(*base, v.bytes).to_vec())).collect()
    }

    /// Returns the names of the variables whose contents differ from `before`.
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

    /// The contents of a range; empty if it lies in no allocation.
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
                defined: a.defined,
            })
            .collect()
    }

    /// Describes what is at or near an address, for a finding.
    pub(crate) fn describe(&self, address: u64) -> (Option<String>, String) {
        if let Some((_, texels)) = self.near_texture(address) {
            let label = self.label_at(texels).map(|(label, _)| label.to_string()).unwrap_or_default();
            let text =
                format!("the pointer is the handle of the texture `{label}`, which only fetches can read");
            return (Some(label), text);
        }
        if let Some(heap) = self.heap.as_ref().filter(|heap| heap.contains(address)) {
            return (Some("malloc".to_string()), heap.describe(address));
        }
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
