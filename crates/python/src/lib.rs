//! The native module of the Python package. `load` gets the code of a file, and `launch` runs one of its kernels on
//! the virtual GPU. `attention` computes attention on a GPU or the virtual GPU. Everything that needs Python objects (arrays, names, reports) is in
//! `python/warpsmith`; this module gets and returns plain values and bytes.

// Python's values are extracted into owned ones.
#![allow(clippy::needless_pass_by_value)]

mod argument;
mod attention;
mod exchange;
mod known;
mod launch;

use std::path::{Path, PathBuf};

use compiler::toolchain;
use compiler::{BuildError, Compiler};
use gpu::device::Selector;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use sanitize::code::{self, Code as LoadedCode};
use sanitize::{Renderer, SanitizeError};

create_exception!(warpsmith, WarpsmithError, PyException, "An error of Warpsmith.");
create_exception!(warpsmith, UsageError, WarpsmithError, "A wrong kernel, launch or argument.");
create_exception!(warpsmith, CompileError, WarpsmithError, "A source that does not compile.");
create_exception!(warpsmith, UnsupportedError, WarpsmithError, "Code that the virtual GPU cannot run.");
create_exception!(
    warpsmith,
    ToolchainError,
    WarpsmithError,
    "There is no CUDA compiler, and none can be installed."
);

/// Code with one selected kernel.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
struct Code {
    loaded: LoadedCode,
    device: &'static chips::Chip,
    file: PathBuf,
    text: String,
    include: Vec<PathBuf>,
    is_ptx: bool,
    params: Vec<vgpu::Param>,
}

#[pymethods]
impl Code {
    /// The kernel's function name.
    #[getter]
    fn kernel(&self) -> &str {
        &self.loaded.kernels[0]
    }

    /// The kernel's name in C++, without parameters.
    #[getter]
    fn readable(&self) -> String {
        sanitize::readable(self.kernel())
    }

    /// The kernel's parameters: name, type, bytes, and whether the PTX declares a pointer.
    #[getter]
    fn params(&self) -> Vec<(String, String, u32, bool)> {
        let row = |it: &vgpu::Param| (it.name.clone(), it.to_string(), it.bytes, it.pointer);
        self.params.iter().map(row).collect()
    }

    /// What was left out so that the file compiles.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.loaded.notes()
    }

    /// The PTX text.
    #[getter]
    fn ptx(&self) -> &str {
        &self.loaded.ptx
    }
}

/// Loads PTX, or compiles CUDA C++. `file` is the name of the source in messages, and its folder has the headers.
#[pyfunction]
#[pyo3(signature = (text, file, *, is_ptx=None, kernel=None, device="virtual", target=None, define=Vec::new(),
    include=Vec::new(), cuda=None))]
#[allow(clippy::too_many_arguments, reason = "the keyword arguments of a Python function")]
fn load(
    py: Python<'_>,
    text: String,
    file: PathBuf,
    is_ptx: Option<bool>,
    kernel: Option<String>,
    device: &str,
    target: Option<&str>,
    define: Vec<String>,
    include: Vec<PathBuf>,
    cuda: Option<PathBuf>,
) -> PyResult<Code> {
    let chip = chip(device)?;
    let target = match target {
        Some(name) => name
            .parse()
            .map_err(|error: chips::UnknownTarget| UsageError::new_err(format!("target: {error}")))?,
        None => chip.target,
    };
    let is_ptx = is_ptx.unwrap_or_else(|| code::is_ptx(&file, &text));
    py.detach(|| {
        let wanted = [kernel.as_deref()];
        let code = if is_ptx {
            code::from_ptx(&text, &wanted)
        } else {
            let request = code::request(&file, &text, target, &define, &include);
            code::from_cuda(&compiler(cuda.as_deref())?, request, &wanted)
        };
        let code = code.map_err(|error| raised(&error))?;
        let params = params(&code).map_err(|error| raised(&error))?;
        Ok(Code { loaded: code, device: chip, file, text, include, is_ptx, params })
    })
}

/// The virtual GPU that a text selects.
fn chip(device: &str) -> PyResult<&'static chips::Chip> {
    let selector: Selector = device
        .parse()
        .map_err(|error: gpu::device::SelectorError| UsageError::new_err(format!("device: {error}")))?;
    match selector {
        Selector::Auto => chip("virtual"),
        Selector::Virtual(chip) => Ok(chip),
        Selector::Cuda(_) => Err(UsageError::new_err(
            "device: the checkers need the virtual GPU\nhint: use `virtual:l4`, `virtual:a100` or another virtual GPU",
        )),
    }
}

/// The compiler. It is installed first if the machine has none.
fn compiler(cuda: Option<&Path>) -> PyResult<Compiler> {
    let toolchain = toolchain::ensure(cuda, &mut |_| ())
        .map_err(|error| ToolchainError::new_err(toolchain_text(&error)))?;
    Compiler::new(toolchain, &files::cache_dir()).map_err(|error| ToolchainError::new_err(error.to_string()))
}

/// Why there is no compiler, and what helps.
fn toolchain_text(error: &toolchain::ToolchainError) -> String {
    match error {
        toolchain::ToolchainError::Install(cause) => format!("{error}\nhint: {}", cause.remedy()),
        toolchain::ToolchainError::NamedUnusable { .. } => error.to_string(),
    }
}

/// The parameters of the selected kernel.
fn params(code: &LoadedCode) -> Result<Vec<vgpu::Param>, SanitizeError> {
    let module = vgpu::load(&code.ptx).map_err(|error| SanitizeError::unsupported(error.to_string()))?;
    let name = &code.kernels[0];
    if let Some(error) = module.refusal(name) {
        return Err(SanitizeError::unsupported(format!("the virtual GPU cannot run this kernel: {error}")));
    }
    let kernel = module.kernel(name).ok_or_else(|| SanitizeError::usage("the code has no such kernel"))?;
    Ok(kernel.params.clone())
}

/// The Python exception for an error.
fn raised(error: &SanitizeError) -> PyErr {
    let with_hint = |hint: &Option<String>| match hint {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    };
    match error {
        SanitizeError::Usage { hint, .. } => UsageError::new_err(with_hint(hint)),
        SanitizeError::NotOneKernel { kernels } => {
            UsageError::new_err(format!("kernel: {error}; name one\nhint: {kernels}"))
        }
        SanitizeError::TemplateArguments { kernel, .. } => UsageError::new_err(format!(
            "kernel: {error}\nhint: if it is a template, name its arguments: `{kernel}<float>`"
        )),
        SanitizeError::Unsupported { hint, .. } => UnsupportedError::new_err(with_hint(hint)),
        SanitizeError::Build(BuildError::Source { diagnostics, .. }) => {
            let renderer = Renderer::plain();
            let shown = diagnostics.iter().map(|it| sanitize::snippet::diagnostic(it, &renderer));
            CompileError::new_err(format!("{error}\n{}", shown.collect::<Vec<_>>().join("\n")))
        }
        SanitizeError::Build(BuildError::Nvrtc(_) | BuildError::Io { .. }) => {
            ToolchainError::new_err(error.to_string())
        }
        SanitizeError::Build(_) => CompileError::new_err(error.to_string()),
    }
}

/// The properties of a virtual GPU: its name, its target and its sizes.
#[pyfunction]
fn device_properties(device: &str) -> PyResult<(String, String, u32, u32)> {
    let chip = chip(device)?;
    let limits = chip.limits();
    Ok((chip.id.to_owned(), chip.target.name().to_owned(), chip.sms, limits.shared_per_block_opt_in))
}

/// The native module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("WarpsmithError", py.get_type::<WarpsmithError>())?;
    module.add("UsageError", py.get_type::<UsageError>())?;
    module.add("CompileError", py.get_type::<CompileError>())?;
    module.add("UnsupportedError", py.get_type::<UnsupportedError>())?;
    module.add("ToolchainError", py.get_type::<ToolchainError>())?;
    module.add_class::<Code>()?;
    module.add_class::<known::KnownFindings>()?;
    module.add_class::<attention::AttentionDevice>()?;
    module.add_class::<attention::AttentionPlan>()?;
    module.add_class::<attention::ServedPlan>()?;
    module.add_class::<attention::AttentionExchange>()?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(launch::launch, module)?)?;
    module.add_function(wrap_pyfunction!(device_properties, module)?)?;
    Ok(())
}
