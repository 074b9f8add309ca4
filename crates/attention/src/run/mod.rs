//! A family's candidate on a device: what it supports is checked, memory is placed and guarded, the kernel is
//! launched, and its answer comes back with everything there is to hold against it.

mod capability;
mod memory;
mod stage;

use std::fmt;

use chips::Target;
use family::{Candidate, Family, Layout as Placement, SettingError};
use gpu::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId};
use gpu::build::{BuildError, Compiler};

pub use capability::{Unsupported, axes, check, check_candidate, sizes};
pub use memory::Trespass;
pub use stage::Stage;

use crate::arguments::Arguments;
use crate::inputs::Encoded;
use crate::problem::Problem;
use crate::tensor::{Layout, Tensor, poison};
use memory::Memory;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    #[error("the inputs' {tensor} is not that of {problem}")]
    Inputs { tensor: &'static str, problem: Problem },
    #[error("{family} launches clusters of blocks, which this device interface does not have yet")]
    Cluster { family: String },
    #[error("{problem} needs a grid of {grid:?} blocks, more than a launch can have")]
    Grid { problem: Problem, grid: [u64; 3] },
}

/// The candidate of a preset (or of the defaults) for a problem, with knobs overridden as `(name, text)`. What the
/// family does not support is refused here already, in words about the problem.
pub fn candidate(
    family: &Family,
    preset: Option<&str>,
    knobs: &[(String, String)],
    problem: &Problem,
) -> Result<Candidate, RunError> {
    check(family, problem, Layout::default(), false)?;
    Ok(family.candidate(preset, knobs, &axes(family, problem))?)
}

/// A candidate's kernel, loaded on a device.
pub struct Kernel<'f> {
    pub family: &'f Family,
    pub candidate: Candidate,
    module: ModuleId,
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} {})", self.candidate.family, self.candidate.label(self.family))
    }
}

/// What a run gave, good or bad.
#[derive(Clone, Debug)]
pub struct Run {
    /// O, in the inputs' layout. Elements nobody wrote hold [`crate::tensor::POISON`].
    pub output: Tensor,
    /// `[batch, heads, seq_q]`, where it was asked for.
    pub lse: Option<Vec<f32>>,
    /// What the virtual GPU found. `None` on a device that does not check, which is not "nothing found".
    pub report: Option<vgpu::LaunchReport>,
    /// Writes outside every buffer, where the device leaves that to us ([`Stage::guard_bytes`]).
    pub trespasses: Vec<Trespass>,
    /// Inputs that are not what they were.
    pub changed_inputs: Vec<&'static str>,
}

impl<'f> Kernel<'f> {
    /// Loads an image of the candidate.
    pub fn load(
        device: &mut dyn Accelerator,
        family: &'f Family,
        candidate: Candidate,
        image: Image<'_>,
    ) -> Result<Self, RunError> {
        let module = device.load(image)?;
        Ok(Kernel { family, candidate, module })
    }

    /// Compiles the candidate, or finds it compiled, and loads it.
    pub fn build(
        device: &mut dyn Stage,
        compiler: &Compiler,
        family: &'f Family,
        candidate: Candidate,
        target: Target,
    ) -> Result<Self, RunError> {
        let build = compiler.build(&family.request(&candidate, target)?)?.build;
        let image = device.image(&build);
        Kernel::load(device, family, candidate, image)
    }

    /// Runs the kernel once. Refuses what it does not support before anything is allocated.
    pub fn run(
        &self,
        device: &mut dyn Stage,
        problem: &Problem,
        inputs: &Encoded,
        want_lse: bool,
    ) -> Result<Run, RunError> {
        check(self.family, problem, inputs.q.layout, want_lse)?;
        check_candidate(&self.candidate, problem)?;
        check_inputs(problem, inputs)?;
        let (geometry, workspace) = self.geometry(problem)?;
        let mut memory = Memory::new(device.guard_bytes());
        let run = place(&mut memory, device, problem, inputs, want_lse, workspace.total_bytes)
            .and_then(|placed| self.launch(&memory, device, geometry, placed));
        // Whatever failed, the memory is given back.
        memory.release(device);
        Ok(run?)
    }

    fn launch(
        &self,
        memory: &Memory,
        device: &mut dyn Stage,
        geometry: Geometry,
        placed: Placed,
    ) -> Result<Run, AcceleratorError> {
        let Placed { arguments, given, blank, output, lse } = placed;
        let outputs: Vec<Buffer> = lse.into_iter().chain([output]).collect();
        device.declare_outputs(&outputs);
        let launched = device.launch(self.module, &self.family.entry, geometry, &[arguments.bytes()]);
        device.declare_outputs(&[]);
        let report = launched?.report;
        let lse = lse.map(|buffer| device.read(buffer)).transpose()?;
        Ok(Run {
            report,
            output: Tensor { bytes: device.read(output)?, ..blank },
            lse: lse.map(|bytes| floats(&bytes)),
            trespasses: memory.trespasses(device)?,
            changed_inputs: changed(device, given)?,
        })
    }

    /// The launch's geometry and the workspace it needs.
    fn geometry(&self, problem: &Problem) -> Result<(Geometry, Placement), RunError> {
        let sizes = sizes(problem);
        let launch = self.family.launch(&self.candidate, &sizes)?;
        if launch.cluster != [1; 3] {
            return Err(RunError::Cluster { family: self.family.name.clone() });
        }
        let too_large = || RunError::Grid { problem: *problem, grid: launch.grid };
        let mut grid = [0; 3];
        for (extent, wanted) in grid.iter_mut().zip(launch.grid) {
            *extent = u32::try_from(wanted).map_err(|_| too_large())?;
        }
        let geometry = Geometry { grid, block: launch.block, shared_bytes: launch.shared_bytes as u32 };
        Ok((geometry, self.family.workspace(&self.candidate, &sizes)?))
    }
}

/// A run's memory, ready for the launch.
struct Placed {
    arguments: Arguments,
    given: Vec<Given>,
    /// What the output holds before.
    blank: Tensor,
    output: Buffer,
    lse: Option<Buffer>,
}

fn place(
    memory: &mut Memory,
    device: &mut dyn Accelerator,
    problem: &Problem,
    inputs: &Encoded,
    want_lse: bool,
    workspace_bytes: u64,
) -> Result<Placed, AcceleratorError> {
    let layout = inputs.q.layout;
    let mut arguments = Arguments::of(problem, layout);
    let given = place_inputs(memory, device, inputs, &mut arguments)?;
    if workspace_bytes > 0 {
        arguments.workspace = memory.reserve(device, "workspace", workspace_bytes)?.address;
    }
    let blank = Tensor::poisoned(problem.query_shape(), problem.dtype.output(), layout);
    let output = memory.place(device, "o", &blank.bytes)?;
    arguments.o = output.address;
    let mut lse = None;
    if want_lse {
        let unwritten = poison(problem.query_shape().rows() * size_of::<f32>());
        let buffer = memory.place(device, "lse", &unwritten)?;
        arguments.lse = buffer.address;
        lse = Some(buffer);
    }
    Ok(Placed { arguments, given, blank, output, lse })
}

/// An input on the device and what it held before the launch.
type Given = (&'static str, Buffer, Vec<u8>);

/// Puts the inputs and their scales on the device and their addresses into the arguments.
fn place_inputs(
    memory: &mut Memory,
    device: &mut dyn Accelerator,
    inputs: &Encoded,
    arguments: &mut Arguments,
) -> Result<Vec<Given>, AcceleratorError> {
    let tensors = [
        ("q", "q_scale", &inputs.q, &mut arguments.q, &mut arguments.q_scale),
        ("k", "k_scale", &inputs.k, &mut arguments.k, &mut arguments.k_scale),
        ("v", "v_scale", &inputs.v, &mut arguments.v, &mut arguments.v_scale),
    ];
    let mut given = Vec::new();
    for (name, scale_name, tensor, address, scale_address) in tensors {
        let mut place = |name, bytes: Vec<u8>| {
            let buffer = memory.place(device, name, &bytes)?;
            given.push((name, buffer, bytes));
            Ok::<u64, AcceleratorError>(buffer.address)
        };
        *address = place(name, tensor.bytes.clone())?;
        if let Some(scales) = &tensor.scales {
            *scale_address =
                place(scale_name, scales.iter().flat_map(|scale| scale.to_le_bytes()).collect())?;
        }
    }
    Ok(given)
}

/// The inputs that are not what they were.
fn changed(device: &mut dyn Accelerator, given: Vec<Given>) -> Result<Vec<&'static str>, AcceleratorError> {
    let mut changed = Vec::new();
    for (name, buffer, before) in given {
        if device.read(buffer)? != before {
            changed.push(name);
        }
    }
    Ok(changed)
}

fn check_inputs(problem: &Problem, inputs: &Encoded) -> Result<(), RunError> {
    let tensors = [
        ("q", &inputs.q, problem.query_shape()),
        ("k", &inputs.k, problem.key_shape()),
        ("v", &inputs.v, problem.key_shape()),
    ];
    for (name, tensor, shape) in tensors {
        let scales = tensor.scales.as_ref().is_none_or(|scales| scales.len() == shape.all_heads());
        let bytes = tensor.bytes.len() == shape.elements() * problem.dtype.bytes();
        let alike =
            tensor.shape == shape && tensor.dtype == problem.dtype && tensor.layout == inputs.q.layout;
        if !(scales && bytes && alike) {
            return Err(RunError::Inputs { tensor: name, problem: *problem });
        }
    }
    Ok(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}
