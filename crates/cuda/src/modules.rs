//! Modules and libraries: PTX that is ready to run, and its variables.

use std::sync::{Arc, Mutex, PoisonError};

use execlog::HostKind;

use crate::errors::{Outcome, Status};
use crate::fat_binary::{ImageError, ptx_at};
use crate::functions::{Function, Module};
use crate::guest;
use crate::memory::Kind;
use crate::{State, state, usable};

/// Code that the program links at run time.
#[derive(Debug, Default)]
pub struct LinkState {
    texts: Vec<String>,
    /// The linked code, which the program reads at its address.
    linked: Option<Box<[u8]>>,
}

/// Is added to a PTX text without kernels, because the virtual GPU refuses such a text.
const NO_KERNEL: &str = "\n.visible .entry warpsmith_no_kernel()\n{\n\tret;\n}\n";

/// The hint for a program without PTX.
const ADD_PTX: &str =
    "add PTX: `nvcc -gencode arch=compute_90,code=compute_90`, or -DCMAKE_CUDA_ARCHITECTURES=90-virtual";

/// The hint for a program with PTX for newer devices only.
const NEWER_DEVICE: &str = "run it on a newer device, such as `warpsmith exec --device virtual:h200`";

/// Joins PTX texts into one, which has the directives of a file only once.
pub fn linked(texts: &[String]) -> String {
    let Some((first, rest)) = texts.split_first() else { return String::new() };
    let mut all = first.clone();
    for text in rest {
        let body = text.lines().filter(|line| {
            let line = line.trim_start();
            ![".version", ".target", ".address_size"].iter().any(|directive| line.starts_with(directive))
        });
        all.push('\n');
        all.extend(body.flat_map(|line| [line, "\n"]));
    }
    all
}

fn load(text: &str) -> Result<vgpu::Module, vgpu::LoadError> {
    match vgpu::load(text) {
        Err(error) if error.diagnostics.iter().any(|it| it.message == "module has no kernel (.entry)") => {
            vgpu::load(&format!("{text}{NO_KERNEL}"))
        }
        other => other,
    }
}

impl State {
    /// Loads the image at an address of the program.
    pub fn load_image(&mut self, image: u64) -> Result<Arc<Module>, Status> {
        let device = self.chip.limits().compute_capability;
        let texts = ptx_at(image, device).map_err(|error| match error {
            ImageError::Invalid(reason) => {
                eprintln!("warpsmith: cannot load a module: {reason}");
                Status::INVALID_IMAGE
            }
            ImageError::NoPtx(reason) => {
                self.refuse_image(&format!("{reason}; the virtual GPU runs PTX"), ADD_PTX)
            }
            ImageError::NewerPtx(reason) => self.refuse_image(&reason, NEWER_DEVICE),
        })?;
        self.load_text(&linked(&texts))
    }

    fn refuse_image(&mut self, reason: &str, advice: &str) -> Status {
        let message = format!("cannot load a module: {reason}");
        eprintln!("warpsmith: {message}\nwarpsmith: {advice}");
        self.report(HostKind::Unsupported, format!("{message}; {advice}"));
        Status::NO_BINARY_FOR_GPU
    }

    /// Loads PTX.
    pub fn load_text(&mut self, text: &str) -> Result<Arc<Module>, Status> {
        let code = load(text).map_err(|error| {
            eprintln!("warpsmith: the virtual GPU cannot run this code:\n{error}");
            self.report(HostKind::Unsupported, format!("the virtual GPU cannot run this code: {error}"));
            Status::INVALID_PTX
        })?;
        let mut managed = Vec::new();
        for (name, bytes) in vgpu::Device::managed(&code) {
            let address = self.allocate_variable(&name, bytes)?;
            managed.push((name, vgpu::Buffer(address)));
        }
        if !managed.is_empty() {
            self.memory.place_in(&code, &managed).map_err(|_| Status::OUT_OF_MEMORY)?;
        }
        let managed = managed.into_iter().map(|(_, at)| at.0).collect();
        Ok(Arc::new(Module { code, functions: Mutex::default(), managed }))
    }

    /// The handle of a function of a module.
    pub fn function_of(&mut self, module: &Arc<Module>, name: &str) -> Result<u64, Status> {
        let known = module.functions.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        if let Some(handle) = known {
            return Ok(handle);
        }
        if module.code.kernel(name).is_none() && module.code.refusal(name).is_none() {
            return Err(Status::NOT_FOUND);
        }
        let handle = self.functions.add(Function::new(module.clone(), name));
        let mut functions = module.functions.lock().unwrap_or_else(PoisonError::into_inner);
        functions.insert(name.to_owned(), handle);
        Ok(handle)
    }

    fn unload(&mut self, module: &Module) {
        let functions = module.functions.lock().unwrap_or_else(PoisonError::into_inner);
        for handle in functions.values() {
            let _ = self.functions.remove(*handle);
        }
        for address in &module.managed {
            let _ = self.release(*address);
        }
    }

    /// Address and size of a variable.
    fn variable(&mut self, module: &Module, name: &str) -> Result<(u64, u64), Status> {
        match self.memory.symbol(&module.code, name) {
            Ok(Some((at, bytes))) => Ok((at.0, bytes)),
            Ok(None) => Err(Status::NOT_FOUND),
            Err(_) => Err(Status::OUT_OF_MEMORY),
        }
    }

    fn tell_variable(&mut self, module: &Module, name: &str, place: *mut u64, bytes: *mut u64) -> Outcome {
        match self.variable(module, name) {
            Ok((at, size)) => {
                guest::write_optional(place, at)?;
                guest::write_optional(bytes, size)
            }
            Err(Status::NOT_FOUND) => {
                let elsewhere: Vec<_> =
                    self.modules.iter().chain(self.libraries.iter()).map(|(_, it)| it.clone()).collect();
                let is_elsewhere =
                    elsewhere.iter().any(|it| matches!(self.memory.symbol(&it.code, name), Ok(Some(_))));
                let hint = if is_elsewhere { "; another module has one of that name" } else { "" };
                self.report(HostKind::UnknownSymbol, format!("the module has no variable `{name}`{hint}"));
                Err(Status::NOT_FOUND)
            }
            Err(error) => Err(error),
        }
    }
}

fn load_module(place: *mut u64, image: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    guest::write(place, 0)?;
    let module = state.load_image(image)?;
    let handle = state.modules.add(module);
    guest::write(place, handle)
}

fn file(name: *const libc::c_char) -> Result<Vec<u8>, Status> {
    let name = guest::read_text(name)?;
    let mut bytes = std::fs::read(name).map_err(|_| Status::FILE_NOT_FOUND)?;
    bytes.push(0);
    Ok(bytes)
}

fn names(module: &Module) -> Vec<String> {
    let kernels = module.code.kernels.iter().map(|kernel| kernel.name.clone());
    let refused = module.code.refused.iter().map(|kernel| kernel.name.clone());
    kernels.chain(refused).filter(|name| name != "warpsmith_no_kernel").collect()
}

fn enumerate(state: &mut State, module: &Arc<Module>, into: *mut u64, most: u32) -> Outcome {
    let wanted: Vec<String> = names(module).into_iter().take(most as usize).collect();
    let handles: Vec<u64> =
        wanted.iter().map(|name| state.function_of(module, name)).collect::<Result<_, _>>()?;
    guest::write_many(into, &handles)
}

api! {
    fn cuModuleLoad(place: *mut u64, name: *const libc::c_char) {
        let image = file(name)?;
        load_module(place, image.as_ptr() as u64)
    }

    fn cuModuleLoadData(place: *mut u64, image: u64) {
        load_module(place, image)
    }

    fn cuModuleLoadDataEx(place: *mut u64, image: u64, _count: u32, _options: u64, _values: u64) {
        load_module(place, image)
    }

    fn cuModuleLoadFatBinary(place: *mut u64, image: u64) {
        load_module(place, image)
    }

    fn cuModuleUnload(module: u64) {
        let mut state = state()?;
        let module = state.modules.remove(module)?;
        state.unload(&module);
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: *mut u32) {
        guest::write(mode, 1)
    }

    fn cuModuleGetFunction(place: *mut u64, module: u64, name: *const libc::c_char) {
        let mut state = usable()?;
        let module = state.modules.get(module)?.clone();
        let name = guest::read_text(name)?;
        guest::write(place, 0)?;
        let handle = state.function_of(&module, &name)?;
        guest::write(place, handle)
    }

    fn cuModuleGetFunctionCount(count: *mut u32, module: u64) {
        let state = usable()?;
        guest::write(count, names(state.modules.get(module)?).len() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: *mut u64, most: u32, module: u64) {
        let mut state = usable()?;
        let module = state.modules.get(module)?.clone();
        enumerate(&mut state, &module, functions, most)
    }

    fn cuModuleGetGlobal_v2(place: *mut u64, bytes: *mut u64, module: u64, name: *const libc::c_char) {
        let mut state = usable()?;
        let module = state.modules.get(module)?.clone();
        let name = guest::read_text(name)?;
        state.tell_variable(&module, &name, place, bytes)
    }

    fn cuLibraryLoadData(
        place: *mut u64, code: u64, _options: u64, _values: u64, _count: u32, _library_options: u64,
        _library_values: u64, _library_count: u32,
    ) {
        let mut state = usable()?;
        guest::write(place, 0)?;
        let library = state.load_image(code)?;
        let handle = state.libraries.add(library);
        guest::write(place, handle)
    }

    fn cuLibraryLoadFromFile(
        place: *mut u64, name: *const libc::c_char, _options: u64, _values: u64, _count: u32, _library_options: u64,
        _library_values: u64, _library_count: u32,
    ) {
        let image = file(name)?;
        let mut state = usable()?;
        guest::write(place, 0)?;
        let library = state.load_image(image.as_ptr() as u64)?;
        let handle = state.libraries.add(library);
        guest::write(place, handle)
    }

    fn cuLibraryUnload(library: u64) {
        let mut state = state()?;
        let library = state.libraries.remove(library)?;
        state.unload(&library);
        Ok(())
    }

    fn cuLibraryGetKernel(place: *mut u64, library: u64, name: *const libc::c_char) {
        let mut state = usable()?;
        let library = state.libraries.get(library)?.clone();
        let name = guest::read_text(name)?;
        guest::write(place, 0)?;
        let handle = state.function_of(&library, &name)?;
        guest::write(place, handle)
    }

    fn cuLibraryGetKernelCount(count: *mut u32, library: u64) {
        let state = usable()?;
        guest::write(count, names(state.libraries.get(library)?).len() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: *mut u64, most: u32, library: u64) {
        let mut state = usable()?;
        let library = state.libraries.get(library)?.clone();
        enumerate(&mut state, &library, kernels, most)
    }

    fn cuLibraryGetModule(place: *mut u64, library: u64) {
        let mut state = usable()?;
        let library = state.libraries.get(library)?.clone();
        let known = state.modules.iter().find(|(_, it)| Arc::ptr_eq(it, &library)).map(|(handle, _)| handle);
        let handle = known.unwrap_or_else(|| state.modules.add(library));
        guest::write(place, handle)
    }

    fn cuLibraryGetGlobal(place: *mut u64, bytes: *mut u64, library: u64, name: *const libc::c_char) {
        let mut state = usable()?;
        let library = state.libraries.get(library)?.clone();
        let name = guest::read_text(name)?;
        state.tell_variable(&library, &name, place, bytes)
    }

    fn cuLibraryGetManaged(place: *mut u64, bytes: *mut u64, library: u64, name: *const libc::c_char) {
        let mut state = usable()?;
        let library = state.libraries.get(library)?.clone();
        let name = guest::read_text(name)?;
        let (at, size) = state.variable(&library, &name)?;
        if !state.allocation(at).is_some_and(|it| matches!(it.kind, Kind::Managed(_))) {
            return Err(Status::NOT_FOUND);
        }
        guest::write_optional(place, at)?;
        guest::write_optional(bytes, size)
    }

    fn cuKernelGetFunction(place: *mut u64, kernel: u64) {
        usable()?.functions.get(kernel)?;
        guest::write(place, kernel)
    }

    fn cuKernelGetLibrary(place: *mut u64, kernel: u64) {
        let state = usable()?;
        let module = state.functions.get(kernel)?.module.clone();
        let found = state.libraries.iter().find(|(_, it)| Arc::ptr_eq(it, &module)).map(|(handle, _)| handle);
        guest::write(place, found.ok_or(Status::NOT_FOUND)?)
    }

    fn cuLinkCreate_v2(_count: u32, _options: u64, _values: u64, place: *mut u64) {
        let mut state = usable()?;
        guest::write(place, 0)?;
        let handle = state.links.add(LinkState::default());
        guest::write(place, handle)
    }

    fn cuLinkAddData_v2(
        link: u64, kind: u32, data: u64, bytes: u64, _name: u64, _count: u32, _options: u64, _values: u64,
    ) {
        let mut state = usable()?;
        state.links.get(link)?;
        // The texts need not end with a zero, so they are copied.
        let mut image = vec![0; usize::try_from(bytes).ok().filter(|it| *it < 1 << 31).ok_or(Status::INVALID_VALUE)?];
        guest::read_bytes(data, &mut image).map_err(|_| Status::INVALID_VALUE)?;
        image.push(0);
        add_code(&mut state, link, kind, &image)
    }

    fn cuLinkAddFile_v2(link: u64, kind: u32, name: *const libc::c_char, _count: u32, _options: u64, _values: u64) {
        let image = file(name)?;
        let mut state = usable()?;
        state.links.get(link)?;
        add_code(&mut state, link, kind, &image)
    }

    fn cuLinkComplete(link: u64, image: *mut u64, bytes: *mut u64) {
        let mut state = usable()?;
        let link = state.links.get_mut(link)?;
        let mut text = linked(&link.texts).into_bytes();
        text.push(0);
        let text = link.linked.insert(text.into_boxed_slice());
        guest::write(image, text.as_ptr() as u64)?;
        guest::write_optional(bytes, text.len() as u64)
    }

    fn cuLinkDestroy(link: u64) {
        state()?.links.remove(link).map(|_| ())
    }
}

/// Adds code to link: PTX (kind 1) or a fat binary (kind 2).
fn add_code(state: &mut State, link: u64, kind: u32, image: &[u8]) -> Outcome {
    let device = state.chip.limits().compute_capability;
    match kind {
        1 | 2 => {
            let texts = ptx_at(image.as_ptr() as u64, device).map_err(|_| Status::INVALID_IMAGE)?;
            state.links.get_mut(link)?.texts.extend(texts);
            Ok(())
        }
        // Libraries such as libcudadevrt: what they define cannot be run, and kernels that need it are refused.
        3 | 4 => Ok(()),
        _ => Err(Status::NO_BINARY_FOR_GPU),
    }
}
