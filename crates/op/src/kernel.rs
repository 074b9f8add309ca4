//! A family's candidate on a device: loaded, launched on an arrangement, and everything there is to hold against the
//! launch brought back.

use std::fmt;

use chips::Target;
use family::{Candidate, Family, SettingError, Sizes};
use gpu::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId};
use gpu::build::{BuildError, Compiler};

use crate::arrangement::{Addresses, Arrangement};
use crate::memory::{Memory, Trespass};
use crate::stage::Stage;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    #[error("a grid of {grid:?} blocks is more than a launch can have")]
    Grid { grid: [u64; 3] },
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

/// What a launch left behind, good or bad.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The outputs, in the arrangement's order. What nobody wrote still holds the blank.
    pub outputs: Vec<Vec<u8>>,
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

    pub fn module(&self) -> ModuleId {
        self.module
    }

    /// The launch's geometry for a problem of these sizes, and the bytes of workspace it needs.
    pub fn geometry(&self, sizes: &Sizes) -> Result<(Geometry, u64), RunError> {
        let launch = self.family.launch(&self.candidate, sizes)?;
        let mut grid = [0; 3];
        for (extent, wanted) in grid.iter_mut().zip(launch.grid) {
            *extent = u32::try_from(wanted).map_err(|_| RunError::Grid { grid: launch.grid })?;
        }
        let geometry = Geometry {
            grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes as u32,
        };
        Ok((geometry, self.family.workspace(&self.candidate, sizes)?.total_bytes))
    }

    /// Puts an arrangement on a device for launching it there, once or often.
    pub fn ready<'a>(
        &self,
        device: &mut dyn Stage,
        sizes: &Sizes,
        arrangement: &'a Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<Vec<u8>>,
    ) -> Result<Ready<'a>, RunError> {
        let (geometry, workspace) = self.geometry(sizes)?;
        let mut memory = Memory::new(device.guard_bytes());
        match place(&mut memory, device, arrangement, workspace) {
            Ok(placed) => {
                let parameters = parameters(&placed.addresses(arrangement));
                Ok(Ready { memory, arrangement, placed, geometry, parameters })
            }
            Err(error) => {
                memory.release(device);
                Err(error.into())
            }
        }
    }

    /// Launches what is ready once, and brings back everything there is to hold against it.
    pub fn look(&self, device: &mut dyn Stage, ready: &Ready<'_>) -> Result<Observed, AcceleratorError> {
        let (outputs, report) = self.launch(device, ready)?;
        let mut changed_inputs = Vec::new();
        for (input, &buffer) in ready.arrangement.inputs.iter().zip(&ready.placed.inputs) {
            if device.read(buffer)? != input.bytes {
                changed_inputs.push(input.name);
            }
        }
        let trespasses = ready.memory.trespasses(device)?;
        Ok(Observed { outputs, report, trespasses, changed_inputs })
    }

    /// Launches what is ready once; the outputs, and what the virtual GPU found.
    fn launch(
        &self,
        device: &mut dyn Stage,
        ready: &Ready<'_>,
    ) -> Result<(Vec<Vec<u8>>, Option<vgpu::LaunchReport>), AcceleratorError> {
        let Ready { placed, geometry, parameters, .. } = ready;
        device.declare_outputs(&placed.outputs);
        let launched = device.launch(self.module, &self.family.entry, *geometry, parameters);
        device.declare_outputs(&[]);
        let report = launched?.report;
        let outputs = placed.outputs.iter().map(|&buffer| device.read(buffer)).collect::<Result<_, _>>()?;
        Ok((outputs, report))
    }

    /// Runs the kernel once. `parameters` makes the kernel's parameters once the buffers have their addresses.
    pub fn observe(
        &self,
        device: &mut dyn Stage,
        sizes: &Sizes,
        arrangement: &Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<Vec<u8>>,
    ) -> Result<Observed, RunError> {
        let ready = self.ready(device, sizes, arrangement, parameters)?;
        let observed = self.look(device, &ready);
        // Whatever failed, the memory is given back.
        ready.release(device);
        Ok(observed?)
    }

    /// Runs the kernel once, for its outputs alone.
    pub fn outputs(
        &self,
        device: &mut dyn Stage,
        sizes: &Sizes,
        arrangement: &Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, RunError> {
        let ready = self.ready(device, sizes, arrangement, parameters)?;
        let launched = self.launch(device, &ready);
        ready.release(device);
        Ok(launched?.0)
    }
}

/// A kernel's buffers on a device, filled, and its launch but for doing it.
#[derive(Debug)]
pub struct Ready<'a> {
    memory: Memory,
    arrangement: &'a Arrangement,
    placed: Placed,
    pub geometry: Geometry,
    pub parameters: Vec<Vec<u8>>,
}

impl Ready<'_> {
    /// Gives the buffers back.
    pub fn release(self, device: &mut dyn Stage) {
        self.memory.release(device);
    }
}

/// An arrangement on a device.
#[derive(Debug)]
struct Placed {
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    workspace: u64,
}

impl Placed {
    fn addresses(&self, arrangement: &Arrangement) -> Addresses {
        let inputs = arrangement.inputs.iter().map(|input| input.name);
        let outputs = arrangement.outputs.iter().map(|output| output.name);
        let addresses = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.address).collect::<Vec<_>>();
        Addresses {
            inputs: inputs.zip(addresses(&self.inputs)).collect(),
            outputs: outputs.zip(addresses(&self.outputs)).collect(),
            workspace: self.workspace,
        }
    }
}

fn place(
    memory: &mut Memory,
    device: &mut dyn Accelerator,
    arrangement: &Arrangement,
    workspace_bytes: u64,
) -> Result<Placed, AcceleratorError> {
    let mut inputs = Vec::new();
    for input in &arrangement.inputs {
        inputs.push(memory.place(device, input.name, &input.bytes)?);
    }
    let workspace = match workspace_bytes {
        0 => 0,
        bytes => memory.reserve(device, "workspace", bytes)?.address,
    };
    let mut outputs = Vec::new();
    for output in &arrangement.outputs {
        outputs.push(memory.place(device, output.name, &output.blank)?);
    }
    Ok(Placed { inputs, outputs, workspace })
}
