//! Copies.

use crate::api::{INVALID_DIRECTION, INVALID_VALUE, Outcome, check};
use crate::driver;
use crate::driver::PER_THREAD;
use crate::memory::{Extent, Pitched, part_of_symbol, structure};
use crate::texels::texel_bytes;

/// Directions of `cudaMemcpyKind`.
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

/// The driver's kind of memory for arrays.
const ARRAY: u32 = 3;

/// Where a copy runs.
#[derive(Clone, Copy)]
enum When {
    Now,
    /// At once, on the calling thread's default stream, for which the host waits.
    NowPerThread,
    Later(u64),
}

fn copy(to: u64, from: u64, bytes: u64, kind: u32, when: When) -> Outcome {
    use When::{Later, Now, NowPerThread};
    let result = match (kind, when) {
        (HOST_TO_DEVICE, Now) => driver::cuMemcpyHtoD_v2(to, from, bytes),
        (HOST_TO_DEVICE, NowPerThread) => driver::cuMemcpyHtoD_v2_ptds(to, from, bytes),
        (HOST_TO_DEVICE, Later(stream)) => driver::cuMemcpyHtoDAsync_v2(to, from, bytes, stream),
        (DEVICE_TO_HOST, Now) => driver::cuMemcpyDtoH_v2(to, from, bytes),
        (DEVICE_TO_HOST, NowPerThread) => driver::cuMemcpyDtoH_v2_ptds(to, from, bytes),
        (DEVICE_TO_HOST, Later(stream)) => driver::cuMemcpyDtoHAsync_v2(to, from, bytes, stream),
        (DEVICE_TO_DEVICE, Now) => driver::cuMemcpyDtoD_v2(to, from, bytes),
        (DEVICE_TO_DEVICE, NowPerThread) => driver::cuMemcpyDtoD_v2_ptds(to, from, bytes),
        (DEVICE_TO_DEVICE, Later(stream)) => driver::cuMemcpyDtoDAsync_v2(to, from, bytes, stream),
        (HOST_TO_HOST | DEFAULT, Now) => driver::cuMemcpy(to, from, bytes),
        (HOST_TO_HOST | DEFAULT, NowPerThread) => driver::cuMemcpy_ptds(to, from, bytes),
        (HOST_TO_HOST | DEFAULT, Later(stream)) => driver::cuMemcpyAsync(to, from, bytes, stream),
        _ => return Err(INVALID_DIRECTION),
    };
    check(result)
}

/// `CUDA_MEMCPY3D` for ranges that are not arrays.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct DriverCopy {
    from: DriverEnd,
    to: DriverEnd,
    width: u64,
    height: u64,
    depth: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct DriverEnd {
    x: u64,
    y: u64,
    z: u64,
    lod: u64,
    kind: u32,
    padding: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: u64,
    height: u64,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3D {
    from_array: u64,
    from_start: [u64; 3],
    from: Pitched,
    to_array: u64,
    to_start: [u64; 3],
    to: Pitched,
    extent: Extent,
    kind: u32,
}

fn end(pitched: Pitched, start: [u64; 3], is_host: bool, is_unified: bool) -> DriverEnd {
    let kind = if is_unified { 4 } else { 1 + u32::from(!is_host) };
    let (host, device) = if is_host && !is_unified { (pitched.address, 0) } else { (0, pitched.address) };
    let [x, y, z] = start;
    DriverEnd {
        x,
        y,
        z,
        kind,
        host,
        device,
        pitch: pitched.pitch,
        height: pitched.height,
        ..DriverEnd::default()
    }
}

/// The driver's form of a copy in three dimensions.
pub fn driver_copy_3d(copy: &Copy3D) -> Result<[u8; size_of::<[u64; 25]>()], u32> {
    if copy.kind > DEFAULT {
        return Err(INVALID_DIRECTION);
    }
    let is_unified = copy.kind == DEFAULT || copy.kind == HOST_TO_HOST;
    let from_host = copy.kind == HOST_TO_DEVICE;
    let to_host = copy.kind == DEVICE_TO_HOST;
    let Extent { width, height, depth } = copy.extent;
    // If an array takes part, widths and offsets in it are in texels.
    let texel = |array| if array == 0 { Ok(1) } else { texel_bytes(array) };
    let unit = texel(copy.from_array)?.max(texel(copy.to_array)?);
    let width = width.checked_mul(unit).ok_or(INVALID_VALUE)?;
    let in_array = |array, [x, y, z]: [u64; 3]| DriverEnd {
        x: x.saturating_mul(unit),
        y,
        z,
        kind: ARRAY,
        array,
        ..DriverEnd::default()
    };
    let from = match copy.from_array {
        0 => end(copy.from, copy.from_start, from_host, is_unified),
        array => in_array(array, copy.from_start),
    };
    let to = match copy.to_array {
        0 => end(copy.to, copy.to_start, to_host, is_unified),
        array => in_array(array, copy.to_start),
    };
    let copy = DriverCopy { from, to, width, height, depth };
    // SAFETY: both have the same size, and the structure has numbers only.
    Ok(unsafe { std::mem::transmute::<DriverCopy, [u8; size_of::<[u64; 25]>()]>(copy) })
}

const _: () = assert!(size_of::<DriverCopy>() == 200);

fn copy_2d(
    to: (u64, u64),
    from: (u64, u64),
    width: u64,
    height: u64,
    kind: u32,
    stream: Option<u64>,
) -> Outcome {
    let pitched = |(address, pitch)| Pitched { address, pitch, width, height };
    if height > 1 && (to.1 < width || from.1 < width) {
        return Err(12); // cudaErrorInvalidPitchValue
    }
    let copy = Copy3D {
        from_array: 0,
        from_start: [0; 3],
        from: pitched(from),
        to_array: 0,
        to_start: [0; 3],
        to: pitched(to),
        extent: Extent { width, height, depth: 1 },
        kind,
    };
    copy_3d(&copy, stream)
}

/// A place in an array, in bytes and rows.
#[derive(Clone, Copy, Debug)]
pub struct ArrayEnd {
    pub array: u64,
    pub x: u64,
    pub y: u64,
    pub is_target: bool,
}

/// Copies rows to an array or from one.
pub fn copy_array(
    place: ArrayEnd,
    (address, pitch): (u64, u64),
    width: u64,
    height: u64,
    kind: u32,
    stream: Option<u64>,
) -> Outcome {
    if kind > DEFAULT {
        return Err(INVALID_DIRECTION);
    }
    let ArrayEnd { array, x, y, is_target } = place;
    let is_host = kind == if is_target { HOST_TO_DEVICE } else { DEVICE_TO_HOST };
    let memory = end(Pitched { address, pitch, width, height }, [0; 3], is_host, kind == DEFAULT);
    let array = DriverEnd { x, y, kind: ARRAY, array, ..DriverEnd::default() };
    let (from, to) = if is_target { (memory, array) } else { (array, memory) };
    let copy = DriverCopy { from, to, width, height, depth: 1 };
    let at = (&raw const copy) as u64;
    check(match stream {
        None => driver::cuMemcpy3D_v2(at),
        Some(stream) => driver::cuMemcpy3DAsync_v2(at, stream),
    })
}

fn copy_3d(copy: &Copy3D, stream: Option<u64>) -> Outcome {
    let copy = driver_copy_3d(copy)?;
    let at = copy.as_ptr() as u64;
    check(match stream {
        None => driver::cuMemcpy3D_v2(at),
        Some(stream) => driver::cuMemcpy3DAsync_v2(at, stream),
    })
}

fn to_symbol(symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32, when: When) -> Outcome {
    if ![HOST_TO_DEVICE, DEVICE_TO_DEVICE, DEFAULT].contains(&kind) {
        return Err(INVALID_DIRECTION);
    }
    copy(part_of_symbol(symbol, offset, bytes)?, from, bytes, kind, when)
}

fn from_symbol(to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32, when: When) -> Outcome {
    if ![DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT].contains(&kind) {
        return Err(INVALID_DIRECTION);
    }
    copy(to, part_of_symbol(symbol, offset, bytes)?, bytes, kind, when)
}

runtime! {
    fn cudaMemcpy(to: u64, from: u64, bytes: u64, kind: u32) {
        copy(to, from, bytes, kind, When::Now)
    }
    fn cudaMemcpy_ptds(to: u64, from: u64, bytes: u64, kind: u32) {
        copy(to, from, bytes, kind, When::NowPerThread)
    }
    fn cudaMemcpyAsync(to: u64, from: u64, bytes: u64, kind: u32, stream: u64) {
        copy(to, from, bytes, kind, When::Later(stream))
    }
    fn cudaMemcpyPeer(to: u64, _to_device: i32, from: u64, _from_device: i32, bytes: u64) {
        copy(to, from, bytes, DEVICE_TO_DEVICE, When::Now)
    }
    fn cudaMemcpyPeerAsync(to: u64, _to_device: i32, from: u64, _from_device: i32, bytes: u64, stream: u64) {
        copy(to, from, bytes, DEVICE_TO_DEVICE, When::Later(stream))
    }
    fn cudaMemcpy2D(to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: u32) {
        copy_2d((to, to_pitch), (from, from_pitch), width, height, kind, None)
    }
    fn cudaMemcpy2DAsync(
        to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: u32, stream: u64,
    ) {
        copy_2d((to, to_pitch), (from, from_pitch), width, height, kind, Some(stream))
    }
    fn cudaMemcpy3D(parameters: u64) {
        copy_3d(&structure(parameters)?, None)
    }
    fn cudaMemcpy3DAsync(parameters: u64, stream: u64) {
        copy_3d(&structure(parameters)?, Some(stream))
    }
    fn cudaMemcpyToSymbol(symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32) {
        to_symbol(symbol, from, bytes, offset, kind, When::Now)
    }
    fn cudaMemcpyToSymbol_ptds(symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32) {
        to_symbol(symbol, from, bytes, offset, kind, When::NowPerThread)
    }
    fn cudaMemcpyFromSymbol(to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32) {
        from_symbol(to, symbol, bytes, offset, kind, When::Now)
    }
    fn cudaMemcpyFromSymbol_ptds(to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32) {
        from_symbol(to, symbol, bytes, offset, kind, When::NowPerThread)
    }
    fn cudaMemcpyToSymbolAsync(symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32, stream: u64) {
        to_symbol(symbol, from, bytes, offset, kind, When::Later(stream))
    }
    fn cudaMemcpyFromSymbolAsync(to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32, stream: u64) {
        from_symbol(to, symbol, bytes, offset, kind, When::Later(stream))
    }
}

per_thread! {
    cudaMemcpyAsync_ptsz = cudaMemcpyAsync: (to: u64, from: u64, bytes: u64, kind: u32; stream);
    cudaMemcpy2DAsync_ptsz = cudaMemcpy2DAsync:
        (to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: u32; stream);
}

/// `cudaMemcpy2D` on the calling thread's default stream.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy2D_ptds(
    to: u64,
    to_pitch: u64,
    from: u64,
    from_pitch: u64,
    width: u64,
    height: u64,
    kind: u32,
) -> u32 {
    let error = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, PER_THREAD);
    if error == 0 { crate::streams::cudaStreamSynchronize(PER_THREAD) } else { error }
}

/// A copy of bytes in the driver's form for a node of a graph.
pub fn node(to: u64, from: u64, bytes: u64, kind: u32) -> Result<[u8; 200], u32> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let pitched = |address| Pitched { address, pitch: bytes, width: bytes, height: 1 };
    driver_copy_3d(&Copy3D {
        from_array: 0,
        from_start: [0; 3],
        from: pitched(from),
        to_array: 0,
        to_start: [0; 3],
        to: pitched(to),
        extent: Extent { width: bytes, height: 1, depth: 1 },
        kind,
    })
}
