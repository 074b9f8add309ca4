//! What nvcc's code registers before `main`: fat binaries with their kernels and variables. A fat binary is loaded when
//! something of it is first used.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{INVALID_FUNCTION, INVALID_SYMBOL, Outcome, check};
use crate::driver;
use crate::missing::say_once;

/// A registered fat binary.
#[derive(Debug)]
struct Binary {
    image: u64,
    /// The library or the error of loading it; `None` before the first use.
    library: Option<Result<u64, u32>>,
    /// The variables in managed memory: the host's pointer to each, its name and its size.
    managed: Vec<(u64, String, u64)>,
}

/// A kernel or variable: its fat binary and its name.
#[derive(Clone, Debug)]
struct Symbol {
    binary: u64,
    name: String,
    /// The handle of the kernel, once it is known.
    kernel: Option<u64>,
}

#[derive(Debug, Default)]
struct Registry {
    binaries: HashMap<u64, Binary>,
    made: u64,
    /// By the address of the host's function.
    functions: HashMap<u64, Symbol>,
    /// By the address of the host's variable.
    variables: HashMap<u64, Symbol>,
    /// Kernels by their handle, for messages.
    names: HashMap<u64, String>,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

struct Locked(MutexGuard<'static, Option<Registry>>);

impl std::ops::Deref for Locked {
    type Target = Registry;
    fn deref(&self) -> &Registry {
        self.0.as_ref().unwrap_or_else(|| unreachable!("`registry` fills it"))
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Registry {
        self.0.get_or_insert_default()
    }
}

fn registry() -> Locked {
    let mut guard = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_default();
    Locked(guard)
}

/// The name of a kernel or a variable; empty if the memory has no text.
fn text(name: *const c_char) -> String {
    const MOST: usize = 1 << 16;
    const PAGE: usize = 4096;
    let mut bytes = Vec::new();
    while bytes.len() < MOST {
        let from = (name as usize).wrapping_add(bytes.len());
        // Up to the end of the page: the next one need not exist.
        let mut piece = vec![0u8; PAGE - from % PAGE];
        if driver::read_guest(from as u64, piece.as_mut_ptr() as u64, piece.len() as u64) != 0 {
            break;
        }
        let end = piece.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    String::new()
}

impl Registry {
    /// The library of a fat binary. Loads it the first time.
    fn library(&mut self, binary: u64) -> Result<u64, u32> {
        let binary = self.binaries.get_mut(&binary).ok_or(INVALID_FUNCTION)?;
        if let Some(loaded) = binary.library {
            return loaded;
        }
        let mut library = 0;
        let loaded = check(driver::cuLibraryLoadData(&raw mut library, binary.image, 0, 0, 0, 0, 0, 0));
        let loaded = loaded.map(|()| library);
        binary.library = Some(loaded);
        loaded
    }

    fn c_name(name: &str) -> Vec<u8> {
        name.bytes().chain([0]).collect()
    }
}

/// The handle of the kernel of a host function. Other handles of kernels are returned unchanged.
pub fn kernel(function: u64) -> Result<u64, u32> {
    let mut registry = registry();
    let Some(symbol) = registry.functions.get(&function).cloned() else {
        let mut threads = 0;
        let is_handle = driver::cuFuncGetAttribute(&raw mut threads, 0, function) == 0;
        return if is_handle { Ok(function) } else { Err(INVALID_FUNCTION) };
    };
    if let Some(kernel) = symbol.kernel {
        return Ok(kernel);
    }
    let library = registry.library(symbol.binary)?;
    let mut kernel = 0;
    let name = Registry::c_name(&symbol.name);
    check(driver::cuLibraryGetKernel(&raw mut kernel, library, name.as_ptr()))
        .map_err(|_| INVALID_FUNCTION)?;
    registry.names.insert(kernel, symbol.name.clone());
    registry.functions.insert(function, Symbol { kernel: Some(kernel), ..symbol });
    Ok(kernel)
}

/// The name of a kernel, for messages.
pub fn name(kernel: u64) -> String {
    registry().names.get(&kernel).cloned().unwrap_or_else(|| "a kernel".to_owned())
}

/// Address and size on the device of a host variable.
pub fn variable(symbol: u64) -> Result<(u64, u64), u32> {
    let mut registry = registry();
    let symbol = registry.variables.get(&symbol).cloned().ok_or(INVALID_SYMBOL)?;
    let library = registry.library(symbol.binary)?;
    let (mut address, mut bytes) = (0, 0);
    let name = Registry::c_name(&symbol.name);
    check(driver::cuLibraryGetGlobal(&raw mut address, &raw mut bytes, library, name.as_ptr()))
        .map_err(|_| INVALID_SYMBOL)?;
    Ok((address, bytes))
}

/// `__cudaRegisterFatBinary`: takes the wrapper of a fat binary, returns a handle.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinary(image: u64) -> *mut u64 {
    let mut registry = registry();
    registry.made += 1;
    // nvcc's code passes the handle back, and never looks at what is there.
    let handle = 0x0000_0300_0000_0000 + registry.made * 0x10;
    registry.binaries.insert(handle, Binary { image, library: None, managed: Vec::new() });
    handle as *mut u64
}

/// `__cudaRegisterFatBinaryEnd`: everything of a fat binary is registered.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_binary: u64) {}

/// `__cudaUnregisterFatBinary`: the program or a library of it ends.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(binary: u64) {
    let mut registry = registry();
    if let Some(gone) = registry.binaries.remove(&binary)
        && let Some(Ok(library)) = gone.library
    {
        driver::cuLibraryUnload(library);
    }
    registry.functions.retain(|_, symbol| symbol.binary != binary);
    registry.variables.retain(|_, symbol| symbol.binary != binary);
}

/// `__cudaRegisterFunction`: a kernel.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFunction(
    binary: u64,
    function: u64,
    _device_function: u64,
    name: *const c_char,
    _limit: i32,
    _thread: u64,
    _block: u64,
    _block_extents: u64,
    _grid_extents: u64,
    _warp_size: u64,
) {
    let symbol = Symbol { binary, name: text(name), kernel: None };
    registry().functions.insert(function, symbol);
}

/// `__cudaRegisterVar`: a variable of the device.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterVar(
    binary: u64,
    variable: u64,
    _address: u64,
    name: *const c_char,
    _external: i32,
    _bytes: u64,
    _constant: i32,
    _global: i32,
) {
    let symbol = Symbol { binary, name: text(name), kernel: None };
    registry().variables.insert(variable, symbol);
}

/// `__cudaRegisterManagedVar`: a variable in managed memory.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterManagedVar(
    binary: u64,
    pointer: u64,
    _address: u64,
    name: *const c_char,
    _external: i32,
    bytes: u64,
    _constant: i32,
    _global: i32,
) {
    if let Some(binary) = registry().binaries.get_mut(&binary) {
        binary.managed.push((pointer, text(name), bytes));
    }
}

/// `__cudaRegisterTexture`: texture references exist no more since CUDA 12.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterTexture() {
    say_once("texture", "the program has texture references, which CUDA 12 removed; use texture objects");
}

/// `__cudaRegisterSurface`: surface references exist no more since CUDA 12.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterSurface() {
    say_once("surface", "the program has surface references, which CUDA 12 removed; use surface objects");
}

/// `__cudaInitModule`: called before the first use of a managed variable.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(binary: u64) -> i8 {
    let ready = driver::make_ready().and_then(|()| registry().library(binary).map(|_| ()));
    let placed = ready.and_then(|()| place_managed(binary));
    if placed.is_err() {
        crate::missing::unsupported("variables in managed memory (__managed__)");
    }
    i8::from(placed.is_ok())
}

/// Gives the host the addresses of variables in managed memory.
fn place_managed(binary: u64) -> Outcome {
    let mut registry = registry();
    let library = registry.library(binary)?;
    let managed = registry.binaries.get(&binary).map(|it| it.managed.clone()).unwrap_or_default();
    for (pointer, name, _) in managed {
        let name = Registry::c_name(&name);
        let (mut address, mut bytes) = (0u64, 0u64);
        check(driver::cuLibraryGetManaged(&raw mut address, &raw mut bytes, library, name.as_ptr()))?;
        crate::api::write(pointer as *mut u64, address)?;
        let symbol = Symbol { binary, name: text(name.as_ptr().cast()), kernel: None };
        // Host code may pass the address of the memory or of the pointer to it, so both name the variable.
        registry.variables.insert(address, symbol.clone());
        registry.variables.insert(pointer, symbol);
    }
    Ok(())
}
