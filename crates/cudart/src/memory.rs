//! Allocations, fills, and what pointers point to.

use crate::api::{INVALID_VALUE, Outcome, check, read, write};
use crate::driver;
use crate::driver::PER_THREAD;
use crate::registration::variable;

/// `cudaExtent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pitched {
    pub address: u64,
    pub pitch: u64,
    pub width: u64,
    pub height: u64,
}

/// `cudaPointerAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointerAttributes {
    kind: u32,
    device: i32,
    device_pointer: u64,
    host_pointer: u64,
}

fn managed(place: *mut u64, bytes: u64, flags: u32) -> Outcome {
    check(driver::cuMemAllocManaged(place, bytes, flags))
}

fn attribute<T: Default>(number: u32, address: u64) -> Result<T, u32> {
    let mut value = T::default();
    check(driver::cuPointerGetAttribute((&raw mut value) as u64, number, address)).map(|()| value)
}

fn fill_3d(
    target: Pitched,
    value: i32,
    extent: Extent,
    fill: impl Fn(u64, u64, u8, u64, u64) -> u32,
) -> Outcome {
    if extent.width == 0 || extent.height == 0 {
        return Ok(());
    }
    let slice = target.pitch.checked_mul(target.height).ok_or(INVALID_VALUE)?;
    for z in 0..extent.depth {
        let at = z.checked_mul(slice).and_then(|it| it.checked_add(target.address)).ok_or(INVALID_VALUE)?;
        check(fill(at, target.pitch, value as u8, extent.width, extent.height))?;
    }
    Ok(())
}

runtime! {
    fn cudaMalloc(place: *mut u64, bytes: u64) {
        if bytes == 0 {
            return write(place, 0);
        }
        check(driver::cuMemAlloc_v2(place, bytes))
    }

    fn cudaMallocPitch(place: *mut u64, pitch: *mut u64, width: u64, height: u64) {
        if width == 0 || height == 0 {
            write(pitch, 0)?;
            return write(place, 0);
        }
        check(driver::cuMemAllocPitch_v2(place, pitch, width, height, 4))
    }

    fn cudaMalloc3D(place: *mut Pitched, extent: Extent) {
        let (mut address, mut pitch) = (0, 0);
        let rows = extent.height.checked_mul(extent.depth).ok_or(INVALID_VALUE)?;
        if extent.width > 0 && rows > 0 {
            check(driver::cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, extent.width, rows, 4))?;
        }
        write(place, Pitched { address, pitch, width: extent.width, height: extent.height })
    }

    fn cudaFree(address: u64) {
        check(driver::cuMemFree_v2(address))
    }

    fn cudaMallocHost(place: *mut u64, bytes: u64) {
        if bytes == 0 {
            return write(place, 0);
        }
        check(driver::cuMemHostAlloc(place, bytes, 0))
    }

    fn cudaHostAlloc(place: *mut u64, bytes: u64, flags: u32) {
        if bytes == 0 {
            return write(place, 0);
        }
        check(driver::cuMemHostAlloc(place, bytes, flags))
    }

    fn cudaFreeHost(address: u64) {
        check(driver::cuMemFreeHost(address))
    }

    fn cudaHostRegister(address: u64, bytes: u64, flags: u32) {
        check(driver::cuMemHostRegister_v2(address, bytes, flags))
    }

    fn cudaHostUnregister(address: u64) {
        check(driver::cuMemHostUnregister(address))
    }

    fn cudaHostGetDevicePointer(place: *mut u64, address: u64, flags: u32) {
        check(driver::cuMemHostGetDevicePointer_v2(place, address, flags))
    }

    fn cudaHostGetFlags(flags: *mut u32, address: u64) {
        check(driver::cuMemHostGetFlags(flags, address))
    }

    fn cudaMallocManaged(place: *mut u64, bytes: u64, flags: u32) {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        managed(place, bytes, flags)
    }

    fn cudaMallocAsync(place: *mut u64, bytes: u64, stream: u64) {
        if bytes == 0 {
            return write(place, 0);
        }
        check(driver::cuMemAllocAsync(place, bytes, stream))
    }

    fn cudaMallocFromPoolAsync(place: *mut u64, bytes: u64, pool: u64, stream: u64) {
        check(driver::cuMemAllocFromPoolAsync(place, bytes, pool, stream))
    }

    fn cudaFreeAsync(address: u64, stream: u64) {
        check(driver::cuMemFreeAsync(address, stream))
    }

    fn cudaMemPoolCreate(place: *mut u64, properties: u64) {
        check(driver::cuMemPoolCreate(place, properties))
    }

    fn cudaMemPoolDestroy(pool: u64) {
        check(driver::cuMemPoolDestroy(pool))
    }

    fn cudaMemPoolTrimTo(pool: u64, keep: u64) {
        check(driver::cuMemPoolTrimTo(pool, keep))
    }

    fn cudaMemPoolSetAttribute(pool: u64, attribute: u32, value: u64) {
        check(driver::cuMemPoolSetAttribute(pool, attribute, value))
    }

    fn cudaMemPoolGetAttribute(pool: u64, attribute: u32, value: u64) {
        check(driver::cuMemPoolGetAttribute(pool, attribute, value))
    }

    fn cudaMemGetInfo(free: *mut u64, total: *mut u64) {
        check(driver::cuMemGetInfo_v2(free, total))
    }

    fn cudaMemset(address: u64, value: i32, bytes: u64) {
        check(driver::cuMemsetD8_v2(address, value as u8, bytes))
    }

    fn cudaMemsetAsync(address: u64, value: i32, bytes: u64, stream: u64) {
        check(driver::cuMemsetD8Async(address, value as u8, bytes, stream))
    }

    fn cudaMemset_ptds(address: u64, value: i32, bytes: u64) {
        check(driver::cuMemsetD8Async(address, value as u8, bytes, PER_THREAD))
    }

    fn cudaMemset2D(address: u64, pitch: u64, value: i32, width: u64, height: u64) {
        check(driver::cuMemsetD2D8_v2(address, pitch, value as u8, width, height))
    }

    fn cudaMemset2DAsync(address: u64, pitch: u64, value: i32, width: u64, height: u64, stream: u64) {
        check(driver::cuMemsetD2D8Async(address, pitch, value as u8, width, height, stream))
    }

    fn cudaMemset3D(target: Pitched, value: i32, extent: Extent) {
        fill_3d(target, value, extent, driver::cuMemsetD2D8_v2)
    }

    fn cudaMemset3DAsync(target: Pitched, value: i32, extent: Extent, stream: u64) {
        fill_3d(target, value, extent, |at, pitch, value, width, height| {
            driver::cuMemsetD2D8Async(at, pitch, value, width, height, stream)
        })
    }

    fn cudaGetSymbolAddress(place: *mut u64, symbol: u64) {
        write(place, variable(symbol)?.0)
    }

    fn cudaGetSymbolSize(bytes: *mut u64, symbol: u64) {
        write(bytes, variable(symbol)?.1)
    }

    fn cudaPointerGetAttributes(place: *mut PointerAttributes, address: u64) {
        if address == 0 {
            return write(place, PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: 0 });
        }
        let attributes = match attribute::<u32>(2, address) {
            Err(INVALID_VALUE) => PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: address },
            Err(error) => return Err(error),
            Ok(kind) => {
                let is_managed = attribute::<u32>(8, address)? != 0;
                PointerAttributes {
                    kind: if is_managed { 3 } else { kind },
                    device: 0,
                    device_pointer: address,
                    host_pointer: if is_managed || kind == 1 { address } else { 0 },
                }
            }
        };
        write(place, attributes)
    }

    fn cudaMemRangeGetAttribute(data: u64, size: u64, attribute: u32, address: u64, bytes: u64) {
        check(driver::cuMemRangeGetAttribute(data, size, attribute, address, bytes))
    }

    fn cudaStreamAttachMemAsync(stream: u64, address: u64, bytes: u64, flags: u32) {
        check(driver::cuStreamAttachMemAsync(stream, address, bytes, flags))
    }

    // In CUDA 13 the fourth parameter is flags and the fifth is the stream; in CUDA 12 the fourth is the stream.
    fn cudaMemPrefetchAsync(address: u64, bytes: u64, location: u64, flags: u64, stream: u64) {
        let stream = if crate::devices::api_version() >= 13 { stream } else { flags };
        check(driver::cuMemPrefetchAsync_v2(address, bytes, location, 0, stream))
    }

    fn cudaMemPrefetchAsync_v2(address: u64, bytes: u64, location: u64, _flags: u32, stream: u64) {
        check(driver::cuMemPrefetchAsync_v2(address, bytes, location, 0, stream))
    }

    fn cudaMemAdvise(address: u64, bytes: u64, advice: u32, location: u64) {
        check(driver::cuMemAdvise_v2(address, bytes, advice, location))
    }

    fn cudaMemAdvise_v2(address: u64, bytes: u64, advice: u32, location: u64) {
        check(driver::cuMemAdvise_v2(address, bytes, advice, location))
    }
}

per_thread! {
    cudaMallocAsync_ptsz = cudaMallocAsync: (place: *mut u64, bytes: u64; stream);
    cudaFreeAsync_ptsz = cudaFreeAsync: (address: u64; stream);
    cudaMemsetAsync_ptsz = cudaMemsetAsync: (address: u64, value: i32, bytes: u64; stream);
}

/// Checks that a part of a symbol exists, and returns its address.
pub fn part_of_symbol(symbol: u64, offset: u64, bytes: u64) -> Result<u64, u32> {
    let (address, _) = variable(symbol)?;
    // The driver reports a copy that is too large, so only overflows are refused here.
    address.checked_add(offset).and_then(|start| start.checked_add(bytes)).ok_or(INVALID_VALUE)?;
    Ok(address + offset)
}

/// Reads a structure of the program.
pub fn structure<T: Copy>(at: u64) -> Result<T, u32> {
    read(at as *const T)
}
