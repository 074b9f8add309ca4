//! A family's candidate on a device: loaded, launched on an arrangement, and everything there is to hold against the
//! launch brought back.

use std::fmt;

use chips::Target;
use family::{Candidate, Family, SettingError, Sizes};
use gpu::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, ModuleId, Variable};
use gpu::build::{BuildError, Compiler};

use crate::arrangement::{Addresses, Arrangement};
use crate::check_device::CheckDevice;
use crate::memory::{BufferItem, Contents, Memory, MemorySnapshot, Placement, StrayWrite};
use crate::trial::{OutputState, TrialStep, derived};

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
    /// The module's writable variables, with what they held after loading.
    state: Vec<(Variable, Vec<u8>)>,
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} {})", self.candidate.family, self.candidate.label(self.family))
    }
}

/// What a launch left behind, good or bad.
#[derive(Clone, Debug)]
pub struct LaunchObservation {
    /// The outputs, in the arrangement's order. What nobody wrote still holds the blank.
    pub outputs: Vec<Vec<u8>>,
    /// What the virtual GPU found. `None` on a device that does not check, which is not "nothing found".
    pub report: Option<vgpu::LaunchReport>,
    /// Writes outside every buffer, where the device leaves that to us ([`CheckDevice::guard_bytes`]).
    pub trespasses: Vec<StrayWrite>,
    /// Inputs that are not what they were.
    pub changed_inputs: Vec<&'static str>,
    /// Module variables that are not what they were after loading. They have been put back.
    pub changed_state: Vec<String>,
}

impl LaunchObservation {
    /// Whether the launch ended, and left its inputs alone. A trial goes on only then: what a next launch did would not
    /// be this kernel's answer to the next inputs.
    fn is_sound(&self) -> bool {
        self.changed_inputs.is_empty() && self.report.as_ref().is_none_or(|report| report.stats.completed)
    }
}

/// One set of inputs of a trial.
pub struct Inputs<'a> {
    pub arrangement: &'a Arrangement,
    /// The kernel's parameters, once the buffers have their addresses.
    pub parameters: &'a dyn Fn(&Addresses) -> Vec<Vec<u8>>,
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inputs({} bytes)", self.arrangement.bytes())
    }
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
        let mut state = Vec::new();
        for variable in device.variables(module)? {
            let bytes = device.read(variable.buffer)?;
            state.push((variable, bytes));
        }
        Ok(Kernel { family, candidate, module, state })
    }

    /// Compiles the candidate, or finds it compiled, and loads it.
    pub fn build(
        device: &mut dyn CheckDevice,
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

    /// Puts inputs on a device for launching the kernel there, once or often.
    pub fn ready<'a>(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &Inputs<'a>,
    ) -> Result<PreparedLaunch<'a>, RunError> {
        self.ready_at(device, sizes, inputs, 0)
    }

    /// The same at other addresses: every buffer starts `shift` bytes later than it would.
    fn ready_at<'a>(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &Inputs<'a>,
        shift: u64,
    ) -> Result<PreparedLaunch<'a>, RunError> {
        let (geometry, workspace_bytes) = self.geometry(sizes)?;
        let Inputs { arrangement, parameters } = *inputs;
        let placement = Placement { band: device.guard_bytes(), shift };
        let memory = Memory::new(device, placement, &items(arrangement, workspace_bytes))?;
        let mut buffers = memory.buffers().into_iter();
        let placed = PlacedBuffers {
            inputs: buffers.by_ref().take(arrangement.inputs.len()).collect(),
            outputs: buffers.by_ref().take(arrangement.outputs.len()).collect(),
            workspace: buffers.next(),
        };
        let parameters = parameters(&placed.addresses(arrangement));
        Ok(PreparedLaunch { memory, arrangement, placed, geometry, parameters })
    }

    /// Launches the kernel once for every step, each under other circumstances, which are drawn from the seed. After a
    /// launch that did not end or changed its inputs there are no more.
    pub fn trial(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &[Inputs<'_>],
        steps: &[TrialStep],
        seed: u64,
    ) -> Result<Vec<LaunchObservation>, RunError> {
        let mut seen: Vec<LaunchObservation> = Vec::new();
        let mut place: Option<(bool, PreparedLaunch<'_>)> = None;
        for (index, step) in steps.iter().enumerate() {
            let seed = derived(seed, index as u64);
            let inputs = &inputs[step.inputs];
            device.set_world(if index == 0 { FIRST_WORLD } else { seed })?;
            let stays = place.as_ref().is_some_and(|(moved, _)| *moved == step.moved);
            if !stays {
                if let (Some((_, ready)), Some(last)) = (place.take(), seen.last_mut()) {
                    last.trespasses.extend(ready.close(device)?);
                }
                let shift = if step.moved { SHIFT_STEP * (1 + seed % SHIFTS) } else { 0 };
                place = Some((step.moved, self.ready_at(device, sizes, inputs, shift)?));
            }
            let Some((_, ready)) = &mut place else { continue };
            let before = step.same_as.and_then(|before| seen.get(before));
            let looked = ready
                .refill(device, inputs, step.outputs, seed)
                .and_then(|()| match (step.outputs, before) {
                    (OutputState::Turned, Some(before)) => ready.turn_outputs(device, &before.outputs),
                    _ => Ok(()),
                })
                .and_then(|()| self.look(device, ready));
            match looked {
                Ok(observed) => seen.push(observed),
                Err(error) => {
                    if let Some((_, ready)) = place.take() {
                        ready.release(device);
                    }
                    return Err(error.into());
                }
            }
            device.stop_counting();
            if !seen.last().is_some_and(LaunchObservation::is_sound) {
                break;
            }
        }
        if let (Some((_, ready)), Some(last)) = (place, seen.last_mut()) {
            last.trespasses.extend(ready.close(device)?);
        }
        device.set_world(0)?;
        Ok(seen)
    }

    /// Launches what is ready once, and brings back everything there is to hold against it.
    pub fn look(
        &self,
        device: &mut dyn CheckDevice,
        ready: &PreparedLaunch<'_>,
    ) -> Result<LaunchObservation, AcceleratorError> {
        let report = self.launch(device, ready)?;
        self.left_behind(device, ready, report)
    }

    /// What launches have left behind: outputs, and everything that must be as it was.
    pub fn left_behind(
        &self,
        device: &mut dyn CheckDevice,
        ready: &PreparedLaunch<'_>,
        report: Option<vgpu::LaunchReport>,
    ) -> Result<LaunchObservation, AcceleratorError> {
        let PreparedLaunch { memory, arrangement, placed, .. } = ready;
        let view = memory.look(device)?;
        let outputs = read_all(&view, device, &placed.outputs)?;
        let mut changed_inputs = Vec::new();
        for (input, &buffer) in arrangement.inputs.iter().zip(&placed.inputs) {
            if !view.holds(device, buffer, &input.bytes)? {
                changed_inputs.push(input.name);
            }
        }
        let trespasses = memory.trespasses(device, &view)?;
        Ok(LaunchObservation {
            outputs,
            report,
            trespasses,
            changed_inputs,
            changed_state: self.restore(device)?,
        })
    }

    /// Puts the module's variables back to what they were after loading; the names of those that had changed.
    fn restore(&self, device: &mut dyn CheckDevice) -> Result<Vec<String>, AcceleratorError> {
        let mut changed = Vec::new();
        for (variable, initial) in &self.state {
            if device.read(variable.buffer)? != *initial {
                device.write(variable.buffer, initial)?;
                changed.push(variable.name.clone());
            }
        }
        Ok(changed)
    }

    fn launch(
        &self,
        device: &mut dyn CheckDevice,
        ready: &PreparedLaunch<'_>,
    ) -> Result<Option<vgpu::LaunchReport>, AcceleratorError> {
        let PreparedLaunch { placed, geometry, parameters, .. } = ready;
        device.declare_outputs(&placed.outputs);
        let launched = device.launch(self.module, &self.family.entry, *geometry, parameters);
        device.declare_outputs(&[]);
        Ok(launched?.report)
    }

    /// Runs the kernel once. `parameters` makes the kernel's parameters once the buffers have their addresses.
    pub fn observe(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        arrangement: &Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<Vec<u8>>,
    ) -> Result<LaunchObservation, RunError> {
        let ready = self.ready(device, sizes, &Inputs { arrangement, parameters })?;
        let observed = self.look(device, &ready);
        // Whatever failed, the memory is given back.
        let far = ready.close(device);
        let mut observed = observed?;
        observed.trespasses.extend(far?);
        Ok(observed)
    }
}

/// Addresses of a moved buffer differ in bits from 8 to 15: as aligned as allocations are, and not more.
const SHIFT_STEP: u64 = 256;
const SHIFTS: u64 = 255;

/// The surroundings of the first launch, which is the one that is counted: always the same, so that counts can be
/// compared.
const FIRST_WORLD: u64 = 0;

fn read_all(
    view: &MemorySnapshot,
    device: &mut dyn CheckDevice,
    buffers: &[Buffer],
) -> Result<Vec<Vec<u8>>, AcceleratorError> {
    buffers.iter().map(|&buffer| view.read(device, buffer)).collect()
}

/// A kernel's buffers on a device, filled, and its launch but for doing it.
#[derive(Debug)]
pub struct PreparedLaunch<'a> {
    memory: Memory,
    arrangement: &'a Arrangement,
    placed: PlacedBuffers,
    pub geometry: Geometry,
    pub parameters: Vec<Vec<u8>>,
}

impl<'a> PreparedLaunch<'a> {
    /// Makes it ready for other inputs of the same problem, or once more for the same. The workspace is poisoned, with
    /// another poison for every seed.
    pub fn refill(
        &mut self,
        device: &mut dyn CheckDevice,
        inputs: &Inputs<'a>,
        outputs: OutputState,
        seed: u64,
    ) -> Result<(), AcceleratorError> {
        let Inputs { arrangement, parameters } = *inputs;
        let pairs = arrangement.inputs.iter().zip(&self.arrangement.inputs).zip(&self.placed.inputs);
        for ((input, before), &buffer) in pairs {
            if input.bytes != before.bytes {
                device.write(buffer, &input.bytes)?;
            }
        }
        if outputs == OutputState::Poisoned {
            for (output, &buffer) in arrangement.outputs.iter().zip(&self.placed.outputs) {
                device.fill(buffer, output.blank_word())?;
                device.undefine(buffer)?;
            }
        }
        if let Some(workspace) = self.placed.workspace {
            device.fill(workspace, poison(seed))?;
            device.undefine(workspace)?;
        }
        self.arrangement = arrangement;
        self.parameters = parameters(&self.placed.addresses(arrangement));
        Ok(())
    }

    /// Fills the outputs with an answer in which every sign is turned: the right numbers, and not one of them right.
    fn turn_outputs(&self, device: &mut dyn CheckDevice, answer: &[Vec<u8>]) -> Result<(), AcceleratorError> {
        let outputs = self.arrangement.outputs.iter().zip(answer).zip(&self.placed.outputs);
        for ((output, bytes), &buffer) in outputs {
            device.write(buffer, &output.turned(bytes))?;
        }
        Ok(())
    }

    /// Writes the inputs once more, whatever has become of them.
    pub fn rewrite_inputs(&self, device: &mut dyn CheckDevice) -> Result<(), AcceleratorError> {
        self.inputs().try_for_each(|(input, buffer)| device.write(buffer, &input.bytes))
    }

    /// Puts a second set of inputs beside the first. Its launches write the outputs and workspace of the first.
    pub fn beside<'b>(
        &self,
        device: &mut dyn CheckDevice,
        inputs: &Inputs<'b>,
    ) -> Result<SecondInputs<'b>, AcceleratorError> {
        let Inputs { arrangement, parameters } = *inputs;
        let placement = Placement { band: device.guard_bytes(), shift: 0 };
        let memory = Memory::new(device, placement, &input_items(arrangement))?;
        let placed = PlacedBuffers {
            inputs: memory.buffers(),
            outputs: self.placed.outputs.clone(),
            workspace: self.placed.workspace,
        };
        let parameters = parameters(&placed.addresses(arrangement));
        Ok(SecondInputs { memory, inputs: placed.inputs, arrangement, parameters })
    }

    /// What outputs and workspace hold before a launch, as words to fill them with.
    pub fn poisoned(&self, seed: u64) -> Vec<(Buffer, u32)> {
        let outputs = self.arrangement.outputs.iter().zip(&self.placed.outputs);
        let outputs = outputs.map(|(output, &buffer)| (buffer, output.blank_word()));
        outputs.chain(self.placed.workspace.map(|buffer| (buffer, poison(seed)))).collect()
    }

    /// Its inputs, with the buffers they are in.
    pub fn inputs(&self) -> impl Iterator<Item = (&'a crate::Input, Buffer)> {
        self.arrangement.inputs.iter().zip(self.placed.inputs.iter().copied())
    }
}

/// Inputs without outputs of their own.
#[derive(Debug)]
pub struct SecondInputs<'a> {
    memory: Memory,
    inputs: Vec<Buffer>,
    arrangement: &'a Arrangement,
    pub parameters: Vec<Vec<u8>>,
}

impl<'a> SecondInputs<'a> {
    /// Replaces the inputs where they are.
    pub fn refill(
        &mut self,
        device: &mut dyn CheckDevice,
        arrangement: &'a Arrangement,
    ) -> Result<(), AcceleratorError> {
        for (input, &buffer) in arrangement.inputs.iter().zip(&self.inputs) {
            device.write(buffer, &input.bytes)?;
        }
        self.arrangement = arrangement;
        Ok(())
    }

    /// Adds what happened to these inputs to what a launch left behind.
    pub fn add_to(
        &self,
        observed: &mut LaunchObservation,
        device: &mut dyn CheckDevice,
    ) -> Result<(), AcceleratorError> {
        let view = self.memory.look(device)?;
        for (input, &buffer) in self.arrangement.inputs.iter().zip(&self.inputs) {
            if !view.holds(device, buffer, &input.bytes)? {
                observed.changed_inputs.push(input.name);
            }
        }
        observed.trespasses.extend(self.memory.trespasses(device, &view)?);
        Ok(())
    }

    /// Gives the buffers back. Returns the writes far from every buffer, by any launch since they were placed.
    pub fn close(self, device: &mut dyn CheckDevice) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let far = self.memory.far_trespasses(device);
        self.memory.release(device);
        far
    }

    /// Gives the buffers back.
    pub fn release(self, device: &mut dyn CheckDevice) {
        self.memory.release(device);
    }
}

/// A word of poison: a NaN as fp32, and as a pair of halves; otherwise as the seed has it.
fn poison(seed: u64) -> u32 {
    0x7fc0_7e00 | (seed as u32 & 0x003f_01ff)
}

impl PreparedLaunch<'_> {
    /// Gives the buffers back. Returns the writes far from every buffer, by any launch since they were placed.
    pub fn close(self, device: &mut dyn CheckDevice) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let far = self.memory.far_trespasses(device);
        self.memory.release(device);
        far
    }

    /// Gives the buffers back.
    pub fn release(self, device: &mut dyn CheckDevice) {
        self.memory.release(device);
    }
}

/// An arrangement on a device.
#[derive(Debug)]
struct PlacedBuffers {
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    workspace: Option<Buffer>,
}

impl PlacedBuffers {
    fn addresses(&self, arrangement: &Arrangement) -> Addresses {
        let inputs = arrangement.inputs.iter().map(|input| input.name);
        let outputs = arrangement.outputs.iter().map(|output| output.name);
        let addresses = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.address).collect::<Vec<_>>();
        Addresses {
            inputs: inputs.zip(addresses(&self.inputs)).collect(),
            outputs: outputs.zip(addresses(&self.outputs)).collect(),
            workspace: self.workspace.map_or(0, |buffer| buffer.address),
        }
    }
}

fn input_items(arrangement: &Arrangement) -> Vec<BufferItem<'_>> {
    let items = arrangement.inputs.iter();
    items.map(|input| BufferItem { name: input.name, contents: Contents::These(&input.bytes) }).collect()
}

/// Inputs, outputs, and the workspace where there is one.
fn items(arrangement: &Arrangement, workspace_bytes: u64) -> Vec<BufferItem<'_>> {
    let outputs = arrangement
        .outputs
        .iter()
        .map(|output| BufferItem { name: output.name, contents: Contents::These(&output.blank) });
    let workspace = BufferItem { name: "workspace", contents: Contents::Any(workspace_bytes) };
    let inputs = input_items(arrangement).into_iter();
    inputs.chain(outputs).chain((workspace_bytes > 0).then_some(workspace)).collect()
}
