//! The functions of the driver library, found by their names when they are first needed.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::outcome::{Outcome, check};

/// CUDA's handle of the default stream of the calling thread.
pub const PER_THREAD: u64 = 2;

/// CUDA's error for a driver that is missing or too old.
const INSUFFICIENT_DRIVER: u32 = 35;

fn library() -> usize {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    // SAFETY: loading the driver library runs its initialisers, as NVIDIA's runtime library does.
    *LIBRARY.get_or_init(|| unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) as usize })
}

fn find(name: &CStr) -> usize {
    let library = library();
    if library == 0 {
        return 0;
    }
    // SAFETY: the library is loaded and stays so.
    unsafe { libc::dlsym(library as *mut c_void, name.as_ptr()) as usize }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        pub fn $name($($arg: $type),*) -> u32 {
            static AT: OnceLock<usize> = OnceLock::new();
            let at = *AT.get_or_init(|| {
                let name = concat!(stringify!($name), "\0");
                CStr::from_bytes_with_nul(name.as_bytes()).map_or(0, find)
            });
            if at == 0 {
                return INSUFFICIENT_DRIVER;
            }
            // SAFETY: the driver library has this function with these parameters.
            let function: extern "C" fn($($type),*) -> u32 = unsafe { std::mem::transmute(at) };
            function($($arg),*)
        }
    )* };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);
    cuDeviceGetCount(count: *mut i32);
    cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32);
    cuDeviceGetName(name: *mut u8, bytes: i32, device: i32);
    cuDeviceGetUuid_v2(uuid: *mut u8, device: i32);
    cuDeviceTotalMem_v2(bytes: *mut u64, device: i32);
    cuDeviceGetPCIBusId(id: *mut u8, bytes: i32, device: i32);
    cuDeviceGetByPCIBusId(device: *mut i32, id: *const u8);
    cuDeviceCanAccessPeer(answer: *mut i32, device: i32, peer: i32);
    cuDeviceGetDefaultMemPool(place: *mut u64, device: i32);
    cuDeviceSetMemPool(device: i32, pool: u64);
    cuDevicePrimaryCtxRetain(context: *mut u64, device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32);
    cuCtxGetCurrent(context: *mut u64);
    cuCtxSetCurrent(context: u64);
    cuCtxSynchronize();
    cuCtxSetLimit(limit: u32, value: u64);
    cuCtxGetLimit(value: *mut u64, limit: u32);
    cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    cuMemGetInfo_v2(free: *mut u64, total: *mut u64);
    cuMemAlloc_v2(place: *mut u64, bytes: u64);
    cuMemAllocPitch_v2(place: *mut u64, pitch: *mut u64, width: u64, height: u64, element: u32);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(place: *mut u64, bytes: u64, flags: u32);
    cuMemFreeHost(address: u64);
    cuMemHostRegister_v2(address: u64, bytes: u64, flags: u32);
    cuMemHostUnregister(address: u64);
    cuMemHostGetDevicePointer_v2(place: *mut u64, address: u64, flags: u32);
    cuMemHostGetFlags(flags: *mut u32, address: u64);
    cuMemAllocManaged(place: *mut u64, bytes: u64, flags: u32);
    cuMemAllocAsync(place: *mut u64, bytes: u64, stream: u64);
    cuMemAllocFromPoolAsync(place: *mut u64, bytes: u64, pool: u64, stream: u64);
    cuMemFreeAsync(address: u64, stream: u64);
    cuMemPoolCreate(place: *mut u64, properties: u64);
    cuMemPoolDestroy(pool: u64);
    cuMemPoolTrimTo(pool: u64, keep: u64);
    cuMemPoolSetAttribute(pool: u64, attribute: u32, value: u64);
    cuMemPoolGetAttribute(pool: u64, attribute: u32, value: u64);
    cuMemPrefetchAsync_v2(address: u64, bytes: u64, location: u64, flags: u32, stream: u64);
    cuMemAdvise_v2(address: u64, bytes: u64, advice: u32, location: u64);
    cuMemRangeGetAttribute(data: u64, size: u64, attribute: u32, address: u64, bytes: u64);
    cuStreamAttachMemAsync(stream: u64, address: u64, bytes: u64, flags: u32);
    cuPointerGetAttribute(data: u64, attribute: u32, address: u64);
    cuMemcpy(to: u64, from: u64, bytes: u64);
    cuMemcpy_ptds(to: u64, from: u64, bytes: u64);
    cuMemcpyAsync(to: u64, from: u64, bytes: u64, stream: u64);
    cuMemcpyHtoD_v2(to: u64, from: u64, bytes: u64);
    cuMemcpyDtoH_v2(to: u64, from: u64, bytes: u64);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: u64);
    cuMemcpyHtoD_v2_ptds(to: u64, from: u64, bytes: u64);
    cuMemcpyDtoH_v2_ptds(to: u64, from: u64, bytes: u64);
    cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: u64);
    cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64);
    cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: u64, stream: u64);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64);
    cuMemcpy3D_v2(copy: u64);
    cuMemcpy3DAsync_v2(copy: u64, stream: u64);
    cuArray3DCreate_v2(place: *mut u64, descriptor: u64);
    cuArray3DGetDescriptor_v2(descriptor: u64, array: u64);
    cuArrayDestroy(array: u64);
    cuTexObjectCreate(place: *mut u64, resource: u64, texture: u64, view: u64);
    cuTexObjectDestroy(texture: u64);
    cuMemsetD8_v2(address: u64, value: u8, count: u64);
    cuMemsetD8Async(address: u64, value: u8, count: u64, stream: u64);
    cuMemsetD2D8_v2(address: u64, pitch: u64, value: u8, width: u64, height: u64);
    cuMemsetD2D8Async(address: u64, pitch: u64, value: u8, width: u64, height: u64, stream: u64);
    cuLibraryLoadData(
        place: *mut u64, code: u64, options: u64, values: u64, count: u32, library_options: u64, library_values: u64,
        library_count: u32
    );
    cuLibraryLoadFromFile(
        place: *mut u64, name: u64, options: u64, values: u64, count: u32, library_options: u64, library_values: u64,
        library_count: u32
    );
    cuLibraryUnload(library: u64);
    cuLibraryGetKernel(place: *mut u64, library: u64, name: *const u8);
    cuLibraryGetKernelCount(count: *mut u32, library: u64);
    cuLibraryEnumerateKernels(kernels: *mut u64, most: u32, library: u64);
    cuLibraryGetManaged(place: *mut u64, bytes: *mut u64, library: u64, name: *const u8);
    cuLibraryGetGlobal(place: *mut u64, bytes: *mut u64, library: u64, name: *const u8);
    cuFuncGetAttribute(value: *mut i32, attribute: u32, function: u64);
    cuFuncSetAttribute(function: u64, attribute: u32, value: i32);
    cuFuncGetName(place: *mut u64, function: u64);
    cuFuncGetParamInfo(function: u64, index: u64, offset: *mut u64, bytes: *mut u64);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut i32, function: u64, threads: i32, shared: u64);
    cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut u64, function: u64, blocks: i32, threads: i32);
    cuOccupancyMaxActiveClusters(count: *mut i32, function: u64, config: u64);
    cuOccupancyMaxPotentialClusterSize(size: *mut i32, function: u64, config: u64);
    cuLaunchKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: u64, parameters: u64, extra: u64
    );
    cuLaunchCooperativeKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: u64, parameters: u64
    );
    cuLaunchKernelEx(config: u64, function: u64, parameters: u64, extra: u64);
    cuLaunchHostFunc(stream: u64, function: u64, data: u64);
    cuStreamCreateWithPriority(place: *mut u64, flags: u32, priority: i32);
    cuStreamDestroy_v2(stream: u64);
    cuStreamSynchronize(stream: u64);
    cuStreamQuery(stream: u64);
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32);
    cuStreamAddCallback(stream: u64, function: u64, data: u64, flags: u32);
    cuStreamGetPriority(stream: u64, priority: *mut i32);
    cuStreamGetFlags(stream: u64, flags: *mut u32);
    cuStreamGetId(stream: u64, id: *mut u64);
    cuStreamBeginCapture_v2(stream: u64, mode: u32);
    cuStreamEndCapture(stream: u64, graph: *mut u64);
    cuStreamIsCapturing(stream: u64, status: *mut u32);
    cuStreamGetCaptureInfo_v3(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut u64, edges: *mut u64,
        count: *mut u64
    );
    cuThreadExchangeStreamCaptureMode(mode: *mut u32);
    cuEventCreate(place: *mut u64, flags: u32);
    cuEventDestroy_v2(event: u64);
    cuEventRecordWithFlags(event: u64, stream: u64, flags: u32);
    cuEventQuery(event: u64);
    cuEventSynchronize(event: u64);
    cuEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64);
    cuGraphCreate(place: *mut u64, flags: u32);
    cuGraphDestroy(graph: u64);
    cuGraphClone(place: *mut u64, graph: u64);
    cuGraphAddKernelNode_v2(place: *mut u64, graph: u64, after: u64, count: u64, node: u64);
    cuGraphAddMemcpyNode(place: *mut u64, graph: u64, after: u64, count: u64, copy: u64, context: u64);
    cuGraphAddMemsetNode(place: *mut u64, graph: u64, after: u64, count: u64, node: u64, context: u64);
    cuGraphAddHostNode(place: *mut u64, graph: u64, after: u64, count: u64, node: u64);
    cuGraphAddChildGraphNode(place: *mut u64, graph: u64, after: u64, count: u64, child: u64);
    cuGraphAddEmptyNode(place: *mut u64, graph: u64, after: u64, count: u64);
    cuGraphAddEventRecordNode(place: *mut u64, graph: u64, after: u64, count: u64, event: u64);
    cuGraphAddEventWaitNode(place: *mut u64, graph: u64, after: u64, count: u64, event: u64);
    cuGraphKernelNodeSetParams_v2(node: u64, parameters: u64);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, parameters: u64);
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, copy: u64, context: u64);
    cuGraphMemcpyNodeSetParams(node: u64, copy: u64);
    cuGraphMemsetNodeSetParams(node: u64, parameters: u64);
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, parameters: u64, context: u64);
    cuGraphHostNodeSetParams(node: u64, parameters: u64);
    cuGraphExecHostNodeSetParams(executable: u64, node: u64, parameters: u64);
    cuGraphNodeGetEnabled(executable: u64, node: u64, enabled: *mut u32);
    cuGraphNodeFindInClone(place: *mut u64, original: u64, clone: u64);
    cuGraphNodeGetDependencies(node: u64, nodes: u64, count: u64);
    cuGraphNodeGetDependentNodes(node: u64, nodes: u64, count: u64);
    cuGraphInstantiateWithParams(place: *mut u64, graph: u64, parameters: u64);
    cuGraphExecGetFlags(executable: u64, flags: *mut u64);
    cuGraphInstantiateWithFlags(place: *mut u64, graph: u64, flags: u64);
    cuGraphUpload(executable: u64, stream: u64);
    cuGraphLaunch(executable: u64, stream: u64);
    cuGraphExecDestroy(executable: u64);
    cuGraphExecUpdate_v2(executable: u64, graph: u64, result: u64);
    cuGraphGetNodes(graph: u64, nodes: u64, count: u64);
    cuGraphGetRootNodes(graph: u64, nodes: u64, count: u64);
    cuGraphGetEdges_v2(graph: u64, from: u64, to: u64, data: u64, count: u64);
    cuGraphNodeGetType(node: u64, kind: *mut u32);
    cuGraphAddDependencies_v2(graph: u64, from: u64, to: u64, data: u64, count: u64);
    cuGraphRemoveDependencies_v2(graph: u64, from: u64, to: u64, data: u64, count: u64);
    cuGraphDestroyNode(node: u64);
    cuGraphNodeSetEnabled(executable: u64, node: u64, enabled: u32);
    cuGetProcAddress_v2(name: u64, place: *mut u64, version: i32, flags: u64, status: *mut u32);
    warpsmithReadGuest(from: u64, into: u64, bytes: u64);
    warpsmithWriteGuest(into: u64, from: u64, bytes: u64);
}

/// Reads memory of the program.
pub fn read_guest(from: u64, into: u64, bytes: u64) -> u32 {
    warpsmithReadGuest(from, into, bytes)
}

/// Writes memory of the program.
pub fn write_guest(into: u64, from: u64, bytes: u64) -> u32 {
    warpsmithWriteGuest(into, from, bytes)
}

fn optional(name: &'static CStr, at: &'static OnceLock<usize>) -> Option<usize> {
    Some(*at.get_or_init(|| find(name))).filter(|at| *at != 0)
}

/// Tells the driver which function the program has called.
pub fn set_caller(name: &'static str) {
    static AT: OnceLock<usize> = OnceLock::new();
    if let Some(at) = optional(c"warpsmithCaller", &AT) {
        // SAFETY: the driver library has this function with these parameters.
        let function: extern "C" fn(*const u8, usize) = unsafe { std::mem::transmute(at) };
        function(name.as_ptr(), name.len());
    }
}

/// The place of the current call, for [`report_unchecked`].
pub fn site() -> u64 {
    static AT: OnceLock<usize> = OnceLock::new();
    optional(c"warpsmithSite", &AT).map_or(0, |at| {
        // SAFETY: as above.
        let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(at) };
        function()
    })
}

/// Forgets a place.
pub fn forget_site(site: u64) {
    static AT: OnceLock<usize> = OnceLock::new();
    if let Some(at) = optional(c"warpsmithForgetSite", &AT) {
        // SAFETY: as above.
        let function: extern "C" fn(u64) = unsafe { std::mem::transmute(at) };
        function(site);
    }
}

/// Reports a launch whose error the program never asked for.
pub fn report_unchecked(kernel: &str, error: &str, site: u64) {
    static AT: OnceLock<usize> = OnceLock::new();
    if let Some(at) = optional(c"warpsmithUncheckedLaunch", &AT) {
        // SAFETY: as above.
        let function: extern "C" fn(*const u8, usize, *const u8, usize, u64) =
            unsafe { std::mem::transmute(at) };
        function(kernel.as_ptr(), kernel.len(), error.as_ptr(), error.len(), site);
    }
}

/// Initialises the driver.
pub fn initialise() -> Outcome {
    check(cuInit(0))
}

fn primary_context() -> Result<u64, u32> {
    static PRIMARY: OnceLock<Result<u64, u32>> = OnceLock::new();
    *PRIMARY.get_or_init(|| {
        let mut context = 0;
        check(cuDevicePrimaryCtxRetain(&raw mut context, 0))?;
        Ok(context)
    })
}

thread_local! {
    static IS_READY: Cell<bool> = const { Cell::new(false) };
}

/// Initialises the driver, and gives the thread the primary context if it has none.
pub fn make_ready() -> Outcome {
    if IS_READY.get() {
        return Ok(());
    }
    initialise()?;
    let mut current = 0;
    check(cuCtxGetCurrent(&raw mut current))?;
    if current == 0 {
        check(cuCtxSetCurrent(primary_context()?))?;
    }
    IS_READY.set(true);
    Ok(())
}
