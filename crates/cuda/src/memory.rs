//! Allocations: device memory, managed memory, pinned and registered memory of the host.

use std::ptr::NonNull;

use execlog::HostKind;

use crate::api::current_call;
use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::host_memory::Shared;
use crate::order::Use;
use crate::streams::{self, PER_THREAD};
use crate::{RESERVED, State, usable};

/// What an allocation is.
#[derive(Debug)]
pub enum Kind {
    /// Memory of the device.
    Device,
    /// Memory of a pool.
    Pool(u64),
    /// Managed memory.
    Managed(Shared),
    /// Pinned memory, with the flags of its allocation.
    Pinned(Shared, u32),
    /// Memory of the program that it registered.
    Registered(u32),
}

/// Memory that the program has allocated.
#[derive(Debug)]
pub struct Allocation {
    pub address: u64,
    pub bytes: u64,
    pub kind: Kind,
    /// Its number among all allocations, from 1.
    pub number: u64,
    /// The name, if it is a variable of a module. The program does not free it.
    pub variable: Option<String>,
    /// The function that allocated it, and where it was called.
    pub call: &'static str,
    pub site: Site,
}

/// Memory that the program has freed.
#[derive(Clone, Debug)]
pub struct Freed {
    pub bytes: u64,
    pub label: String,
    pub site: Site,
    pub allocated: Site,
}

/// What is at an address.
#[derive(Debug)]
pub enum Spot {
    /// Memory that kernels can access: start, size and name of the allocation.
    Device(u64, u64, String),
    /// Freed memory, with the start of the allocation.
    Freed(u64, Freed),
    /// An address of the device where nothing is.
    Nothing,
    /// Memory of the host.
    Host,
}

/// The alignment of rows of two-dimensional allocations.
const PITCH: u64 = 512;

impl Allocation {
    /// The name in findings.
    pub fn label(&self) -> String {
        match &self.variable {
            Some(name) => format!("variable `{name}`"),
            None => format!("allocation #{}", self.number),
        }
    }

    pub fn size_text(&self) -> String {
        if self.bytes == 1 { "1 byte".to_owned() } else { format!("{} bytes", self.bytes) }
    }

    /// Whether the program should have freed it.
    pub fn is_leak(&self) -> bool {
        self.variable.is_none()
            && matches!(self.kind, Kind::Device | Kind::Pool(_) | Kind::Managed(_) | Kind::Pinned(..))
    }

    /// Whether host code can access it.
    pub fn is_host_visible(&self) -> bool {
        matches!(self.kind, Kind::Managed(_) | Kind::Pinned(..) | Kind::Registered(_))
    }

    /// Its two mappings, if it has them.
    pub fn shared(&self) -> Option<&Shared> {
        match &self.kind {
            Kind::Managed(shared) | Kind::Pinned(shared, _) => Some(shared),
            _ => None,
        }
    }
}

impl State {
    /// What is at an address.
    pub fn spot(&self, address: u64) -> Spot {
        // The address after the last byte belongs to an allocation of the device, but not to one of the host: other
        // memory may follow there.
        if let Some((start, bytes, label)) = self.memory.allocation_at(address)
            && (address < start.0 + bytes || RESERVED.contains(&address))
        {
            return Spot::Device(start.0, bytes, label.to_owned());
        }
        if let Some((start, freed)) = self.freed.range(..=address).next_back()
            && address - start < freed.bytes.max(1)
            && RESERVED.contains(&address)
        {
            return Spot::Freed(*start, freed.clone());
        }
        if RESERVED.contains(&address) { Spot::Nothing } else { Spot::Host }
    }

    /// The allocation that contains an address.
    pub fn allocation(&self, address: u64) -> Option<&Allocation> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.bytes.max(1)).then_some(allocation)
    }

    fn remember(&mut self, address: u64, bytes: u64, kind: Kind) {
        let (number, call, site) = (self.allocated, current_call(), Site::here());
        self.freed.remove(&address);
        let allocation = Allocation { address, bytes, kind, number, variable: None, call, site };
        self.allocations.insert(address, allocation);
    }

    /// Allocates memory of the device, or of a pool.
    pub fn allocate(&mut self, bytes: u64, kind: Kind) -> Result<u64, Status> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        self.allocated += 1;
        let label = format!("allocation #{}", self.allocated);
        let first = self.memory.alloc(bytes, &label).map_err(|_| Status::OUT_OF_MEMORY)?;
        let mut address = first.0;
        if address.saturating_add(bytes) > RESERVED.end || address < RESERVED.start {
            // The addresses are used up. From now on those of freed memory are used again.
            self.memory.free(first).map_err(|_| Status::OUT_OF_MEMORY)?;
            self.memory.reuse_addresses();
            self.freed.clear();
            address = self.memory.alloc(bytes, &label).map_err(|_| Status::OUT_OF_MEMORY)?.0;
        }
        self.remember(address, bytes, kind);
        Ok(address)
    }

    /// Allocates memory that the host can access too.
    pub fn allocate_shared(&mut self, bytes: u64, kind: impl FnOnce(Shared) -> Kind) -> Result<u64, Status> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let shared = Shared::new(bytes).ok_or(Status::OUT_OF_MEMORY)?;
        self.allocated += 1;
        let (address, label) = (shared.address(), format!("allocation #{}", self.allocated));
        // SAFETY: the mapping lives until `release` has freed the allocation; both mappings start with a page.
        unsafe { self.memory.adopt(address, shared.library(), bytes, &label) }
            .map_err(|_| Status::OUT_OF_MEMORY)?;
        self.remember(address, bytes, kind(shared));
        Ok(address)
    }

    /// Allocates a variable in managed memory.
    pub fn allocate_variable(&mut self, name: &str, bytes: u64) -> Result<u64, Status> {
        let address = self.allocate_shared(bytes.max(1), Kind::Managed)?;
        if let Some(allocation) = self.allocations.get_mut(&address) {
            allocation.variable = Some(name.to_owned());
        }
        Ok(address)
    }

    /// Frees the allocation that starts at an address.
    pub fn release(&mut self, address: u64) -> Outcome {
        let allocation = self.allocations.remove(&address).ok_or(Status::INVALID_VALUE)?;
        let _ = self.memory.free(vgpu::Buffer(address));
        self.order.forget(address);
        let (bytes, label) = (allocation.bytes, allocation.label());
        self.freed.insert(address, Freed { bytes, label, site: Site::here(), allocated: allocation.site });
        Ok(())
    }

    /// Checks that an address is the start of an allocation, and reports it if not.
    pub fn require_start(&mut self, address: u64) -> Outcome {
        match self.allocations.get(&address).map(|it| &it.variable) {
            Some(None) => return Ok(()),
            Some(Some(name)) => {
                let message = format!("`{name}` is a variable, not an allocation");
                self.report(HostKind::InvalidFree, message);
                return Err(Status::INVALID_VALUE);
            }
            None => {}
        }
        match self.spot(address) {
            Spot::Freed(start, freed) if start == address => {
                let related = vec![
                    ("it was freed here before".to_owned(), freed.site),
                    ("it was allocated here".to_owned(), freed.allocated),
                ];
                self.report_with(HostKind::DoubleFree, format!("{} is freed twice", freed.label), related);
            }
            Spot::Device(start, bytes, label) => {
                let message = format!(
                    "the address is {} bytes into {label} ({bytes} bytes), not its start",
                    address - start
                );
                self.report(HostKind::InvalidFree, message);
            }
            Spot::Host => {
                let message = format!("{address:#x} is memory of the host that CUDA did not allocate");
                self.report(HostKind::InvalidFree, message);
            }
            _ => self.report(HostKind::InvalidFree, format!("no allocation starts at {address:#x}")),
        }
        Err(Status::INVALID_VALUE)
    }

    /// As [`State::report`], with other places.
    pub fn report_with(&mut self, kind: HostKind, message: String, related: Vec<(String, Site)>) {
        if self.is_checked() {
            self.findings.host_with(kind, vgpu::Severity::Error, message, &Site::here(), related);
        }
    }

    /// Forgets everything, as a reset of the device does.
    pub fn reset(&mut self) {
        let allocations = self.allocations.values().filter(|it| it.variable.is_none());
        let addresses: Vec<u64> = allocations.map(|it| it.address).collect();
        for address in addresses {
            let _ = self.release(address);
        }
        self.fault = None;
    }
}

/// Frees device memory after all operations have ended, as CUDA does.
fn free(address: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    if address == 0 {
        return Ok(());
    }
    streams::refuse_while_capturing(&state)?;
    state.require_start(address)?;
    let kind = state.allocations.get(&address).map(|it| &it.kind);
    if matches!(kind, Some(Kind::Pinned(..) | Kind::Registered(_))) {
        state.report(HostKind::InvalidFree, "pinned memory is freed as device memory".to_owned());
        return Err(Status::INVALID_VALUE);
    }
    state.synchronise_device();
    state.release(address)
}

fn allocate(place: *mut u64, bytes: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    guest::write(place, 0)?;
    streams::refuse_while_capturing(&state)?;
    let address = state.allocate(bytes, Kind::Device)?;
    guest::write(place, address)
}

fn allocate_pinned(place: *mut u64, bytes: u64, flags: u32) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    if flags & !7 != 0 {
        return Err(Status::INVALID_VALUE);
    }
    guest::write(place, 0)?;
    let address = state.allocate_shared(bytes, |shared| Kind::Pinned(shared, flags))?;
    guest::write(place, address)
}

fn register(address: u64, bytes: u64, flags: u32) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    let end = address.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
    if address == 0 || bytes == 0 || flags & !0xf != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if end > RESERVED.start && address < RESERVED.end {
        return Err(Status::INVALID_VALUE);
    }
    // Every page must exist, because a kernel that reads one that does not would crash the process.
    let pages = (address / 4096..=(end - 1) / 4096).map(|page| (page * 4096).max(address));
    let mut byte = [0u8];
    if pages.into_iter().any(|at| guest::read_bytes(at, &mut byte).is_err()) {
        return Err(Status::INVALID_VALUE);
    }
    state.allocated += 1;
    let label = format!("allocation #{}", state.allocated);
    let data = NonNull::new(address as *mut u8).ok_or(Status::INVALID_VALUE)?;
    // SAFETY: the program says that the memory stays until it unregisters it. The device address is the same.
    unsafe { state.memory.adopt(address, data, bytes, &label) }
        .map_err(|_| Status::HOST_MEMORY_ALREADY_REGISTERED)?;
    state.remember(address, bytes, Kind::Registered(flags));
    Ok(())
}

api! {
    fn cuMemGetInfo_v2(free: *mut u64, total: *mut u64) {
        let state = usable()?;
        state.require_context()?;
        let (used, limit) = state.memory.usage();
        guest::write_optional(free, limit - used)?;
        guest::write_optional(total, limit)
    }

    fn cuMemAlloc_v2(place: *mut u64, bytes: u64) {
        allocate(place, bytes)
    }

    fn cuMemAllocPitch_v2(place: *mut u64, pitch: *mut u64, width: u64, height: u64, element: u32) {
        if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Status::INVALID_VALUE)?;
        guest::write(pitch, row)?;
        allocate(place, row.checked_mul(height).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuMemFree_v2(address: u64) {
        free(address)
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut u64, address: u64) {
        let state = usable()?;
        let Spot::Device(start, size, _) = state.spot(address) else { return Err(Status::NOT_FOUND) };
        guest::write_optional(base, start)?;
        guest::write_optional(bytes, size)
    }

    fn cuMemAllocHost_v2(place: *mut u64, bytes: u64) {
        allocate_pinned(place, bytes, 0)
    }

    fn cuMemHostAlloc(place: *mut u64, bytes: u64, flags: u32) {
        allocate_pinned(place, bytes, flags)
    }

    fn cuMemFreeHost(address: u64) {
        let mut state = usable()?;
        state.require_context()?;
        if address == 0 {
            return Ok(());
        }
        match state.allocations.get(&address).map(|it| &it.kind) {
            Some(Kind::Pinned(..)) => {}
            Some(_) => {
                state.report(HostKind::InvalidFree, "device memory is freed as pinned memory".to_owned());
                return Err(Status::INVALID_VALUE);
            }
            None => {
                state.require_start(address)?;
                return Err(Status::INVALID_VALUE);
            }
        }
        state.synchronise_device();
        state.release(address)
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut u64, address: u64, _flags: u32) {
        let state = usable()?;
        let visible = state.allocation(address).is_some_and(Allocation::is_host_visible);
        if !visible {
            return Err(Status::INVALID_VALUE);
        }
        guest::write(device, address)
    }

    fn cuMemHostGetFlags(flags: *mut u32, address: u64) {
        let state = usable()?;
        match state.allocation(address).map(|it| &it.kind) {
            Some(Kind::Pinned(_, set)) => guest::write(flags, *set | 2),
            Some(Kind::Registered(set)) => guest::write(flags, *set),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn cuMemAllocManaged(place: *mut u64, bytes: u64, flags: u32) {
        let mut state = usable()?;
        state.require_context()?;
        if flags != 1 && flags != 2 {
            return Err(Status::INVALID_VALUE);
        }
        guest::write(place, 0)?;
        let address = state.allocate_shared(bytes, Kind::Managed)?;
        guest::write(place, address)
    }

    fn cuMemHostRegister_v2(address: u64, bytes: u64, flags: u32) {
        register(address, bytes, flags)
    }

    fn cuMemHostUnregister(address: u64) {
        let mut state = usable()?;
        state.require_context()?;
        let is_registered =
            matches!(state.allocations.get(&address).map(|it| &it.kind), Some(Kind::Registered(_)));
        if !is_registered {
            return Err(Status::HOST_MEMORY_NOT_REGISTERED);
        }
        state.synchronise_device();
        state.release(address)
    }

    fn cuMemAdvise_v2(address: u64, _bytes: u64, _advice: u32, _location: u64) {
        let state = usable()?;
        match state.spot(address) {
            Spot::Device(..) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn cuMemAdvise(address: u64, _bytes: u64, _advice: u32, _device: i32) {
        let state = usable()?;
        match state.spot(address) {
            Spot::Device(..) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn cuMemPrefetchAsync_v2(address: u64, bytes: u64, _location: u64, _flags: u32, stream: u64) {
        let mut state = usable()?;
        let stream = state.stream(stream)?;
        prefetch(&mut state, stream, address, bytes)
    }

    fn cuMemPrefetchAsync(address: u64, bytes: u64, _device: i32, stream: u64) {
        let mut state = usable()?;
        let stream = state.stream(stream)?;
        prefetch(&mut state, stream, address, bytes)
    }

    fn cuMemRangeGetAttribute(data: *mut u32, size: u64, _attribute: u32, address: u64, _bytes: u64) {
        let state = usable()?;
        if !state.allocation(address).is_some_and(|it| matches!(it.kind, Kind::Managed(_))) || size < 4 {
            return Err(Status::INVALID_VALUE);
        }
        guest::write(data, 0)
    }

    fn cuStreamAttachMemAsync(stream: u64, address: u64, _bytes: u64, _flags: u32) {
        let state = usable()?;
        state.stream(stream)?;
        match state.spot(address) {
            Spot::Device(..) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// A prefetch moves nothing here, but it must name managed memory.
fn prefetch(state: &mut State, stream: streams::Key, address: u64, bytes: u64) -> Outcome {
    let allocation = state.allocation(address).ok_or(Status::INVALID_VALUE)?;
    let fits = (address - allocation.address).saturating_add(bytes) <= allocation.bytes;
    if !fits || !matches!(allocation.kind, Kind::Managed(_)) {
        return Err(Status::INVALID_VALUE);
    }
    state.begin_operation(stream, &[] as &[Use]);
    Ok(())
}

per_thread! {
    cuMemPrefetchAsync_v2_ptsz = cuMemPrefetchAsync_v2: (address: u64, bytes: u64, location: u64, flags: u32; stream);
}
