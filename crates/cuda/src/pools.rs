//! Memory pools: allocations and frees in the order of a stream.

use std::collections::HashMap;

use crate::call_site::Site;
use crate::devices::require_device;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::memory::Kind;
use crate::order::Use;
use crate::streams::{Key, PER_THREAD};
use crate::work::{Work, perform};
use crate::{State, usable};

/// A memory pool. It only has attributes: its memory is allocated like all memory of the device.
#[derive(Debug, Default)]
pub struct Pool {
    attributes: HashMap<u32, u64>,
}

impl State {
    /// Frees memory as an operation of a stream. All uses of the memory must be ordered before it.
    pub fn free_in_order(&mut self, stream: Key, address: u64) -> Outcome {
        let bytes = self.allocations.get(&address).map_or(0, |it| it.bytes);
        // A free counts as a write of all bytes.
        self.begin_operation(stream, &[Use::new(address, bytes, true)]);
        self.release(address)
    }
}

fn allocate(place: *mut u64, bytes: u64, pool: Option<u64>, stream: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    let pool = pool.unwrap_or(state.default_pool);
    state.pools.get(pool)?;
    guest::write(place, 0)?;
    if state.streams.captures.contains_key(&key) {
        return Err(crate::missing::unsupported("allocations in a capture"));
    }
    let address = state.allocate(bytes, Kind::Pool(pool))?;
    // An allocation counts as a write too: other streams must be ordered after it before they use the memory.
    state.begin_operation(key, &[Use::new(address, bytes, true)]);
    guest::write(place, address)
}

fn free(address: u64, stream: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    if address == 0 {
        return Ok(());
    }
    state.require_start(address)?;
    drop(state);
    perform(key, Work::Free(address), Site::here())
}

fn default_pool(place: *mut u64, device: i32) -> Outcome {
    let state = usable()?;
    require_device(device)?;
    guest::write(place, state.default_pool)
}

api! {
    fn cuMemAllocAsync(place: *mut u64, bytes: u64, stream: u64) {
        allocate(place, bytes, None, stream)
    }

    fn cuMemAllocAsync_ptsz(place: *mut u64, bytes: u64, stream: u64) {
        allocate(place, bytes, None, if stream == 0 { PER_THREAD } else { stream })
    }

    fn cuMemAllocFromPoolAsync(place: *mut u64, bytes: u64, pool: u64, stream: u64) {
        allocate(place, bytes, Some(pool), stream)
    }

    fn cuMemFreeAsync(address: u64, stream: u64) {
        free(address, stream)
    }

    fn cuMemFreeAsync_ptsz(address: u64, stream: u64) {
        free(address, if stream == 0 { PER_THREAD } else { stream })
    }

    fn cuMemPoolCreate(place: *mut u64, properties: *const [u64; 8]) {
        let mut state = usable()?;
        guest::read(properties)?;
        guest::write(place, 0)?;
        let handle = state.pools.add(Pool::default());
        guest::write(place, handle)
    }

    fn cuMemPoolDestroy(pool: u64) {
        let mut state = usable()?;
        if pool == state.default_pool {
            return Err(Status::INVALID_VALUE);
        }
        state.pools.remove(pool).map(|_| ())
    }

    fn cuMemPoolTrimTo(pool: u64, _keep: u64) {
        usable()?.pools.get(pool).map(|_| ())
    }

    fn cuMemPoolSetAttribute(pool: u64, attribute: u32, value: *const u64) {
        let mut state = usable()?;
        let pool = state.pools.get_mut(pool)?;
        // The first three are of type int.
        let value = if attribute <= 3 { u64::from(guest::read(value.cast::<u32>())?) } else { guest::read(value)? };
        pool.attributes.insert(attribute, value);
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut u64) {
        let state = usable()?;
        let found = state.pools.get(pool)?;
        let used: u64 = state
            .allocations
            .values()
            .filter(|it| matches!(it.kind, Kind::Pool(of) if of == pool))
            .map(|it| it.bytes)
            .sum();
        match attribute {
            1..=3 => guest::write(value.cast::<u32>(), found.attributes.get(&attribute).map_or(1, |it| *it as u32)),
            4 => guest::write(value, found.attributes.get(&attribute).copied().unwrap_or(0)),
            5..=8 => guest::write(value, used),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAccess(pool: u64, _access: u64, _count: u64) {
        usable()?.pools.get(pool).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: *mut u32, pool: u64, _location: u64) {
        usable()?.pools.get(pool)?;
        guest::write(flags, 3)
    }

    fn cuDeviceGetDefaultMemPool(place: *mut u64, device: i32) {
        default_pool(place, device)
    }

    fn cuDeviceGetMemPool(place: *mut u64, device: i32) {
        default_pool(place, device)
    }

    fn cuDeviceSetMemPool(device: i32, pool: u64) {
        require_device(device)?;
        usable()?.pools.get(pool).map(|_| ())
    }
}
