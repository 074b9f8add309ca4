//! Launches of kernels, their functions and attributes.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use crate::api::{
    INVALID_CONFIGURATION, INVALID_FUNCTION, INVALID_VALUE, MISSING_CONFIGURATION, Outcome, check,
    last_error, read, write,
};
use crate::driver;
use crate::driver::PER_THREAD;
use crate::errors;
use crate::registration::{self, kernel};

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

/// A launch configuration between `<<<...>>>` and the kernel's stub.
#[derive(Clone, Copy, Debug)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: u64,
    stream: u64,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// A launch that failed: thread, kernel, error, place.
struct Failed(std::thread::ThreadId, String, u32, u64);

/// Launches whose errors the program has not asked for.
static UNCHECKED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());

/// Forgets the failed launches of the thread, because the program asks for its last error.
pub fn errors_are_asked_for() {
    if last_error() == 0 {
        return;
    }
    let own = std::thread::current().id();
    let mut unchecked = UNCHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    unchecked.retain(|failed| {
        if failed.0 == own {
            driver::forget_site(failed.3);
        }
        failed.0 != own
    });
}

extern "C" fn at_exit() {
    let unchecked = std::mem::take(&mut *UNCHECKED.lock().unwrap_or_else(PoisonError::into_inner));
    for Failed(_, name, error, site) in unchecked {
        driver::report_unchecked(&name, errors::name(error), site);
    }
}

/// The dynamic linker calls this when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// Remembers a launch that failed.
fn noted(name: impl FnOnce() -> String, outcome: Outcome) -> Outcome {
    if let Err(error) = outcome {
        let site = driver::site();
        let mut unchecked = UNCHECKED.lock().unwrap_or_else(PoisonError::into_inner);
        // A few are enough: a program that never asks and launches in a loop has one finding per place.
        if unchecked.len() < 64 {
            unchecked.push(Failed(std::thread::current().id(), name(), error, site));
        } else {
            driver::forget_site(site);
        }
    }
    outcome
}

/// Refuses extents that no device allows. The runtime has an error number of its own for them.
fn check_extents(grid: Dim3, block: Dim3) -> Outcome {
    let threads = u64::from(block.x) * u64::from(block.y) * u64::from(block.z);
    let is_grid = grid.x >= 1
        && i32::try_from(grid.x).is_ok()
        && (1..=65535).contains(&grid.y)
        && (1..=65535).contains(&grid.z);
    if is_grid && (1..=1024).contains(&threads) && block.z <= 64 {
        Ok(())
    } else {
        Err(INVALID_CONFIGURATION)
    }
}

fn launch(
    kernel: u64,
    grid: Dim3,
    block: Dim3,
    parameters: u64,
    shared: u64,
    stream: u64,
    cooperative: bool,
) -> Outcome {
    let shared = u32::try_from(shared).map_err(|_| INVALID_VALUE)?;
    let result = if cooperative {
        driver::cuLaunchCooperativeKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, parameters,
        )
    } else {
        driver::cuLaunchKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, parameters, 0,
        )
    };
    check(result).and_then(|()| check_extents(grid, block)).map_err(|error| {
        if error == INVALID_VALUE && check_extents(grid, block).is_err() {
            INVALID_CONFIGURATION
        } else {
            error
        }
    })
}

/// Launches the kernel of a host function or of a handle.
fn launch_function(
    function: u64,
    grid: Dim3,
    block: Dim3,
    parameters: u64,
    shared: u64,
    stream: u64,
    cooperative: bool,
) -> Outcome {
    let found = kernel(function);
    let outcome =
        found.and_then(|kernel| launch(kernel, grid, block, parameters, shared, stream, cooperative));
    noted(|| found.map_or_else(|_| "a kernel".to_owned(), registration::name), outcome)
}

/// `__cudaPushCallConfiguration`: the part between `<<<` and `>>>`.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: u64, stream: u64) -> u32 {
    CONFIGURATIONS.with_borrow_mut(|all| all.push(Configuration { grid, block, shared, stream }));
    0
}

without_device! {
    fn __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut u64, stream: *mut u64) {
        let last = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(MISSING_CONFIGURATION)?;
        write(grid, last.grid)?;
        write(block, last.block)?;
        write(shared, last.shared)?;
        write(stream, last.stream)
    }
}

runtime! {
    fn __cudaGetKernel(place: *mut u64, function: u64) {
        // If there is no such kernel, the program gets the host function, and the launch then reports the error.
        write(place, kernel(function).unwrap_or(function))
    }

    fn cudaGetKernel(place: *mut u64, function: u64) {
        write(place, kernel(function)?)
    }

    fn cudaGetFuncBySymbol(place: *mut u64, function: u64) {
        write(place, kernel(function)?)
    }

    fn __cudaLaunchKernel(kernel: u64, grid: Dim3, block: Dim3, parameters: u64, shared: u64, stream: u64) {
        launch_function(kernel, grid, block, parameters, shared, stream, false)
    }

    fn __cudaLaunchKernel_ptsz(kernel: u64, grid: Dim3, block: Dim3, parameters: u64, shared: u64, stream: u64) {
        launch_function(kernel, grid, block, parameters, shared, if stream == 0 { PER_THREAD } else { stream }, false)
    }

    fn cudaLaunchKernel(function: u64, grid: Dim3, block: Dim3, parameters: u64, shared: u64, stream: u64) {
        launch_function(function, grid, block, parameters, shared, stream, false)
    }

    fn cudaLaunchKernel_ptsz(function: u64, grid: Dim3, block: Dim3, parameters: u64, shared: u64, stream: u64) {
        launch_function(function, grid, block, parameters, shared, if stream == 0 { PER_THREAD } else { stream }, false)
    }

    fn cudaLaunchCooperativeKernel(function: u64, grid: Dim3, block: Dim3, parameters: u64, shared: u64, stream: u64) {
        launch_function(function, grid, block, parameters, shared, stream, true)
    }

    fn cudaLaunchKernelExC(config: u64, function: u64, parameters: u64) {
        // The runtime's structure differs from the driver's only in the type of the shared memory's size.
        let found = kernel(function);
        let outcome = found.and_then(|kernel| check(driver::cuLaunchKernelEx(config, kernel, parameters, 0)));
        noted(|| found.map_or_else(|_| "a kernel".to_owned(), registration::name), outcome)
    }

    fn cudaLaunchHostFunc(stream: u64, function: u64, data: u64) {
        check(driver::cuLaunchHostFunc(stream, function, data))
    }

    fn cudaFuncGetAttributes(attributes: *mut FunctionAttributes, function: u64) {
        let kernel = kernel(function)?;
        let get = |number| {
            let mut value = 0;
            check(driver::cuFuncGetAttribute(&raw mut value, number, kernel)).map(|()| value)
        };
        let size = |number| get(number).map(|value| value as u64);
        write(attributes, FunctionAttributes {
            shared_bytes: size(1)?,
            constant_bytes: size(2)?,
            local_bytes: size(3)?,
            numbers: [get(0)?, get(4)?, get(5)?, get(6)?, get(7)?, get(8)?, get(9)?, get(10)?, get(11)?, get(12)?, get(13)?, get(15)?, get(14)?],
            reserved: [0; 16],
        })
    }

    fn cudaFuncSetAttribute(function: u64, attribute: u32, value: i32) {
        check(driver::cuFuncSetAttribute(kernel(function)?, attribute, value))
    }

    fn cudaFuncSetCacheConfig(function: u64, _config: u32) {
        kernel(function).map(|_| ())
    }

    fn cudaFuncSetSharedMemConfig(function: u64, _config: u32) {
        kernel(function).map(|_| ())
    }

    fn cudaFuncGetName(place: *mut u64, function: u64) {
        check(driver::cuFuncGetName(place, kernel(function)?))
    }

    fn cudaFuncGetParamInfo(function: u64, index: u64, offset: *mut u64, bytes: *mut u64) {
        check(driver::cuFuncGetParamInfo(kernel(function)?, index, offset, bytes))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut i32, function: u64, threads: i32, shared: u64) {
        check(driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel(function)?, threads, shared))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut i32, function: u64, threads: i32, shared: u64, _flags: u32,
    ) {
        check(driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel(function)?, threads, shared))
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(bytes: *mut u64, function: u64, blocks: i32, threads: i32) {
        check(driver::cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel(function)?, blocks, threads))
    }

    fn cudaOccupancyMaxActiveClusters(count: *mut i32, function: u64, config: u64) {
        check(driver::cuOccupancyMaxActiveClusters(count, kernel(function)?, config))
    }

    fn cudaOccupancyMaxPotentialClusterSize(size: *mut i32, function: u64, config: u64) {
        check(driver::cuOccupancyMaxPotentialClusterSize(size, kernel(function)?, config))
    }

    fn cudaLibraryLoadData(
        place: *mut u64, code: u64, options: u64, values: u64, count: u32, library_options: u64, library_values: u64,
        library_count: u32,
    ) {
        check(driver::cuLibraryLoadData(place, code, options, values, count, library_options, library_values, library_count))
    }

    fn cudaLibraryLoadFromFile(
        place: *mut u64, name: u64, options: u64, values: u64, count: u32, library_options: u64, library_values: u64,
        library_count: u32,
    ) {
        check(driver::cuLibraryLoadFromFile(place, name, options, values, count, library_options, library_values, library_count))
    }

    fn cudaLibraryUnload(library: u64) {
        check(driver::cuLibraryUnload(library))
    }

    fn cudaLibraryGetKernel(place: *mut u64, library: u64, name: *const u8) {
        check(driver::cuLibraryGetKernel(place, library, name))
    }

    fn cudaLibraryGetKernelCount(count: *mut u32, library: u64) {
        check(driver::cuLibraryGetKernelCount(count, library))
    }

    fn cudaLibraryEnumerateKernels(kernels: *mut u64, most: u32, library: u64) {
        check(driver::cuLibraryEnumerateKernels(kernels, most, library))
    }

    fn cudaLibraryGetGlobal(place: *mut u64, bytes: *mut u64, library: u64, name: *const u8) {
        check(driver::cuLibraryGetGlobal(place, bytes, library, name))
    }

    fn cudaKernelSetAttributeForDevice(function: u64, attribute: u32, value: i32, _device: i32) {
        check(driver::cuFuncSetAttribute(kernel(function)?, attribute, value))
    }

    fn cudaGetDriverEntryPoint(name: u64, place: *mut u64, flags: u64, status: *mut u32) {
        check(driver::cuGetProcAddress_v2(name, place, 13_000, flags, status))
    }

    fn cudaGetDriverEntryPointByVersion(name: u64, place: *mut u64, version: u32, flags: u64, status: *mut u32) {
        check(driver::cuGetProcAddress_v2(name, place, version as i32, flags, status))
    }
}

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FunctionAttributes {
    shared_bytes: u64,
    constant_bytes: u64,
    local_bytes: u64,
    /// Threads, registers, PTX version, binary version, cache mode, dynamic shared memory, carveout, cluster (must be set,
    /// width, height, depth, scheduling policy, larger sizes allowed).
    numbers: [i32; 13],
    reserved: [i32; 16],
}

/// The kernel of node parameters: their first word is a host function for the runtime, and a handle for the driver.
pub fn with_kernel(parameters: u64) -> Result<[u64; 7], u32> {
    // `cudaKernelNodeParams`: function, extents of grid and block, shared memory, parameters, extra.
    let [function, grid_xy, grid_z_block_x, block_yz, shared, arguments, extra] =
        read(parameters as *const [u64; 7])?;
    let kernel = kernel(function).map_err(|_| INVALID_FUNCTION)?;
    Ok([kernel, grid_xy, grid_z_block_x, block_yz, shared & 0xffff_ffff, arguments, extra])
}
