//! A driver library without a GPU: as many of the driver's functions as launches need. It counts calls, fails on request,
//! and has the driver's rule for captures: while a stream is being captured, a thread may not make or destroy streams and
//! graphs unless its mode is relaxed. A call that breaks the rule spoils the capture.
//!
//! The test compiles this file with rustc and loads it instead of the real driver.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard};

const OK: c_int = 0;
const INVALID: c_int = 1;
const UNSUPPORTED_IN_CAPTURE: c_int = 900;
const LAUNCH_FAILED: c_int = 719;

const GLOBAL: c_int = 0;
const RELAXED: c_int = 2;

/// What happened so far, and what shall fail.
#[derive(Default)]
struct Driver {
    fails_kernels: bool,
    fails_graphs: bool,
    fails_graph_launches: bool,
    kernels: u64,
    recorded_kernels: u64,
    graph_launches: u64,
    graphs: u64,
    executables: u64,
    streams: u64,
    spoiled_captures: u64,
    next_handle: usize,
    context: usize,
    mode: c_int,
    captured: HashSet<usize>,
    /// The captured streams of callers, whose mode is global.
    captured_globally: HashSet<usize>,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Driver) -> T) -> T {
    let mut driver: MutexGuard<'_, Option<Driver>> = DRIVER.lock().unwrap();
    work(driver.get_or_insert_default())
}

impl Driver {
    fn handle(&mut self) -> *mut c_void {
        self.next_handle += 64;
        self.next_handle as *mut c_void
    }

    /// Whether a call that captures do not expect is refused.
    fn refuses(&mut self) -> bool {
        let refused = self.mode != RELAXED && !self.captured_globally.is_empty();
        self.spoiled_captures += u64::from(refused);
        refused
    }
}

/// For the test: what shall fail.
#[unsafe(no_mangle)]
extern "C" fn fake_fail(kernels: bool, graphs: bool, graph_launches: bool) {
    with(|driver| {
        driver.fails_kernels = kernels;
        driver.fails_graphs = graphs;
        driver.fails_graph_launches = graph_launches;
    });
}

/// For the test: begins or ends the capture of a caller's stream.
#[unsafe(no_mangle)]
extern "C" fn fake_capture(stream: usize, begins: bool) {
    with(|driver| {
        for set in [&mut driver.captured, &mut driver.captured_globally] {
            if begins {
                set.insert(stream);
            } else {
                set.remove(&stream);
            }
        }
    });
}

/// For the test: kernels, recorded kernels, launches of graphs, graphs, executable graphs, streams, spoiled captures, and
/// whether the thread's mode is not the usual one.
#[unsafe(no_mangle)]
extern "C" fn fake_counts(counts: &mut [u64; 8]) {
    with(|driver| {
        *counts = [
            driver.kernels,
            driver.recorded_kernels,
            driver.graph_launches,
            driver.graphs,
            driver.executables,
            driver.streams,
            driver.spoiled_captures,
            u64::from(driver.mode != GLOBAL),
        ];
    });
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> c_int {
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: &mut c_int) -> c_int {
    *count = 1;
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: &mut c_int, _index: c_int) -> c_int {
    *device = 0;
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, _length: c_int, _device: c_int) -> c_int {
    unsafe { *name = 0 };
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: &mut usize, _device: c_int) -> c_int {
    *context = 8;
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> c_int {
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: &mut usize) -> c_int {
    *context = with(|driver| driver.context);
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: usize) -> c_int {
    with(|driver| driver.context = context);
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(context: &mut usize) -> c_int {
    *context = with(|driver| std::mem::take(&mut driver.context));
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: &mut *mut c_void, _image: *const c_void) -> c_int {
    *module = with(Driver::handle);
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(
    function: &mut *mut c_void,
    _module: *mut c_void,
    _name: *const c_char,
) -> c_int {
    *function = with(Driver::handle);
    OK
}

/// The kernels have no parameters.
#[unsafe(no_mangle)]
extern "C" fn cuFuncGetParamInfo(
    _function: *mut c_void,
    _index: usize,
    _offset: *mut usize,
    _size: *mut usize,
) -> c_int {
    INVALID
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(value: &mut c_int, _attribute: c_int, _function: *mut c_void) -> c_int {
    *value = 0;
    OK
}

/// The first fields of the driver's struct.
#[repr(C)]
struct LaunchConfig {
    grid_and_block: [c_uint; 6],
    shared_bytes: c_uint,
    stream: usize,
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    config: &LaunchConfig,
    _function: *mut c_void,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_int {
    with(|driver| {
        if driver.captured.contains(&config.stream) {
            driver.recorded_kernels += 1;
        } else if driver.fails_kernels {
            return LAUNCH_FAILED;
        } else {
            driver.kernels += 1;
        }
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: &mut *mut c_void, _flags: c_uint) -> c_int {
    with(|driver| {
        if driver.refuses() {
            return UNSUPPORTED_IN_CAPTURE;
        }
        driver.streams += 1;
        *stream = driver.handle();
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: *mut c_void) -> c_int {
    with(|driver| {
        if driver.refuses() {
            return UNSUPPORTED_IN_CAPTURE;
        }
        driver.streams -= 1;
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: usize, status: &mut c_int) -> c_int {
    *status = with(|driver| c_int::from(driver.captured.contains(&stream)));
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: usize, _mode: c_int) -> c_int {
    with(|driver| driver.captured.insert(stream));
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(stream: usize, graph: &mut *mut c_void) -> c_int {
    with(|driver| {
        driver.captured.remove(&stream);
        driver.graphs += 1;
        *graph = driver.handle();
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: &mut c_int) -> c_int {
    with(|driver| std::mem::swap(&mut driver.mode, mode));
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(
    executable: &mut *mut c_void,
    _graph: *mut c_void,
    _flags: u64,
) -> c_int {
    with(|driver| {
        if driver.refuses() {
            return UNSUPPORTED_IN_CAPTURE;
        }
        if driver.fails_graphs {
            return INVALID;
        }
        driver.executables += 1;
        *executable = driver.handle();
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(_executable: *mut c_void, _stream: usize) -> c_int {
    with(|driver| {
        if driver.fails_graph_launches {
            return INVALID;
        }
        driver.graph_launches += 1;
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(_executable: *mut c_void) -> c_int {
    with(|driver| {
        if driver.refuses() {
            return UNSUPPORTED_IN_CAPTURE;
        }
        driver.executables -= 1;
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(_graph: *mut c_void) -> c_int {
    with(|driver| {
        if driver.refuses() {
            return UNSUPPORTED_IN_CAPTURE;
        }
        driver.graphs -= 1;
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(_error: c_int, text: &mut *const c_char) -> c_int {
    *text = c"an error".as_ptr();
    OK
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(_error: c_int, text: &mut *const c_char) -> c_int {
    *text = c"an error of the fake driver".as_ptr();
    OK
}
