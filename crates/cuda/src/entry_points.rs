//! `cuGetProcAddress`: functions of the driver by their names.

use std::ffi::{CString, c_void};

use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::guest;

/// Functions whose symbol is not the one with the highest suffix, or depends on the version of CUDA: name, first
/// version of CUDA, symbol. The last row whose version is not newer than the wanted one decides.
const VERSIONS: &[(&str, i32, &str)] = &[
    ("cuCtxCreate", 3020, "cuCtxCreate_v2"),
    ("cuCtxCreate", 11040, "cuCtxCreate_v3"),
    ("cuCtxCreate", 12050, "cuCtxCreate_v4"),
    ("cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"),
    ("cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"),
    ("cuEventElapsedTime", 2000, "cuEventElapsedTime"),
    ("cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"),
    ("cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"),
    ("cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"),
    ("cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"),
    ("cuGetProcAddress", 11030, "cuGetProcAddress"),
    ("cuGetProcAddress", 12000, "cuGetProcAddress_v2"),
    ("cuMemPrefetchAsync", 8000, "cuMemPrefetchAsync"),
    ("cuMemPrefetchAsync", 12020, "cuMemPrefetchAsync_v2"),
    ("cuMemAdvise", 8000, "cuMemAdvise"),
    ("cuMemAdvise", 12020, "cuMemAdvise_v2"),
    ("cuGraphGetEdges", 10000, "cuGraphGetEdges"),
    ("cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"),
    ("cuGraphNodeGetDependentNodes", 10000, "cuGraphNodeGetDependentNodes"),
    ("cuGraphNodeGetDependentNodes", 12030, "cuGraphNodeGetDependentNodes_v2"),
    ("cuGraphNodeGetDependencies", 10000, "cuGraphNodeGetDependencies"),
    ("cuGraphNodeGetDependencies", 12030, "cuGraphNodeGetDependencies_v2"),
    ("cuGraphAddDependencies", 10000, "cuGraphAddDependencies"),
    ("cuGraphAddDependencies", 12030, "cuGraphAddDependencies_v2"),
    ("cuGraphRemoveDependencies", 10000, "cuGraphRemoveDependencies"),
    ("cuGraphRemoveDependencies", 12030, "cuGraphRemoveDependencies_v2"),
    ("cuGraphExecUpdate", 10020, "cuGraphExecUpdate"),
    ("cuGraphExecUpdate", 12000, "cuGraphExecUpdate_v2"),
    ("cuCtxGetDevice", 2000, "cuCtxGetDevice"),
    ("cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"),
    ("cuCtxSynchronize", 2000, "cuCtxSynchronize"),
    ("cuCtxSynchronize", 13000, "cuCtxSynchronize_v2"),
];

/// The address of an exported symbol of this library, or 0.
fn symbol(name: &str) -> u64 {
    static LIBRARY: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let library = *LIBRARY.get_or_init(|| {
        // SAFETY: an all-zero `Dl_info` is valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the function of this library is loaded, so its file can be opened again.
        unsafe {
            libc::dladdr(cuDriverEntryPoint as extern "C" fn() as *const c_void, &raw mut info);
            libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) as usize
        }
    });
    let Ok(name) = CString::new(name) else { return 0 };
    if library == 0 {
        return 0;
    }
    // SAFETY: the library is loaded and stays so.
    unsafe { libc::dlsym(library as *mut c_void, name.as_ptr()) as u64 }
}

extern "C" fn cuDriverEntryPoint() {}

/// The address of a function for a version of CUDA.
fn find(name: &str, version: i32, per_thread: bool) -> u64 {
    let listed = VERSIONS.iter().rev().find(|(base, first, _)| *base == name && *first <= version);
    let mut candidates: Vec<String> = match listed {
        Some((_, _, symbol)) => vec![(*symbol).to_owned()],
        None if version >= 3020 => [4, 3, 2].iter().map(|n| format!("{name}_v{n}")).collect(),
        None => Vec::new(),
    };
    candidates.push(name.to_owned());
    if per_thread {
        let variants = candidates.iter().flat_map(|it| [format!("{it}_ptsz"), format!("{it}_ptds")]);
        candidates = variants.chain(candidates.iter().cloned()).collect();
    }
    candidates.iter().map(|it| symbol(it)).find(|it| *it != 0).unwrap_or(0)
}

fn tell(name: *const libc::c_char, place: *mut u64, version: i32, flags: u64, status: *mut u32) -> Outcome {
    let name = guest::read_text(name)?;
    if !name.starts_with("cu") {
        return Err(Status::INVALID_VALUE);
    }
    // Flag 2 asks for the default stream per thread.
    let address = find(&name, version, flags & 2 != 0);
    guest::write(place, address)?;
    // 0: found, 1: unknown.
    guest::write_optional(status, u32::from(address == 0))?;
    if address == 0 && status.is_null() { Err(Status::NOT_FOUND) } else { Ok(()) }
}

api! {
    fn cuGetProcAddress(name: *const libc::c_char, place: *mut u64, version: i32, flags: u64) {
        tell(name, place, version, flags, std::ptr::null_mut())
    }

    fn cuGetProcAddress_v2(name: *const libc::c_char, place: *mut u64, version: i32, flags: u64, status: *mut u32) {
        tell(name, place, version, flags, status)
    }

    fn cuGetExportTable(table: *mut u64, _id: *const [u8; 16]) {
        guest::write(table, 0)?;
        let caller = Site::here().stack().into_iter().next().map_or(String::new(), |it| it.module);
        let name = caller.rsplit('/').next().unwrap_or(&caller);
        // These libraries ask for the table and work without it.
        let needs_none = ["libnvrtc", "libnvJitLink", "libnvvm"].iter().any(|it| name.starts_with(it));
        if !needs_none && crate::missing::say_once("cuGetExportTable") {
            eprintln!(
                "warpsmith: {name} has CUDA's runtime library linked into it, which needs private functions of NVIDIA's \
                 driver; link it with `nvcc -cudart shared` (CMake: -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared)"
            );
        }
        Err(Status::NOT_SUPPORTED)
    }
}

aliases! {
    cuCtxDestroy = crate::contexts::cuCtxDestroy_v2: (context: u64);
    cuCtxPushCurrent = crate::contexts::cuCtxPushCurrent_v2: (context: u64);
    cuCtxPopCurrent = crate::contexts::cuCtxPopCurrent_v2: (context: *mut u64);
    cuDevicePrimaryCtxRelease = crate::contexts::cuDevicePrimaryCtxRelease_v2: (device: i32);
    cuDevicePrimaryCtxReset = crate::contexts::cuDevicePrimaryCtxReset_v2: (device: i32);
    cuDevicePrimaryCtxSetFlags = crate::contexts::cuDevicePrimaryCtxSetFlags_v2: (device: i32, flags: u32);
    cuStreamDestroy = crate::stream_calls::cuStreamDestroy_v2: (stream: u64);
    cuEventDestroy = crate::events::cuEventDestroy_v2: (event: u64);
}
