//! A candidate on a device: loads it, launches it on an arrangement, and observes everything that the launch changed.

use std::fmt;

use chips::Target;
use compiler::{BuildError, Compiler};
use family::{Candidate, Family, SettingError, Sizes, TensorBox};
use gpu::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, LaunchStep, ModuleId, Variable,
};

use crate::arrangement::{Addresses, Arrangement};
use crate::check_device::CheckDevice;
use crate::memory::{BufferItem, Contents, Memory, MemorySnapshot, Placement, StrayWrite};
use crate::trial::{OutputState, TrialStep, derive_seed};

/// Why a kernel could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The setting is not valid for the family, or its launch cannot be computed.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The kernel could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An operation of the device failed.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// The grid has more blocks than a launch can have.
    #[error("a grid of {grid:?} blocks exceeds the limit of a launch")]
    Grid {
        /// Number of blocks in x, y and z.
        grid: [u64; 3],
    },
}

/// A candidate's kernel, loaded on a device.
pub struct Kernel<'f> {
    /// The family of the candidate.
    pub family: &'f Family,
    /// The candidate that was compiled.
    pub candidate: Candidate,
    module: ModuleId,
    /// The module's writable variables with their contents after loading.
    state: Vec<(Variable, Vec<u8>)>,
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} {})", self.candidate.family, self.candidate.label(self.family))
    }
}

/// What a launch did: outputs, findings and unexpected changes.
#[derive(Clone, Debug)]
pub struct LaunchObservation {
    /// The outputs, in the arrangement's order. Elements that were not written still hold the blank.
    pub outputs: Vec<Vec<u8>>,
    /// The reports of the virtual GPU, one for each launch of the family. Empty on a device that does not check, which
    /// does not mean that nothing was found.
    pub reports: Vec<vgpu::LaunchReport>,
    /// Writes outside every buffer, if the device does not detect them itself ([`CheckDevice::guard_bytes`]).
    pub stray_writes: Vec<StrayWrite>,
    /// Inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// Module variables that differ from their contents after loading. They have been restored.
    pub changed_state: Vec<String>,
}

impl LaunchObservation {
    /// Whether the launch completed and did not change its inputs. Otherwise a trial ends: the next launch would not be
    /// this kernel's answer to the next inputs.
    fn is_sound(&self) -> bool {
        self.changed_inputs.is_empty() && self.reports.iter().all(|report| report.stats.completed)
    }
}

/// One set of inputs of a trial.
pub struct Inputs<'a> {
    /// The buffers and their contents.
    pub arrangement: &'a Arrangement,
    /// Makes the parameters of every launch from the addresses of the buffers.
    pub parameters: &'a dyn Fn(&Addresses) -> Vec<LaunchParameters>,
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

    /// Compiles the candidate, or finds it in the cache, and loads it.
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

    /// The loaded module.
    pub fn module(&self) -> ModuleId {
        self.module
    }

    /// The geometry of the main launch for a problem of these sizes.
    pub fn geometry(&self, sizes: &Sizes) -> Result<Geometry, RunError> {
        geometry(self.family.launch(&self.candidate, sizes)?)
    }

    /// The function and the geometry of every launch, in their order.
    pub fn geometries(&self, sizes: &Sizes) -> Result<Vec<(String, Geometry)>, RunError> {
        launch_geometries(self.family, &self.candidate, sizes)
    }

    /// Places inputs on a device, so that the kernel can be launched once or repeatedly.
    pub fn prepare<'a>(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &Inputs<'a>,
    ) -> Result<PreparedLaunch<'a>, RunError> {
        self.prepare_at(device, sizes, inputs, 0)
    }

    /// Like `prepare`, at other addresses: every buffer starts `shift` bytes later.
    fn prepare_at<'a>(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &Inputs<'a>,
        shift: u64,
    ) -> Result<PreparedLaunch<'a>, RunError> {
        let geometries = self.geometries(sizes)?;
        let workspace = self.family.workspace(&self.candidate, sizes)?;
        let workspace_bytes = workspace.total_bytes;
        let rules = ParameterRules {
            boxes: self.family.tensor_boxes(&self.candidate)?,
            launched: self.family.launched(&self.candidate)?,
            scratch: workspace.buffers.into_iter().map(|buffer| (buffer.name, buffer.offset)).collect(),
        };
        let arrangement = inputs.arrangement;
        let placement = Placement { band: device.guard_bytes(), shift };
        let memory = Memory::new(device, placement, &items(arrangement, workspace_bytes))?;
        let mut buffers = memory.buffers().into_iter();
        let placed = PlacedBuffers {
            inputs: buffers.by_ref().take(arrangement.inputs.len()).collect(),
            outputs: buffers.by_ref().take(arrangement.outputs.len()).collect(),
            workspace: buffers.next(),
        };
        let parameters = match placed.parameters(device, inputs, &rules) {
            Ok(parameters) => parameters,
            Err(error) => {
                memory.release(device);
                return Err(error.into());
            }
        };
        Ok(PreparedLaunch { memory, arrangement, placed, rules, geometries, parameters })
    }

    /// Launches the kernel once for every step, each in a different environment that is derived from the seed. Stops
    /// after a launch that did not complete or that changed its inputs.
    pub fn trial(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        inputs: &[Inputs<'_>],
        steps: &[TrialStep],
        seed: u64,
    ) -> Result<Vec<LaunchObservation>, RunError> {
        let mut observations: Vec<LaunchObservation> = Vec::new();
        let mut current: Option<(bool, PreparedLaunch<'_>)> = None;
        for (index, step) in steps.iter().enumerate() {
            let seed = derive_seed(seed, index as u64);
            let inputs = &inputs[step.inputs];
            device.set_world(if index == 0 { FIRST_ENVIRONMENT } else { seed })?;
            let reuse = current.as_ref().is_some_and(|(moved, _)| *moved == step.moved);
            if !reuse {
                if let (Some((_, prepared)), Some(last)) = (current.take(), observations.last_mut()) {
                    last.stray_writes.extend(prepared.close(device)?);
                }
                let shift = if step.moved { SHIFT_STEP * (1 + seed % SHIFTS) } else { 0 };
                current = Some((step.moved, self.prepare_at(device, sizes, inputs, shift)?));
            }
            let Some((_, prepared)) = &mut current else { continue };
            let before = step.same_as.and_then(|before| observations.get(before));
            let outcome = prepared
                .refill(device, inputs, step.outputs, seed)
                .and_then(|()| match (step.outputs, before) {
                    (OutputState::Turned, Some(before)) => {
                        prepared.turn_outputs(device, &before.outputs, seed)
                    }
                    _ => Ok(()),
                })
                .and_then(|()| self.launch_and_observe(device, prepared));
            match outcome {
                Ok(observed) => observations.push(observed),
                Err(error) => {
                    if let Some((_, prepared)) = current.take() {
                        // The error of the launch is reported; a device that failed may refuse to be read.
                        let _ = prepared.close(device);
                    }
                    return Err(error.into());
                }
            }
            device.stop_counting();
            if !observations.last().is_some_and(LaunchObservation::is_sound) {
                break;
            }
        }
        if let (Some((_, prepared)), Some(last)) = (current, observations.last_mut()) {
            last.stray_writes.extend(prepared.close(device)?);
        }
        device.set_world(0)?;
        Ok(observations)
    }

    /// Launches a prepared kernel once and observes what it did.
    pub fn launch_and_observe(
        &self,
        device: &mut dyn CheckDevice,
        prepared: &PreparedLaunch<'_>,
    ) -> Result<LaunchObservation, AcceleratorError> {
        let reports = self.launch(device, prepared)?;
        self.observe_memory(device, prepared, reports)
    }

    /// Observes what previous launches did: reads the outputs, and compares everything that must not change.
    pub fn observe_memory(
        &self,
        device: &mut dyn CheckDevice,
        prepared: &PreparedLaunch<'_>,
        reports: Vec<vgpu::LaunchReport>,
    ) -> Result<LaunchObservation, AcceleratorError> {
        let PreparedLaunch { memory, arrangement, placed, .. } = prepared;
        let snapshot = memory.snapshot(device)?;
        let outputs = read_all(&snapshot, device, &placed.outputs)?;
        let mut changed_inputs = Vec::new();
        for (input, &buffer) in arrangement.inputs.iter().zip(&placed.inputs) {
            if !snapshot.holds(device, buffer, &input.bytes)? {
                changed_inputs.push(input.name.clone());
            }
        }
        let stray_writes = memory.stray_writes(device, &snapshot)?;
        Ok(LaunchObservation {
            outputs,
            reports,
            stray_writes,
            changed_inputs,
            changed_state: self.restore(device)?,
        })
    }

    /// Restores the module's variables to their contents after loading. Returns the names of those that had changed.
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

    /// Makes every launch of the family in its order. Stops after a launch that did not complete.
    fn launch(
        &self,
        device: &mut dyn CheckDevice,
        prepared: &PreparedLaunch<'_>,
    ) -> Result<Vec<vgpu::LaunchReport>, AcceleratorError> {
        let mut reports = Vec::new();
        let last = prepared.geometries.len() - 1;
        for (index, launch) in prepared.launches().enumerate() {
            device.declare_outputs(&prepared.written_only(), (index == 0, index == last));
            let launched = device.launch(self.module, launch.entry, launch.geometry, launch.parameters);
            device.declare_outputs(&[], (true, true));
            let mut report = launched?.report;
            if let Some(report) = &mut report
                && self.family.is_ptx()
            {
                report.add_ptx_places(self.family.source_name());
            }
            reports.extend(report);
            if reports.last().is_some_and(|report| !report.stats.completed) {
                break;
            }
        }
        Ok(reports)
    }

    /// Runs the kernel once. `parameters` makes the kernel's parameters from the addresses of the buffers.
    pub fn observe(
        &self,
        device: &mut dyn CheckDevice,
        sizes: &Sizes,
        arrangement: &Arrangement,
        parameters: &dyn Fn(&Addresses) -> Vec<LaunchParameters>,
    ) -> Result<LaunchObservation, RunError> {
        let prepared = self.prepare(device, sizes, &Inputs { arrangement, parameters })?;
        let observed = self.launch_and_observe(device, &prepared);
        // The memory is freed even if the launch failed.
        let far = prepared.close(device);
        let mut observed = observed?;
        observed.stray_writes.extend(far?);
        Ok(observed)
    }
}

/// Addresses of a moved buffer differ in bits 8 to 15. It is as aligned as an allocation, and not more.
const SHIFT_STEP: u64 = 256;
const SHIFTS: u64 = 255;

/// The environment of the first launch. It is always the same, because this launch is counted and counts must be
/// comparable.
const FIRST_ENVIRONMENT: u64 = 0;

fn read_all(
    snapshot: &MemorySnapshot,
    device: &mut dyn CheckDevice,
    buffers: &[Buffer],
) -> Result<Vec<Vec<u8>>, AcceleratorError> {
    buffers.iter().map(|&buffer| snapshot.read(device, buffer)).collect()
}

/// A launch that is ready: its buffers are filled, and its geometry and parameters are known.
#[derive(Debug)]
pub struct PreparedLaunch<'a> {
    memory: Memory,
    arrangement: &'a Arrangement,
    placed: PlacedBuffers,
    rules: ParameterRules,
    /// The function, and grid, block and dynamic shared memory, of every launch.
    geometries: Vec<(String, Geometry)>,
    /// The parameters of every launch.
    parameters: Vec<LaunchParameters>,
}

/// How the parameters of a candidate's launches follow from those of the op.
#[derive(Debug)]
struct ParameterRules {
    /// The boxes of the tensor maps, which come after the op's own parameters.
    boxes: Vec<TensorBox>,
    /// The launches that the candidate needs, of all launches of the family.
    launched: Vec<usize>,
    /// The name of each buffer in the workspace, with its offset.
    scratch: Vec<(String, u64)>,
}

/// The parameters of one launch, each as bytes.
pub type LaunchParameters = Vec<Vec<u8>>;

/// The function and the geometry of every launch of a candidate, in their order.
pub fn launch_geometries(
    family: &Family,
    candidate: &Candidate,
    sizes: &Sizes,
) -> Result<Vec<(String, Geometry)>, RunError> {
    let sequence = family.launch_sequence(candidate, sizes)?.into_iter();
    sequence.map(|(entry, launch)| Ok((entry.to_owned(), geometry(launch)?))).collect()
}

fn geometry(launch: family::Launch) -> Result<Geometry, RunError> {
    let mut grid = [0; 3];
    for (extent, wanted) in grid.iter_mut().zip(launch.grid) {
        *extent = u32::try_from(wanted).map_err(|_| RunError::Grid { grid: launch.grid })?;
    }
    let shared_bytes = launch.shared_bytes as u32;
    Ok(Geometry { grid, block: launch.block, cluster: launch.cluster, shared_bytes })
}

/// Pairs the launches with their parameters.
fn launches<'l>(
    geometries: &'l [(String, Geometry)],
    parameters: &'l [LaunchParameters],
) -> impl Iterator<Item = LaunchStep<'l>> {
    let step = |((entry, geometry), parameters): (&'l (String, Geometry), &'l LaunchParameters)| LaunchStep {
        entry,
        geometry: *geometry,
        parameters,
    };
    geometries.iter().zip(parameters).map(step)
}

impl<'a> PreparedLaunch<'a> {
    /// The launches in their order.
    pub fn launches(&self) -> impl Iterator<Item = LaunchStep<'_>> {
        launches(&self.geometries, &self.parameters)
    }

    /// The same launches on the second inputs.
    pub fn second_launches<'s>(
        &'s self,
        second: &'s SecondInputs<'_>,
    ) -> impl Iterator<Item = LaunchStep<'s>> {
        launches(&self.geometries, &second.parameters)
    }

    /// Prepares for other inputs of the same problem, or for the same inputs again. Poisons the workspace, with a
    /// different poison for each seed.
    pub fn refill(
        &mut self,
        device: &mut dyn CheckDevice,
        inputs: &Inputs<'a>,
        outputs: OutputState,
        seed: u64,
    ) -> Result<(), AcceleratorError> {
        let arrangement = inputs.arrangement;
        let pairs = arrangement.inputs.iter().zip(&self.arrangement.inputs).zip(&self.placed.inputs);
        for ((input, before), &buffer) in pairs {
            if input.bytes != before.bytes {
                device.write(buffer, &input.bytes)?;
            }
        }
        for (output, &buffer) in arrangement.outputs.iter().zip(&self.placed.outputs) {
            if let Some(initial) = &output.initial {
                device.write(buffer, initial)?;
            } else if outputs == OutputState::Poisoned {
                device.fill(buffer, output.blank)?;
                device.undefine(buffer)?;
            }
        }
        if let Some(workspace) = self.placed.workspace {
            device.fill(workspace, poison(seed))?;
            device.undefine(workspace)?;
        }
        self.arrangement = arrangement;
        self.parameters = self.placed.parameters(device, inputs, &self.rules)?;
        Ok(())
    }

    /// Fills the outputs with an answer in which every sign is flipped: the magnitudes are right, but every element is
    /// wrong. Some elements, which the seed selects, have other magnitudes, too: a kernel that finds an earlier answer
    /// in the outputs and turns it back is wrong there.
    fn turn_outputs(
        &self,
        device: &mut dyn CheckDevice,
        answer: &[Vec<u8>],
        seed: u64,
    ) -> Result<(), AcceleratorError> {
        let outputs = self.arrangement.outputs.iter().zip(answer).zip(&self.placed.outputs);
        for ((output, bytes), &buffer) in outputs.filter(|((output, _), _)| output.initial.is_none()) {
            device.write(buffer, &output.turned(bytes, seed))?;
        }
        Ok(())
    }

    /// Writes the inputs again, whatever they hold now.
    pub fn rewrite_inputs(&self, device: &mut dyn CheckDevice) -> Result<(), AcceleratorError> {
        self.inputs().try_for_each(|(input, buffer)| device.write(buffer, &input.bytes))
    }

    /// Places a second set of inputs. Its launches write to the outputs and workspace of the first.
    pub fn place_second<'b>(
        &self,
        device: &mut dyn CheckDevice,
        inputs: &Inputs<'b>,
    ) -> Result<SecondInputs<'b>, AcceleratorError> {
        let arrangement = inputs.arrangement;
        let placement = Placement { band: device.guard_bytes(), shift: 0 };
        let memory = Memory::new(device, placement, &input_items(arrangement))?;
        let placed = PlacedBuffers {
            inputs: memory.buffers(),
            outputs: self.placed.outputs.clone(),
            workspace: self.placed.workspace,
        };
        let parameters = match placed.parameters(device, inputs, &self.rules) {
            Ok(parameters) => parameters,
            Err(error) => {
                memory.release(device);
                return Err(error);
            }
        };
        Ok(SecondInputs { memory, inputs: placed.inputs, arrangement, parameters })
    }

    /// The words that fill outputs and workspace before a launch.
    pub fn poisoned(&self, seed: u64) -> Vec<(Buffer, u32)> {
        let outputs = self.arrangement.outputs.iter().zip(&self.placed.outputs);
        let outputs = outputs.filter(|(output, _)| output.initial.is_none());
        let outputs = outputs.map(|(output, &buffer)| (buffer, output.blank));
        outputs.chain(self.placed.workspace.map(|buffer| (buffer, poison(seed)))).collect()
    }

    /// The outputs that the kernel does not read.
    fn written_only(&self) -> Vec<Buffer> {
        let outputs = self.arrangement.outputs.iter().zip(&self.placed.outputs);
        outputs.filter(|(output, _)| output.initial.is_none()).map(|(_, &buffer)| buffer).collect()
    }

    /// Whether the kernel changes a buffer that it also reads, so that a second launch has another result.
    pub fn is_in_place(&self) -> bool {
        self.arrangement.outputs.iter().any(|output| output.initial.is_some())
    }

    /// Its inputs and their buffers.
    pub fn inputs(&self) -> impl Iterator<Item = (&'a crate::Input, Buffer)> {
        self.arrangement.inputs.iter().zip(self.placed.inputs.iter().copied())
    }
}

/// A second set of inputs without outputs of its own.
#[derive(Debug)]
pub struct SecondInputs<'a> {
    memory: Memory,
    inputs: Vec<Buffer>,
    arrangement: &'a Arrangement,
    /// The parameters of every launch for these inputs.
    parameters: Vec<LaunchParameters>,
}

impl<'a> SecondInputs<'a> {
    /// The buffers of the inputs.
    pub fn buffers(&self) -> &[Buffer] {
        &self.inputs
    }

    /// Replaces the inputs in place.
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

    /// Adds the changes of these inputs to an observation.
    pub fn add_observations(
        &self,
        observed: &mut LaunchObservation,
        device: &mut dyn CheckDevice,
    ) -> Result<(), AcceleratorError> {
        let snapshot = self.memory.snapshot(device)?;
        for (input, &buffer) in self.arrangement.inputs.iter().zip(&self.inputs) {
            if !snapshot.holds(device, buffer, &input.bytes)? {
                observed.changed_inputs.push(input.name.clone());
            }
        }
        observed.stray_writes.extend(self.memory.stray_writes(device, &snapshot)?);
        Ok(())
    }

    /// Frees the buffers. Returns the writes far from every buffer, by any launch since they were placed.
    pub fn close(self, device: &mut dyn CheckDevice) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let far = self.memory.far_stray_writes(device);
        self.memory.release(device);
        far
    }
}

/// A word of poison: a NaN as fp32 and as a pair of fp16. The other bits come from the seed.
fn poison(seed: u64) -> u32 {
    0x7fc0_7e00 | (seed as u32 & 0x003f_01ff)
}

impl PreparedLaunch<'_> {
    /// Frees the buffers. Returns the writes far from every buffer, by any launch since they were placed.
    pub fn close(self, device: &mut dyn CheckDevice) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let far = self.memory.far_stray_writes(device);
        self.memory.release(device);
        far
    }
}

/// The buffers of an arrangement on a device.
#[derive(Debug)]
struct PlacedBuffers {
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    workspace: Option<Buffer>,
}

impl PlacedBuffers {
    /// The parameters of every launch: those of the op, then the tensor maps that the family asks for.
    fn parameters(
        &self,
        device: &mut dyn CheckDevice,
        inputs: &Inputs<'_>,
        rules: &ParameterRules,
    ) -> Result<Vec<LaunchParameters>, AcceleratorError> {
        let addresses = self.addresses(inputs.arrangement, rules);
        let all = (inputs.parameters)(&addresses).into_iter().enumerate();
        let mut parameters: Vec<LaunchParameters> =
            all.filter(|(place, _)| rules.launched.contains(place)).map(|(_, launch)| launch).collect();
        for wanted in &rules.boxes {
            let mut tensors = inputs.arrangement.tensors.iter();
            let Some(tensor) = tensors.find(|tensor| tensor.name == wanted.tensor) else {
                let reason = format!("the op has no tensor `{}`", wanted.tensor);
                return Err(AcceleratorError::Launch { kernel: "tensor map".to_owned(), reason });
            };
            let map = tensor.map(addresses.address(&tensor.name), wanted);
            let map = device.encode_tensor_map(&map)?;
            for launch in &mut parameters {
                launch.push(map.clone());
            }
        }
        Ok(parameters)
    }

    fn addresses(&self, arrangement: &Arrangement, rules: &ParameterRules) -> Addresses {
        let inputs = arrangement.inputs.iter().map(|input| input.name.clone());
        let outputs = arrangement.outputs.iter().map(|output| output.name.clone());
        let addresses = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.address).collect::<Vec<_>>();
        Addresses {
            inputs: inputs.zip(addresses(&self.inputs)).collect(),
            outputs: outputs.zip(addresses(&self.outputs)).collect(),
            workspace: self.workspace.map_or(0, |buffer| buffer.address),
            scratch: self.workspace.map_or_else(Vec::new, |whole| {
                rules.scratch.iter().map(|(name, offset)| (name.clone(), whole.address + offset)).collect()
            }),
        }
    }
}

fn input_items(arrangement: &Arrangement) -> Vec<BufferItem<'_>> {
    let items = arrangement.inputs.iter();
    items.map(|input| BufferItem { name: &input.name, contents: Contents::These(&input.bytes) }).collect()
}

/// Inputs, outputs, and the workspace if it has a size.
fn items(arrangement: &Arrangement, workspace_bytes: u64) -> Vec<BufferItem<'_>> {
    let outputs = arrangement.outputs.iter().map(|output| {
        let contents = match &output.initial {
            Some(bytes) => Contents::These(bytes),
            None => Contents::Filled { word: output.blank, bytes: output.bytes as u64 },
        };
        BufferItem { name: &output.name, contents }
    });
    let workspace = BufferItem { name: "workspace", contents: Contents::Any(workspace_bytes) };
    let inputs = input_items(arrangement).into_iter();
    inputs.chain(outputs).chain((workspace_bytes > 0).then_some(workspace)).collect()
}
