//! A family's candidate on a device: loaded, launched on an arrangement, and everything there is to hold against the
//! launch brought back.

use std::fmt;

use chips::Target;
use family::{Candidate, Family, SettingError, Sizes};
use gpu::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId};
use gpu::build::{BuildError, Compiler};

use crate::arrangement::{Addresses, Arrangement};
use crate::memory::{Contents, Item, Memory, Trespass, View};
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
        let band = device.guard_bytes();
        let memory = Memory::new(device, band, &items(arrangement, workspace))?;
        let mut buffers = memory.buffers().into_iter();
        let placed = Placed {
            inputs: buffers.by_ref().take(arrangement.inputs.len()).collect(),
            outputs: buffers.by_ref().take(arrangement.outputs.len()).collect(),
            workspace: buffers.next().map_or(0, |buffer| buffer.address),
        };
        let parameters = parameters(&placed.addresses(arrangement));
        Ok(Ready { memory, arrangement, placed, geometry, parameters })
    }

    /// Launches what is ready once, and brings back everything there is to hold against it.
    pub fn look(&self, device: &mut dyn Stage, ready: &Ready<'_>) -> Result<Observed, AcceleratorError> {
        let report = self.launch(device, ready)?;
        let Ready { memory, arrangement, placed, .. } = ready;
        let view = memory.look(device)?;
        let outputs = read_all(&view, device, &placed.outputs)?;
        let mut changed_inputs = Vec::new();
        for (input, &buffer) in arrangement.inputs.iter().zip(&placed.inputs) {
            if view.read(device, buffer)? != input.bytes {
                changed_inputs.push(input.name);
            }
        }
        Ok(Observed { outputs, report, trespasses: memory.trespasses(device, &view)?, changed_inputs })
    }

    /// Launches what is ready once, for its outputs alone.
    pub fn outputs(
        &self,
        device: &mut dyn Stage,
        ready: &Ready<'_>,
    ) -> Result<Vec<Vec<u8>>, AcceleratorError> {
        self.launch(device, ready)?;
        read_all(&ready.memory.look(device)?, device, &ready.placed.outputs)
    }

    fn launch(
        &self,
        device: &mut dyn Stage,
        ready: &Ready<'_>,
    ) -> Result<Option<vgpu::LaunchReport>, AcceleratorError> {
        let Ready { placed, geometry, parameters, .. } = ready;
        device.declare_outputs(&placed.outputs);
        let launched = device.launch(self.module, &self.family.entry, *geometry, parameters);
        device.declare_outputs(&[]);
        Ok(launched?.report)
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
}

fn read_all(
    view: &View,
    device: &mut dyn Stage,
    buffers: &[Buffer],
) -> Result<Vec<Vec<u8>>, AcceleratorError> {
    buffers.iter().map(|&buffer| view.read(device, buffer)).collect()
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

impl<'a> Ready<'a> {
    /// Makes it ready for another arrangement of the same problem, or once more for the same.
    pub fn refill(
        &mut self,
        device: &mut dyn Stage,
        arrangement: &'a Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<Vec<u8>>,
    ) -> Result<(), AcceleratorError> {
        let inputs = arrangement.inputs.iter().zip(&self.arrangement.inputs).zip(&self.placed.inputs);
        for ((input, before), &buffer) in inputs {
            if input.bytes != before.bytes {
                device.write(buffer, &input.bytes)?;
            }
        }
        for (output, &buffer) in arrangement.outputs.iter().zip(&self.placed.outputs) {
            device.write(buffer, &output.blank)?;
        }
        self.arrangement = arrangement;
        self.parameters = parameters(&self.placed.addresses(arrangement));
        Ok(())
    }
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

/// Inputs, outputs, and the workspace where there is one.
fn items(arrangement: &Arrangement, workspace_bytes: u64) -> Vec<Item<'_>> {
    let inputs = arrangement
        .inputs
        .iter()
        .map(|input| Item { name: input.name, contents: Contents::These(&input.bytes) });
    let outputs = arrangement
        .outputs
        .iter()
        .map(|output| Item { name: output.name, contents: Contents::These(&output.blank) });
    let workspace = Item { name: "workspace", contents: Contents::Any(workspace_bytes) };
    inputs.chain(outputs).chain((workspace_bytes > 0).then_some(workspace)).collect()
}
