//! nvJitLink, loaded at run time: assembles PTX into machine code.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

type Handle = *mut c_void;
type Status = c_int;
type SizeFn = unsafe extern "C" fn(Handle, *mut usize) -> Status;
type BytesFn = unsafe extern "C" fn(Handle, *mut c_char) -> Status;

const SUCCESS: Status = 0;
const INPUT_PTX: c_int = 2;

/// Machine code, and what the assembler says about it.
#[derive(Debug)]
pub struct Assembled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// The assembler's report on the kernels.
    pub log: String,
}

/// An error of nvJitLink.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The library or one of its functions cannot be loaded.
    #[error("cannot load {library}: {reason}")]
    Load {
        /// The library's file.
        library: String,
        /// The loader's reason.
        reason: String,
    },
    /// The PTX has errors; the text is the assembler's log.
    #[error("{log}")]
    Source {
        /// The assembler's log.
        log: String,
    },
    /// A call failed for another reason.
    #[error("{call} failed with status {status}")]
    Call {
        /// The name of the function.
        call: &'static str,
        /// Its result.
        status: i32,
    },
}

/// Function pointers from the library.
struct Api {
    create: unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> Status,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    add: unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> Status,
    complete: unsafe extern "C" fn(Handle) -> Status,
    cubin_size: SizeFn,
    cubin: BytesFn,
    error_size: SizeFn,
    error: BytesFn,
    info_size: SizeFn,
    info: BytesFn,
}

impl Api {
    fn from_library(library: &Library) -> Result<Self, libloading::Error> {
        /// One symbol, with the function type of the field.
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the name and the type are those of nvJitLink.h, stable since CUDA 12.0.
                unsafe { *library.get($name)? }
            };
        }
        Ok(Api {
            create: symbol!("nvJitLinkCreate"),
            destroy: symbol!("nvJitLinkDestroy"),
            add: symbol!("nvJitLinkAddData"),
            complete: symbol!("nvJitLinkComplete"),
            cubin_size: symbol!("nvJitLinkGetLinkedCubinSize"),
            cubin: symbol!("nvJitLinkGetLinkedCubin"),
            error_size: symbol!("nvJitLinkGetErrorLogSize"),
            error: symbol!("nvJitLinkGetErrorLog"),
            info_size: symbol!("nvJitLinkGetInfoLogSize"),
            info: symbol!("nvJitLinkGetInfoLog"),
        })
    }
}

/// A linker that is open, and closed when dropped.
struct Linker<'a> {
    api: &'a Api,
    handle: Handle,
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is open and is not used again.
        unsafe { (self.api.destroy)(&raw mut self.handle) };
    }
}

impl Linker<'_> {
    fn bytes(&self, size: SizeFn, bytes: BytesFn) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: the handle is open, and the pointer is valid for the call.
        if unsafe { size(self.handle, &raw mut length) } != SUCCESS {
            return Vec::new();
        }
        let mut buffer = vec![0u8; length];
        // SAFETY: the buffer has the length that the library asked for.
        if length == 0 || unsafe { bytes(self.handle, buffer.as_mut_ptr().cast()) } != SUCCESS {
            return Vec::new();
        }
        buffer
    }

    fn text(&self, size: SizeFn, bytes: BytesFn) -> String {
        let text = self.bytes(size, bytes);
        String::from_utf8_lossy(&text).trim_end_matches('\0').trim_end().to_owned()
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), AssembleError> {
        if status == SUCCESS {
            return Ok(());
        }
        let log = self.text(self.api.error_size, self.api.error);
        Err(if log.is_empty() { AssembleError::Call { call, status } } else { AssembleError::Source { log } })
    }
}

/// Assembles a PTX text, called `name` in messages, with nvJitLink's options.
pub fn assemble(
    library: &Path,
    name: &str,
    ptx: &str,
    options: &[String],
) -> Result<Assembled, AssembleError> {
    let load = |reason: String| AssembleError::Load { library: library.display().to_string(), reason };
    // SAFETY: loading runs the library's initialisers. nvJitLink is designed to be loaded like this.
    let opened = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
    let opened = opened.map_err(|error| load(error.to_string()))?;
    let api = Api::from_library(&opened).map_err(|error| load(error.to_string()))?;
    let source = |text: &str| AssembleError::Source { log: format!("{text} contains a NUL byte") };
    let options: Vec<CString> = options
        .iter()
        .map(|option| CString::new(option.as_str()).map_err(|_| source("an option")))
        .collect::<Result<_, _>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let (name, text) = (
        CString::new(name).map_err(|_| source("the name"))?,
        CString::new(ptx).map_err(|_| source("the PTX"))?,
    );
    let mut handle = ptr::null_mut();
    // SAFETY: the option pointers live to the end of the call.
    let status = unsafe { (api.create)(&raw mut handle, pointers.len() as u32, pointers.as_ptr()) };
    if status != SUCCESS {
        return Err(AssembleError::Call { call: "nvJitLinkCreate", status });
    }
    let linker = Linker { api: &api, handle };
    let bytes = text.as_bytes_with_nul();
    // SAFETY: the handle is open; the text and the name live to the end of the call.
    let status =
        unsafe { (api.add)(linker.handle, INPUT_PTX, bytes.as_ptr().cast(), bytes.len(), name.as_ptr()) };
    linker.check("nvJitLinkAddData", status)?;
    // SAFETY: the handle is open.
    let status = unsafe { (api.complete)(linker.handle) };
    linker.check("nvJitLinkComplete", status)?;
    Ok(Assembled {
        cubin: linker.bytes(api.cubin_size, api.cubin),
        log: linker.text(api.info_size, api.info),
    })
}
