//! The exported functions for copies and fills.

use crate::arrays::layout;
use crate::call_site::Site;
use crate::copies::Side::{Device, Host, Unified};
use crate::copies::{Copy, Copy2D, Copy3D, End, Fill};
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::memory::{Allocation, Spot};
use crate::streams::{LEGACY_HANDLE, PER_THREAD};
use crate::usable;
use crate::work::{Work, perform};

/// Runs a copy. The host waits for it, unless both ends are memory that only the device can access.
fn copy_now(copy: Copy, stream: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    crate::streams::refuse_while_capturing(&state)?;
    let key = state.stream(stream)?;
    state.copy(key, &copy)?;
    // Pinned, registered and managed memory are memory of the host too.
    let is_within = |end: &End| {
        let is_visible = state.allocation(end.address).is_some_and(Allocation::is_host_visible);
        matches!(state.spot(end.address), Spot::Device(..)) && !is_visible
    };
    if !(is_within(&copy.to) && is_within(&copy.from)) {
        state.synchronise_stream(key);
    }
    Ok(())
}

fn copy_later(copy: Copy, stream: u64) -> Outcome {
    let state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    drop(state);
    perform(key, Work::Copy(copy), Site::here())?;
    // A copy from the device to memory that is not pinned has ended when the call returns.
    if let Ok(mut state) = usable()
        && !state.streams.captures.contains_key(&key)
        && [&copy.to, &copy.from].iter().any(|end| matches!(state.spot(end.address), Spot::Host))
        && matches!(state.spot(copy.from.address), Spot::Device(..))
    {
        state.synchronise_stream(key);
    }
    Ok(())
}

fn fill_now(fill: Fill, stream: u64) -> Outcome {
    let state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    drop(state);
    perform(key, Work::Fill(fill), Site::here())
}

fn row(address: u64, value: u32, element: u64, width: u64) -> Fill {
    Fill { address, pitch: width.saturating_mul(element), value, element, width, height: 1 }
}

fn in_rows(address: u64, pitch: u64, value: u32, element: u64, width: u64, height: u64) -> Fill {
    Fill { address, pitch, value, element, width, height }
}

api! {
    fn cuMemcpy(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Unified), (from, Unified), bytes), LEGACY_HANDLE)
    }
    fn cuMemcpy_ptds(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Unified), (from, Unified), bytes), PER_THREAD)
    }
    fn cuMemcpyAsync(to: u64, from: u64, bytes: u64, stream: u64) {
        copy_later(Copy::bytes((to, Unified), (from, Unified), bytes), stream)
    }
    fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Device), (from, Host), bytes), LEGACY_HANDLE)
    }
    fn cuMemcpyHtoD_v2_ptds(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Device), (from, Host), bytes), PER_THREAD)
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        copy_later(Copy::bytes((to, Device), (from, Host), bytes), stream)
    }
    fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Host), (from, Device), bytes), LEGACY_HANDLE)
    }
    fn cuMemcpyDtoH_v2_ptds(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Host), (from, Device), bytes), PER_THREAD)
    }
    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        copy_later(Copy::bytes((to, Host), (from, Device), bytes), stream)
    }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Device), (from, Device), bytes), LEGACY_HANDLE)
    }
    fn cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Device), (from, Device), bytes), PER_THREAD)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        copy_later(Copy::bytes((to, Device), (from, Device), bytes), stream)
    }
    fn cuMemcpyPeer(to: u64, _to_context: u64, from: u64, _from_context: u64, bytes: u64) {
        copy_now(Copy::bytes((to, Device), (from, Device), bytes), LEGACY_HANDLE)
    }
    fn cuMemcpyPeerAsync(to: u64, _to_context: u64, from: u64, _from_context: u64, bytes: u64, stream: u64) {
        copy_later(Copy::bytes((to, Device), (from, Device), bytes), stream)
    }
    fn cuMemcpyHtoA_v2(array: u64, offset: u64, from: u64, bytes: u64) {
        let to = layout(array)?.0.checked_add(offset).ok_or(Status::INVALID_VALUE)?;
        copy_now(Copy::bytes((to, Device), (from, Host), bytes), LEGACY_HANDLE)
    }

    fn cuMemcpyAtoH_v2(to: u64, array: u64, offset: u64, bytes: u64) {
        let from = layout(array)?.0.checked_add(offset).ok_or(Status::INVALID_VALUE)?;
        copy_now(Copy::bytes((to, Host), (from, Device), bytes), LEGACY_HANDLE)
    }

    fn cuMemcpyDtoA_v2(array: u64, offset: u64, from: u64, bytes: u64) {
        let to = layout(array)?.0.checked_add(offset).ok_or(Status::INVALID_VALUE)?;
        copy_now(Copy::bytes((to, Device), (from, Device), bytes), LEGACY_HANDLE)
    }

    fn cuMemcpyAtoD_v2(to: u64, array: u64, offset: u64, bytes: u64) {
        let from = layout(array)?.0.checked_add(offset).ok_or(Status::INVALID_VALUE)?;
        copy_now(Copy::bytes((to, Device), (from, Device), bytes), LEGACY_HANDLE)
    }

    fn cuMemcpy2D_v2(copy: *const Copy2D) {
        copy_now(Copy::from_2d(&guest::read(copy)?)?, LEGACY_HANDLE)
    }
    fn cuMemcpy2DUnaligned_v2(copy: *const Copy2D) {
        copy_now(Copy::from_2d(&guest::read(copy)?)?, LEGACY_HANDLE)
    }
    fn cuMemcpy2DAsync_v2(copy: *const Copy2D, stream: u64) {
        copy_later(Copy::from_2d(&guest::read(copy)?)?, stream)
    }
    fn cuMemcpy3D_v2(copy: *const Copy3D) {
        copy_now(Copy::from_3d(&guest::read(copy)?)?, LEGACY_HANDLE)
    }
    fn cuMemcpy3DAsync_v2(copy: *const Copy3D, stream: u64) {
        copy_later(Copy::from_3d(&guest::read(copy)?)?, stream)
    }
    fn cuMemsetD8_v2(address: u64, value: u8, count: u64) {
        fill_now(row(address, value.into(), 1, count), LEGACY_HANDLE)
    }
    fn cuMemsetD16_v2(address: u64, value: u16, count: u64) {
        fill_now(row(address, value.into(), 2, count), LEGACY_HANDLE)
    }
    fn cuMemsetD32_v2(address: u64, value: u32, count: u64) {
        fill_now(row(address, value, 4, count), LEGACY_HANDLE)
    }
    fn cuMemsetD8Async(address: u64, value: u8, count: u64, stream: u64) {
        fill_now(row(address, value.into(), 1, count), stream)
    }
    fn cuMemsetD16Async(address: u64, value: u16, count: u64, stream: u64) {
        fill_now(row(address, value.into(), 2, count), stream)
    }
    fn cuMemsetD32Async(address: u64, value: u32, count: u64, stream: u64) {
        fill_now(row(address, value, 4, count), stream)
    }
    fn cuMemsetD2D8_v2(address: u64, pitch: u64, value: u8, width: u64, height: u64) {
        fill_now(in_rows(address, pitch, value.into(), 1, width, height), LEGACY_HANDLE)
    }
    fn cuMemsetD2D16_v2(address: u64, pitch: u64, value: u16, width: u64, height: u64) {
        fill_now(in_rows(address, pitch, value.into(), 2, width, height), LEGACY_HANDLE)
    }
    fn cuMemsetD2D32_v2(address: u64, pitch: u64, value: u32, width: u64, height: u64) {
        fill_now(in_rows(address, pitch, value, 4, width, height), LEGACY_HANDLE)
    }
    fn cuMemsetD2D8Async(address: u64, pitch: u64, value: u8, width: u64, height: u64, stream: u64) {
        fill_now(in_rows(address, pitch, value.into(), 1, width, height), stream)
    }
    fn cuMemsetD2D16Async(address: u64, pitch: u64, value: u16, width: u64, height: u64, stream: u64) {
        fill_now(in_rows(address, pitch, value.into(), 2, width, height), stream)
    }
    fn cuMemsetD2D32Async(address: u64, pitch: u64, value: u32, width: u64, height: u64, stream: u64) {
        fill_now(in_rows(address, pitch, value, 4, width, height), stream)
    }
}

per_thread! {
    cuMemcpyAsync_ptsz = cuMemcpyAsync: (to: u64, from: u64, bytes: u64; stream);
    cuMemcpyHtoDAsync_v2_ptsz = cuMemcpyHtoDAsync_v2: (to: u64, from: u64, bytes: u64; stream);
    cuMemcpyDtoHAsync_v2_ptsz = cuMemcpyDtoHAsync_v2: (to: u64, from: u64, bytes: u64; stream);
    cuMemcpyDtoDAsync_v2_ptsz = cuMemcpyDtoDAsync_v2: (to: u64, from: u64, bytes: u64; stream);
    cuMemsetD8Async_ptsz = cuMemsetD8Async: (address: u64, value: u8, count: u64; stream);
    cuMemsetD16Async_ptsz = cuMemsetD16Async: (address: u64, value: u16, count: u64; stream);
    cuMemsetD32Async_ptsz = cuMemsetD32Async: (address: u64, value: u32, count: u64; stream);
}
