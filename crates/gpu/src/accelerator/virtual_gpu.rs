//! The virtual GPU as an accelerator: a chip from the table, its memory, and the options of its launches.

use std::sync::Arc;

use chips::Chip;
use vgpu::World;

use crate::recent::Recent;

use super::{Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable};

/// Memory of every virtual GPU. The host provides it, so the size does not depend on the chip.
const MEMORY_BYTES: u64 = 6 << 30;

/// Decides which findings are reported.
pub trait FindingFilter: std::fmt::Debug + Send + Sync {
    /// Whether a finding is reported.
    fn keeps(&self, finding: &vgpu::Finding) -> bool;
}

/// A virtual GPU. Kernels run on the CPU, from their PTX.
#[derive(Debug)]
pub struct VirtualDevice {
    chip: &'static Chip,
    memory: vgpu::Device,
    modules: Vec<vgpu::Module>,
    /// Options of the launches, including `outputs` and the chip's limits.
    pub options: vgpu::Options,
    /// Removes known findings from the reports of launches.
    pub filter: Option<Arc<dyn FindingFilter>>,
}

impl VirtualDevice {
    /// A virtual GPU in the default world.
    pub fn new(chip: &'static Chip) -> Self {
        VirtualDevice::with(chip, World::default())
    }

    /// A virtual GPU in the world of a seed. The seed sets addresses, block order, multiprocessors and clocks.
    pub fn in_world(chip: &'static Chip, seed: u64) -> Self {
        VirtualDevice::with(chip, World::from_seed(seed))
    }

    fn with(chip: &'static Chip, world: World) -> Self {
        let limits = chip.limits();
        let limits = vgpu::Limits {
            sms: chip.sms,
            blocks_per_sm: limits.max_blocks_per_sm,
            threads_per_sm: limits.max_threads_per_sm,
            shared_per_sm: limits.shared_per_sm,
            shared_per_block: limits.shared_per_block_opt_in,
        };
        let options = vgpu::Options { limits, world, ..vgpu::Options::default() };
        let memory = vgpu::Device::in_world(MEMORY_BYTES, world);
        VirtualDevice { chip, memory, modules: Vec::new(), options, filter: None }
    }

    /// Later launches run in the world of `seed` (0: the default world), and later allocations are placed there.
    /// Existing allocations keep their addresses.
    pub fn set_world(&mut self, seed: u64) {
        self.options.world = if seed == 0 { World::default() } else { World::from_seed(seed) };
        self.memory.move_to(self.options.world);
    }

    /// Changes how many bytes all buffers may have together. Large buffers take memory of the host only where they are
    /// written, so this may be more than the host has.
    pub fn set_memory(&mut self, bytes: u64) {
        self.memory.set_limit(bytes);
    }

    /// Resets a module's variables to their initial values, as if the module had just been loaded.
    pub fn reset_state(&mut self, module: ModuleId) -> Result<(), AcceleratorError> {
        let Some(module) = self.modules.get(module.0) else {
            return Err(AcceleratorError::Load("there is no such module on the virtual GPU".to_owned()));
        };
        self.memory.reset(module).map_err(|error| memory(&error))
    }

    /// The `__constant__` variables of a module.
    pub fn constants(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        let Some(module) = self.modules.get(module.0) else { return Ok(Vec::new()) };
        self.memory.constants(module).map(as_variables).map_err(|error| memory(&error))
    }

    /// The chip that this virtual GPU models.
    pub fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// A loaded module.
    pub fn module(&self, id: ModuleId) -> Option<&vgpu::Module> {
        self.modules.get(id.0)
    }

    /// Runs a kernel and returns the virtual GPU's report.
    pub fn run(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<vgpu::LaunchReport, AcceleratorError> {
        let module = self.modules.get(module.0);
        if let Some(error) = module.and_then(|module| module.refusal(kernel)) {
            return Err(AcceleratorError::Load(error.to_string()));
        }
        let found = module.and_then(|module| Some((module, module.kernel(kernel)?)));
        let (module, entry) = found.ok_or_else(|| AcceleratorError::NoKernel(kernel.to_owned()))?;
        let failed = |reason: String| AcceleratorError::Launch { kernel: kernel.to_owned(), reason };
        let options = vgpu::Options { cluster: geometry.cluster, ..self.options.clone() };
        let launch = vgpu::Launch {
            module,
            kernel,
            grid: geometry.grid,
            block: geometry.block,
            shared: geometry.shared_bytes,
            args: &argument_block(entry, parameters).map_err(failed)?,
        };
        let report = self.memory.launch(&launch, &options).map_err(|error| match error {
            vgpu::LaunchError::SharedMemory { .. } => {
                AcceleratorError::TooLarge { kernel: kernel.to_owned(), reason: error.to_string() }
            }
            other => failed(other.to_string()),
        });
        let mut report = report?;
        if let Some(filter) = &self.filter {
            report.findings.retain(|finding| filter.keeps(finding));
        }
        Ok(report)
    }

    /// Declares buffers as results: the kernel must write every byte with a defined value.
    pub fn set_outputs(&mut self, outputs: &[Buffer]) {
        self.options.outputs = outputs.iter().map(|buffer| vgpu::Buffer(buffer.address)).collect();
    }

    /// Declares other buffers that are read after the launch: the kernel must not store undefined values there.
    pub fn set_kept(&mut self, kept: &[Buffer]) {
        self.options.kept = kept.iter().map(|buffer| vgpu::Buffer(buffer.address)).collect();
    }
}

/// Loads PTX. A kernel is usually loaded for several problems, each time on a new device, so the last texts are not
/// decoded again.
fn load_cached(text: &str) -> Result<vgpu::Module, vgpu::LoadError> {
    static LOADED: Recent<String, Arc<vgpu::Module>> = Recent::new();
    let text = text.to_owned();
    if let Some(loaded) = LOADED.get(&text) {
        return Ok(loaded.load_again());
    }
    let loaded = vgpu::load(&text)?;
    let module = loaded.load_again();
    LOADED.keep(text, Arc::new(loaded));
    Ok(module)
}

fn as_variables(variables: Vec<(String, vgpu::Buffer, u64)>) -> Vec<Variable> {
    let variable = |(name, at, bytes): (String, vgpu::Buffer, u64)| {
        let buffer = Buffer { address: at.0, bytes };
        Variable { name, buffer }
    };
    variables.into_iter().map(variable).collect()
}

fn memory(error: &vgpu::MemoryError) -> AcceleratorError {
    AcceleratorError::Memory(error.to_string())
}

impl Accelerator for VirtualDevice {
    fn describe(&self) -> String {
        format!("virtual:{}", self.chip.id)
    }

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError> {
        let address = self.memory.alloc(bytes, label).map_err(|error| memory(&error))?.0;
        Ok(Buffer { address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        self.memory.free(vgpu::Buffer(buffer.address)).map_err(|error| memory(&error))
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        self.memory.write(vgpu::Buffer(buffer.address), bytes).map_err(|error| memory(&error))
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        let mut bytes = vec![0; buffer.bytes as usize];
        self.memory.read(vgpu::Buffer(buffer.address), &mut bytes).map_err(|error| memory(&error))?;
        Ok(bytes)
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        let Some(module) = self.modules.get(module.0) else { return Ok(Vec::new()) };
        self.memory.variables(module).map(as_variables).map_err(|error| memory(&error))
    }

    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError> {
        VirtualDevice::set_world(self, seed);
        // Some worlds have fewer multiprocessors and some have more: from half as many to one and a half times as
        // many.
        let half = (self.chip.sms / 2).max(1);
        let varied = self.chip.sms - half + (seed >> 2) as u32 % (2 * half);
        self.options.limits.sms = if seed.is_multiple_of(4) { self.chip.sms } else { varied.max(1) };
        Ok(())
    }

    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        /// A workspace may be as large as most of the memory, so it is written in pieces.
        const PIECE: u64 = 1 << 20;
        if word == 0 {
            let at = vgpu::Buffer(buffer.address);
            return self.memory.fill(at, 0, buffer.bytes).map_err(|error| memory(&error));
        }
        let bytes = word.to_le_bytes().repeat(PIECE as usize / 4);
        let mut at = buffer.address;
        while at < buffer.address + buffer.bytes {
            let length = PIECE.min(buffer.address + buffer.bytes - at);
            self.write(Buffer { address: at, bytes: length }, &bytes[..length as usize])?;
            at += length;
        }
        Ok(())
    }

    fn undefine(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        self.memory.forget(vgpu::Buffer(buffer.address)).map_err(|error| memory(&error))
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError> {
        let Image::Ptx(text) = image else {
            return Err(AcceleratorError::Load("the virtual GPU runs PTX, not machine code".to_owned()));
        };
        let module = load_cached(text).map_err(|error| AcceleratorError::Load(error.to_string()))?;
        self.modules.push(module);
        Ok(ModuleId(self.modules.len() - 1))
    }

    fn encode_tensor_map(&mut self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        map.encode().map(|bytes| bytes.to_vec()).map_err(|error| super::invalid_map(&error))
    }

    fn create_texture(&mut self, texture: &vgpu::Texture, texels: Buffer) -> Result<u64, AcceleratorError> {
        let created = self.memory.create_texture(*texture, vgpu::Buffer(texels.address));
        created.map_err(|error| AcceleratorError::Arguments(error.to_string()))
    }

    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError> {
        let report = self.run(module, kernel, geometry, parameters)?;
        Ok(Launched { report: Some(report) })
    }
}

/// Places the parameters at the offsets that the kernel declares.
fn argument_block(kernel: &vgpu::Kernel, parameters: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if parameters.len() != kernel.params.len() {
        return Err(format!(
            "got {} arguments, but the kernel has {} parameters",
            parameters.len(),
            kernel.params.len()
        ));
    }
    let mut block = vec![0; kernel.param_bytes as usize];
    for (index, (bytes, declared)) in parameters.iter().zip(&kernel.params).enumerate() {
        if bytes.len() != declared.bytes as usize {
            return Err(format!(
                "argument {index} has {} bytes, but the kernel's parameter has {}",
                bytes.len(),
                declared.bytes
            ));
        }
        let offset = declared.offset as usize;
        let place = block.get_mut(offset..offset + bytes.len());
        place
            .ok_or_else(|| format!("parameter {index} lies outside the argument block"))?
            .copy_from_slice(bytes);
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes its own address, its multiprocessor's clock and a counter in global memory.
    const PTX: &str = "
.version 8.4
.target sm_80
.address_size 64
.global .align 8 .u64 counter = 5;
.visible .entry k(.param .u64 out)
{
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    st.global.u64 [%rd1], %rd1;
    mov.u64 %rd2, %clock64;
    st.global.u64 [%rd1+8], %rd2;
    ld.global.u64 %rd3, [counter];
    add.u64 %rd3, %rd3, 1;
    st.global.u64 [counter], %rd3;
    st.global.u64 [%rd1+16], %rd3;
    ret;
}
";

    fn launch(device: &mut VirtualDevice, module: ModuleId) -> ([u64; 3], vgpu::LaunchReport) {
        let out = device.allocate("out", 24).unwrap();
        let geometry = Geometry { grid: [1; 3], block: [1; 3], cluster: [1; 3], shared_bytes: 0 };
        let report = device.run(module, "k", geometry, &[out.parameter()]).unwrap();
        let bytes = device.read(out).unwrap();
        let word = |n: usize| u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().unwrap());
        ([word(0), word(1), word(2)], report)
    }

    #[test]
    fn a_device_can_change_its_world_and_reset_a_module() {
        let chip = Chip::by_name("h200").unwrap();
        let mut device = VirtualDevice::in_world(chip, 1);
        let module = device.load(Image::Ptx(PTX)).unwrap();
        let (first, report) = launch(&mut device, module);
        assert_eq!(first[2], 6);
        assert_eq!(report.changed_state, ["counter"]);
        device.set_world(2);
        let (second, _) = launch(&mut device, module);
        assert_eq!(second[2], 7);
        assert!(first[0].abs_diff(second[0]) > 1 << 30, "{first:x?} {second:x?}");
        assert_ne!(first[1], second[1]);
        device.reset_state(module).unwrap();
        assert_eq!(launch(&mut device, module).0[2], 6);
        assert!(device.reset_state(ModuleId(9)).is_err());
    }
}
