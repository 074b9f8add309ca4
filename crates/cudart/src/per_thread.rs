//! Variants of functions for programs that are compiled with `--default-stream per-thread`: stream 0 is the calling thread's
//! default stream. Those whose stream is the last parameter are beside the function itself (`per_thread!`).

use crate::api::read;
use crate::driver::PER_THREAD;
use crate::memory::{Extent, Pitched};
use crate::{arrays, copies, graphs, launches, memory, streams};

/// The stream that a program means.
fn own(stream: u64) -> u64 {
    if stream == 0 { PER_THREAD } else { stream }
}

macro_rules! variants {
    ($($alias:ident($($arg:ident: $type:ty),*) = $call:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($alias), "` of the runtime API.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $alias($($arg: $type),*) -> u32 {
                $call
            }
        )*
    };
}

/// Waits for what a call has enqueued.
fn waited(error: u32) -> u32 {
    if error == 0 { streams::cudaStreamSynchronize(PER_THREAD) } else { error }
}

/// A launch configuration with the stream that the program means. Its fifth word is the stream.
fn configuration(config: u64) -> Option<[u64; 7]> {
    let mut words = read(config as *const [u64; 7]).ok()?;
    words[4] = own(words[4]);
    Some(words)
}

variants! {
    cudaEventRecordWithFlags_ptsz(event: u64, stream: u64, flags: u32) =
        streams::cudaEventRecordWithFlags(event, own(stream), flags);
    cudaStreamAddCallback_ptsz(stream: u64, function: u64, data: u64, flags: u32) =
        streams::cudaStreamAddCallback(own(stream), function, data, flags);
    cudaStreamBeginCapture_ptsz(stream: u64, mode: u32) = streams::cudaStreamBeginCapture(own(stream), mode);
    cudaStreamEndCapture_ptsz(stream: u64, graph: *mut u64) = streams::cudaStreamEndCapture(own(stream), graph);
    cudaStreamIsCapturing_ptsz(stream: u64, status: *mut u32) =
        streams::cudaStreamIsCapturing(own(stream), status);
    cudaStreamGetDevice_ptsz(stream: u64, device: *mut i32) = streams::cudaStreamGetDevice(own(stream), device);
    cudaStreamGetFlags_ptsz(stream: u64, flags: *mut u32) = streams::cudaStreamGetFlags(own(stream), flags);
    cudaStreamGetId_ptsz(stream: u64, id: *mut u64) = streams::cudaStreamGetId(own(stream), id);
    cudaStreamGetPriority_ptsz(stream: u64, priority: *mut i32) =
        streams::cudaStreamGetPriority(own(stream), priority);
    cudaStreamCopyAttributes_ptsz(to: u64, from: u64) = streams::cudaStreamCopyAttributes(own(to), own(from));
    cudaStreamSetAttribute_ptsz(stream: u64, attribute: u32, value: u64) =
        streams::cudaStreamSetAttribute(own(stream), attribute, value);
    cudaStreamAttachMemAsync_ptsz(stream: u64, address: u64, bytes: u64, flags: u32) =
        memory::cudaStreamAttachMemAsync(own(stream), address, bytes, flags);

    cudaLaunchHostFunc_ptsz(stream: u64, function: u64, data: u64) =
        launches::cudaLaunchHostFunc(own(stream), function, data);
    cudaLaunchCooperativeKernel_ptsz(
        function: u64, grid: launches::Dim3, block: launches::Dim3, parameters: u64, shared: u64, stream: u64
    ) = launches::cudaLaunchCooperativeKernel(function, grid, block, parameters, shared, own(stream));
    cudaLaunchKernelExC_ptsz(config: u64, function: u64, parameters: u64) = match configuration(config) {
        Some(words) => launches::cudaLaunchKernelExC(words.as_ptr() as u64, function, parameters),
        None => launches::cudaLaunchKernelExC(config, function, parameters),
    };
    cudaGetDriverEntryPoint_ptsz(name: u64, place: *mut u64, flags: u64, status: *mut u32) =
        launches::cudaGetDriverEntryPoint(name, place, flags | PER_THREAD_ENTRY, status);
    cudaGetDriverEntryPointByVersion_ptsz(name: u64, place: *mut u64, version: u32, flags: u64, status: *mut u32) =
        launches::cudaGetDriverEntryPointByVersion(name, place, version, flags | PER_THREAD_ENTRY, status);
    cudaGraphUpload_ptsz(executable: u64, stream: u64) = graphs::cudaGraphUpload(executable, own(stream));
    cudaGraphInstantiateWithParams_ptsz(place: *mut u64, graph: u64, parameters: u64) =
        graphs::cudaGraphInstantiateWithParams(place, graph, parameters);

    cudaMallocFromPoolAsync_ptsz(place: *mut u64, bytes: u64, pool: u64, stream: u64) =
        memory::cudaMallocFromPoolAsync(place, bytes, pool, own(stream));
    cudaMemPrefetchAsync_ptsz(address: u64, bytes: u64, location: u64, flags: u64, stream: u64) =
        if crate::devices::api_version() >= 13 {
            memory::cudaMemPrefetchAsync(address, bytes, location, flags, own(stream))
        } else {
            memory::cudaMemPrefetchAsync(address, bytes, location, own(flags), stream)
        };
    cudaMemset2DAsync_ptsz(address: u64, pitch: u64, value: i32, width: u64, height: u64, stream: u64) =
        memory::cudaMemset2DAsync(address, pitch, value, width, height, own(stream));
    cudaMemset2D_ptds(address: u64, pitch: u64, value: i32, width: u64, height: u64) =
        waited(memory::cudaMemset2DAsync(address, pitch, value, width, height, PER_THREAD));
    cudaMemset3DAsync_ptsz(target: Pitched, value: i32, extent: Extent, stream: u64) =
        memory::cudaMemset3DAsync(target, value, extent, own(stream));
    cudaMemset3D_ptds(target: Pitched, value: i32, extent: Extent) =
        waited(memory::cudaMemset3DAsync(target, value, extent, PER_THREAD));

    cudaMemcpy3DAsync_ptsz(parameters: u64, stream: u64) = copies::cudaMemcpy3DAsync(parameters, own(stream));
    cudaMemcpy3D_ptds(parameters: u64) = waited(copies::cudaMemcpy3DAsync(parameters, PER_THREAD));
    cudaMemcpyToSymbolAsync_ptsz(symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32, stream: u64) =
        copies::cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, own(stream));
    cudaMemcpyFromSymbolAsync_ptsz(to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32, stream: u64) =
        copies::cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, own(stream));
    cudaMemcpy2DToArrayAsync_ptsz(
        array: u64, x: u64, y: u64, from: u64, pitch: u64, width: u64, height: u64, kind: u32, stream: u64
    ) = arrays::cudaMemcpy2DToArrayAsync(array, x, y, from, pitch, width, height, kind, own(stream));
    cudaMemcpy2DToArray_ptds(
        array: u64, x: u64, y: u64, from: u64, pitch: u64, width: u64, height: u64, kind: u32
    ) = waited(arrays::cudaMemcpy2DToArrayAsync(array, x, y, from, pitch, width, height, kind, PER_THREAD));
    cudaMemcpy2DFromArrayAsync_ptsz(
        to: u64, pitch: u64, array: u64, x: u64, y: u64, width: u64, height: u64, kind: u32, stream: u64
    ) = arrays::cudaMemcpy2DFromArrayAsync(to, pitch, array, x, y, width, height, kind, own(stream));
    cudaMemcpy2DFromArray_ptds(
        to: u64, pitch: u64, array: u64, x: u64, y: u64, width: u64, height: u64, kind: u32
    ) = waited(arrays::cudaMemcpy2DFromArrayAsync(to, pitch, array, x, y, width, height, kind, PER_THREAD));
}

/// Asks the driver for the variant of a function that uses the thread's default stream.
const PER_THREAD_ENTRY: u64 = 2;
