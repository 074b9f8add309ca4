//! NVRTC, loaded at run time: typed bindings for the functions we call. Every failure is an error value.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

use crate::toolchain::{MINIMUM_MAJOR, Toolchain};

type Program = *mut std::ffi::c_void;
type Status = c_int;

const SUCCESS: Status = 0;
const COMPILATION_FAILED: Status = 6;

/// An error of NVRTC or of loading it.
#[derive(Debug, thiserror::Error)]
pub enum NvrtcError {
    /// The library or one of its functions cannot be loaded.
    #[error("cannot load {}: {reason}", library.display())]
    Load {
        /// The library's file.
        library: PathBuf,
        /// The loader's reason.
        reason: String,
    },
    /// The library is older than the oldest supported version.
    #[error("{} is NVRTC {found}, which is older than {MINIMUM_MAJOR}.0", library.display())]
    TooOld {
        /// The library's file.
        library: PathBuf,
        /// The version of the library.
        found: Version,
    },
    /// A call of NVRTC failed for another reason than an error in the source.
    #[error("{call} failed: {reason}")]
    Call {
        /// The name of the NVRTC function.
        call: &'static str,
        /// NVRTC's reason.
        reason: String,
    },
    /// Another process has had such an error.
    #[error("{reason}")]
    Reported {
        /// The error in words.
        reason: String,
    },
    /// A text for NVRTC contains a NUL byte.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which text, in words.
        what: &'static str,
    },
    /// The source does not compile; `log` is the compiler's log.
    #[error("compilation failed")]
    Compilation {
        /// The compiler's log.
        log: String,
    },
}

/// NVRTC's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number before the dot: 13 of 13.0.
    pub major: u32,
    /// The number after the dot: 0 of 13.0.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The result of a successful compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The PTX text.
    pub ptx: String,
    /// Empty for a virtual architecture (`compute_80`).
    pub cubin: Vec<u8>,
    /// The compiler's log, with warnings and the assembler's report.
    pub log: String,
    /// The function names of the name expressions, in their order.
    pub lowered_names: Vec<String>,
}

/// The loaded library. NVRTC allows calls from several threads at once, each on its own program.
#[derive(Debug)]
pub struct Nvrtc {
    api: Api,
    version: Version,
    // The last field, so that the libraries outlive the function pointers above.
    _libraries: Vec<Library>,
}

/// Function pointers from the library.
#[derive(Debug)]
struct Api {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    add_name: unsafe extern "C" fn(Program, *const c_char) -> Status,
    lowered_name: unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> Status,
}

impl Nvrtc {
    /// Loads the toolchain's library, its built-ins first. NVRTC loads the built-ins by name only and does not find
    /// them outside the loader's path, unless they are already loaded.
    pub fn load(toolchain: &Toolchain) -> Result<Self, NvrtcError> {
        let open = |path: &Path, scope| {
            // SAFETY: loading runs the library's initialisers. NVRTC and its built-ins are designed to be loaded like
            // this.
            unsafe { Library::open(Some(path), RTLD_NOW | scope) }
                .map_err(|error| NvrtcError::Load { library: path.to_owned(), reason: with_causes(&error) })
        };
        let mut libraries = Vec::new();
        if let Some(builtins) = &toolchain.builtins {
            libraries.push(open(builtins, RTLD_GLOBAL)?);
        }
        let library = open(&toolchain.nvrtc, RTLD_LOCAL)?;
        let api = Api::from_library(&library).map_err(|error| NvrtcError::Load {
            library: toolchain.nvrtc.clone(),
            reason: with_causes(&error),
        })?;
        libraries.push(library);

        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for the call.
        let status = unsafe { (api.version)(&raw mut major, &raw mut minor) };
        api.check("nvrtcVersion", status)?;
        let version = Version { major: major as u32, minor: minor as u32 };
        if version.major < MINIMUM_MAJOR {
            return Err(NvrtcError::TooOld { library: toolchain.nvrtc.clone(), found: version });
        }
        Ok(Nvrtc { api, version, _libraries: libraries })
    }

    /// The version of the loaded library.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Compiles `source` (called `name` in messages and line tables) with `headers` as (name, text). `instances` are
    /// name expressions of kernels, such as `scale<float>`; the compiler instantiates their templates.
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(String, String)],
        instances: &[String],
        options: &[String],
    ) -> Result<Compiled, NvrtcError> {
        let program = OpenProgram::new(&self.api, name, source, headers)?;
        let instances = c_strings(instances.iter().map(String::as_str), "a name expression")?;
        for instance in &instances {
            // SAFETY: the program is open, and the text lives to the end of the call.
            let status = unsafe { (self.api.add_name)(program.handle, instance.as_ptr()) };
            self.api.check("nvrtcAddNameExpression", status)?;
        }
        let options = c_strings(options.iter().map(String::as_str), "a compiler option")?;
        let pointers = pointers(&options);
        // SAFETY: the program is open; the option pointers live to the end of the call.
        let status =
            unsafe { (self.api.compile)(program.handle, pointers.len() as c_int, pointers.as_ptr()) };
        let log = program.log()?;
        if status == COMPILATION_FAILED {
            return Err(NvrtcError::Compilation { log });
        }
        self.api.check("nvrtcCompileProgram", status)?;
        let lowered_names = instances.iter().map(|it| program.lowered_name(it)).collect::<Result<_, _>>()?;
        Ok(Compiled { ptx: program.ptx()?, cubin: program.cubin()?, log, lowered_names })
    }
}

impl Api {
    fn from_library(library: &Library) -> Result<Self, libloading::Error> {
        /// One symbol, with the function type of the field.
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the name and the type are those of nvrtc.h, stable since CUDA 11.1.
                unsafe { *library.get($name)? }
            };
        }
        Ok(Api {
            version: symbol!("nvrtcVersion"),
            error_string: symbol!("nvrtcGetErrorString"),
            create: symbol!("nvrtcCreateProgram"),
            destroy: symbol!("nvrtcDestroyProgram"),
            compile: symbol!("nvrtcCompileProgram"),
            log_size: symbol!("nvrtcGetProgramLogSize"),
            log: symbol!("nvrtcGetProgramLog"),
            ptx_size: symbol!("nvrtcGetPTXSize"),
            ptx: symbol!("nvrtcGetPTX"),
            cubin_size: symbol!("nvrtcGetCUBINSize"),
            cubin: symbol!("nvrtcGetCUBIN"),
            add_name: symbol!("nvrtcAddNameExpression"),
            lowered_name: symbol!("nvrtcGetLoweredName"),
        })
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), NvrtcError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static string for every status, also for an unknown one.
        let reason = unsafe { CStr::from_ptr((self.error_string)(status)) };
        Err(NvrtcError::Call { call, reason: reason.to_string_lossy().into_owned() })
    }
}

/// A program that is destroyed when it goes out of scope.
struct OpenProgram<'a> {
    api: &'a Api,
    handle: Program,
}

impl<'a> OpenProgram<'a> {
    fn new(api: &'a Api, name: &str, source: &str, headers: &[(String, String)]) -> Result<Self, NvrtcError> {
        let name = CString::new(name).map_err(|_| NvrtcError::Nul { what: "the file name" })?;
        let source = CString::new(source).map_err(|_| NvrtcError::Nul { what: "the source" })?;
        let names = c_strings(headers.iter().map(|(name, _)| name.as_str()), "a header's name")?;
        let texts = c_strings(headers.iter().map(|(_, text)| text.as_str()), "a header")?;
        let (names, texts) = (pointers(&names), pointers(&texts));
        let mut handle = ptr::null_mut();
        // SAFETY: all strings outlive the call, which copies them; the two arrays have `headers.len()` entries.
        let status = unsafe {
            (api.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        api.check("nvrtcCreateProgram", status)?;
        Ok(OpenProgram { api, handle })
    }

    /// Reads one of the program's outputs: first its size, then its bytes.
    fn read(
        &self,
        call: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        bytes: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut length = 0;
        // SAFETY: the program is open and `length` is valid for the call.
        self.api.check(call, unsafe { size(self.handle, &raw mut length) })?;
        let mut buffer = vec![0_u8; length];
        if length > 0 {
            // SAFETY: the buffer has exactly the size that NVRTC reported.
            self.api.check(call, unsafe { bytes(self.handle, buffer.as_mut_ptr().cast()) })?;
        }
        Ok(buffer)
    }

    fn text(mut bytes: Vec<u8>) -> String {
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn log(&self) -> Result<String, NvrtcError> {
        self.read("nvrtcGetProgramLog", self.api.log_size, self.api.log).map(Self::text)
    }

    fn ptx(&self) -> Result<String, NvrtcError> {
        self.read("nvrtcGetPTX", self.api.ptx_size, self.api.ptx).map(Self::text)
    }

    fn cubin(&self) -> Result<Vec<u8>, NvrtcError> {
        self.read("nvrtcGetCUBIN", self.api.cubin_size, self.api.cubin)
    }

    /// The function name of a name expression that was added before the compilation.
    fn lowered_name(&self, expression: &CStr) -> Result<String, NvrtcError> {
        let mut name = ptr::null();
        // SAFETY: the program is open and compiled; NVRTC returns a string that lives as long as the program.
        let status = unsafe { (self.api.lowered_name)(self.handle, expression.as_ptr(), &raw mut name) };
        self.api.check("nvrtcGetLoweredName", status)?;
        // SAFETY: the call succeeded, so the pointer is a string of the open program.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from nvrtcCreateProgram and is destroyed once. A failure would only leak memory.
        unsafe { (self.api.destroy)(&raw mut self.handle) };
    }
}

/// An error with its causes. The loader's own message is the cause of the library's error.
fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_causes(source)),
        None => error.to_string(),
    }
}

fn c_strings<'a>(
    texts: impl Iterator<Item = &'a str>,
    what: &'static str,
) -> Result<Vec<CString>, NvrtcError> {
    texts.map(|text| CString::new(text).map_err(|_| NvrtcError::Nul { what })).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::Origin;

    fn toolchain_with(library: &Path) -> Toolchain {
        Toolchain {
            origin: Origin::Named,
            root: library.parent().unwrap().to_owned(),
            nvrtc: library.to_owned(),
            builtins: None,
            nvjitlink: None,
            includes: Vec::new(),
        }
    }

    #[test]
    fn a_missing_library_is_an_error() {
        let error = Nvrtc::load(&toolchain_with(Path::new("/nowhere/libnvrtc.so.13"))).unwrap_err();
        assert!(matches!(error, NvrtcError::Load { .. }), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_library_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("libnvrtc.so.13");
        std::fs::write(&file, "not a library").unwrap();
        let error = Nvrtc::load(&toolchain_with(&file)).unwrap_err();
        assert!(matches!(error, NvrtcError::Load { .. }), "{error}");
    }

    #[test]
    fn a_library_without_the_symbols_is_an_error() {
        // Any other shared library works; the C library is always loaded.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc =
            maps.lines().find_map(|line| line.split_whitespace().last().filter(|p| p.contains("libc.so")));
        let error = Nvrtc::load(&toolchain_with(Path::new(libc.expect("libc is mapped")))).unwrap_err();
        assert!(error.to_string().contains("nvrtcVersion"), "{error}");
    }
}
