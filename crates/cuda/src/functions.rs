//! Modules, their functions (kernels), and the attributes of functions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::errors::{Outcome, Status};
use crate::guest;
use crate::{State, usable};

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    pub code: vgpu::Module,
    /// Handles of its functions by name.
    pub functions: Mutex<HashMap<String, u64>>,
    /// Addresses of its variables in managed memory.
    pub managed: Vec<u64>,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Function {
    pub module: Arc<Module>,
    pub name: String,
    /// The name with a zero at its end, for the program.
    c_name: Box<[u8]>,
    /// Attributes that the program has set.
    attributes: HashMap<u32, i32>,
}

const MAX_DYNAMIC_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;

impl Function {
    pub fn new(module: Arc<Module>, name: &str) -> Function {
        let c_name = name.bytes().chain([0]).collect();
        Function { module, name: name.to_owned(), c_name, attributes: HashMap::new() }
    }

    pub fn kernel(&self) -> Option<&vgpu::Kernel> {
        self.module.code.kernel(&self.name)
    }

    /// The largest dynamic shared memory that a launch may ask for.
    pub fn most_dynamic_shared(&self, state: &State) -> u32 {
        let fixed = self.kernel().map_or(0, |kernel| kernel.shared_bytes);
        let default = state.chip.limits().shared_per_block_default.saturating_sub(fixed);
        self.attributes.get(&MAX_DYNAMIC_SHARED).map_or(default, |set| (*set).max(0) as u32)
    }

    /// Registers per thread. The virtual GPU has no assembler, so this is a bound: what `.maxnreg` says, or 32.
    pub fn registers(&self) -> u32 {
        self.kernel().and_then(|kernel| kernel.max_registers).unwrap_or(32)
    }

    /// Most threads of a block.
    fn most_threads(&self) -> u32 {
        let kernel = self.kernel();
        let required = kernel.and_then(|it| it.required_threads).map(|it| it.iter().product());
        required.or(kernel.and_then(|it| it.max_threads)).unwrap_or(1024).min(1024)
    }

    #[expect(clippy::match_same_arms, reason = "a table in the order of the numbers")]
    fn attribute(&self, state: &State, number: u32) -> Option<i32> {
        if let Some(set) = self.attributes.get(&number) {
            return Some(*set);
        }
        let capability = state.chip.limits().compute_capability;
        Some(match number {
            0 => self.most_threads() as i32,
            1 => self.kernel().map_or(0, |kernel| kernel.shared_bytes as i32),
            // Constant memory and local memory: not known without an assembler.
            2 | 3 => 0,
            4 => self.registers() as i32,
            5 => self.ptx_target() as i32,
            6 => (capability.major * 10 + capability.minor) as i32,
            7 => 0,
            MAX_DYNAMIC_SHARED => self.most_dynamic_shared(state) as i32,
            CARVEOUT => -1,
            10 => i32::from(self.kernel().is_some_and(|kernel| kernel.cluster.is_some())),
            11..=13 => {
                let cluster = self.kernel().and_then(|kernel| kernel.cluster);
                cluster.map_or(0, |extents| extents[number as usize - 11] as i32)
            }
            14 | 15 => 0,
            _ => return None,
        })
    }

    fn ptx_target(&self) -> u32 {
        let target = self.module.code.target.trim_start_matches("sm_");
        let digits = target.find(|c: char| !c.is_ascii_digit()).unwrap_or(target.len());
        target[..digits].parse().unwrap_or(0)
    }
}

fn get(value: *mut i32, attribute: u32, function: u64) -> Outcome {
    let state = usable()?;
    let function = state.functions.get(function)?;
    guest::write(value, function.attribute(&state, attribute).ok_or(Status::INVALID_VALUE)?)
}

fn set(attribute: u32, value: i32, function: u64) -> Outcome {
    let mut state = usable()?;
    let most = state.chip.limits().shared_per_block_opt_in;
    let function = state.functions.get_mut(function)?;
    match attribute {
        MAX_DYNAMIC_SHARED => {
            let fixed = function.kernel().map_or(0, |kernel| kernel.shared_bytes);
            if value < 0 || value as u32 + fixed > most {
                return Err(Status::INVALID_VALUE);
            }
        }
        CARVEOUT if !(-1..=100).contains(&value) => return Err(Status::INVALID_VALUE),
        CARVEOUT | 11..=15 => {}
        _ => return Err(Status::INVALID_VALUE),
    }
    function.attributes.insert(attribute, value);
    Ok(())
}

fn name(place: *mut u64, function: u64) -> Outcome {
    let state = usable()?;
    guest::write(place, state.functions.get(function)?.c_name.as_ptr() as u64)
}

fn parameter(function: u64, index: u64, offset: *mut u64, bytes: *mut u64) -> Outcome {
    let state = usable()?;
    let kernel = state.functions.get(function)?.kernel().ok_or(Status::NOT_SUPPORTED)?;
    let index = usize::try_from(index).map_err(|_| Status::INVALID_VALUE)?;
    let parameter = kernel.params.get(index).ok_or(Status::INVALID_VALUE)?;
    guest::write(offset, u64::from(parameter.offset))?;
    guest::write_optional(bytes, u64::from(parameter.bytes))
}

api! {
    fn cuFuncGetAttribute(value: *mut i32, attribute: u32, function: u64) {
        get(value, attribute, function)
    }
    fn cuFuncSetAttribute(function: u64, attribute: u32, value: i32) {
        set(attribute, value, function)
    }
    fn cuKernelGetAttribute(value: *mut i32, attribute: u32, kernel: u64, _device: i32) {
        get(value, attribute, kernel)
    }
    fn cuKernelSetAttribute(attribute: u32, value: i32, kernel: u64, _device: i32) {
        set(attribute, value, kernel)
    }
    fn cuFuncSetCacheConfig(function: u64, _config: u32) {
        usable()?.functions.get(function).map(|_| ())
    }
    fn cuKernelSetCacheConfig(kernel: u64, _config: u32, _device: i32) {
        usable()?.functions.get(kernel).map(|_| ())
    }
    fn cuFuncSetSharedMemConfig(function: u64, _config: u32) {
        usable()?.functions.get(function).map(|_| ())
    }
    fn cuFuncGetModule(place: *mut u64, function: u64) {
        let mut state = usable()?;
        let module = state.functions.get(function)?.module.clone();
        let known = state.modules.iter().find(|(_, it)| Arc::ptr_eq(it, &module)).map(|(handle, _)| handle);
        let handle = known.unwrap_or_else(|| state.modules.add(module));
        guest::write(place, handle)
    }
    fn cuFuncGetName(place: *mut u64, function: u64) {
        name(place, function)
    }
    fn cuKernelGetName(place: *mut u64, kernel: u64) {
        name(place, kernel)
    }
    fn cuFuncGetParamInfo(function: u64, index: u64, offset: *mut u64, bytes: *mut u64) {
        parameter(function, index, offset, bytes)
    }
    fn cuKernelGetParamInfo(kernel: u64, index: u64, offset: *mut u64, bytes: *mut u64) {
        parameter(kernel, index, offset, bytes)
    }
    fn cuFuncIsLoaded(is_loaded: *mut u32, function: u64) {
        usable()?.functions.get(function)?;
        guest::write(is_loaded, 1)
    }
    fn cuFuncLoad(function: u64) {
        usable()?.functions.get(function).map(|_| ())
    }
}
