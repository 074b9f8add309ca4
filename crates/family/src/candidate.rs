//! A candidate: a family with a valid value for every knob and every compile-time axis.

use chips::Target;
use indexmap::IndexMap;
use serde::Serialize;

use crate::Value;
use crate::expression::{EvalError, Expression, Scope};
use crate::layout::{BufferRequest, Layout};
use crate::manifest::{
    BufferRule, Constraint, Family, LaunchRule, PROMOTIONS, SWIZZLES, TensorMapRule, list,
};
use crate::suggest::nearest;

/// A complete setting of a family. It can only be created if its names and values are valid and its constraints hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The family's full name, such as `attention/mma`.
    pub family: String,
    /// The preset that it is based on; `None` for the defaults.
    pub preset: Option<String>,
    /// A value for every knob.
    pub knobs: IndexMap<String, Value>,
    /// Values of the specialised axes, in the manifest's order.
    pub axes: IndexMap<String, Value>,
}

/// The problem's run-time sizes by name, as listed in the manifest's `launch.sizes`.
pub type Sizes = IndexMap<String, i64>;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Number of blocks in x, y and z.
    pub grid: [u64; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y and z; `[1, 1, 1]` means no clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u64,
}

/// The box of a tensor map that a kernel gets as a parameter, after the parameters of its op.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorBox {
    /// The name of the tensor's buffer: `q`.
    pub tensor: String,
    /// Extents of the box, innermost first. Those of further dimensions are 1.
    pub extents: Vec<u32>,
    /// Bytes within which a copy permutes the 16-byte chunks of a row: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
    /// Bytes of L2 that a copy reads at once: 0 (what it needs), 64, 128 or 256.
    pub promotion_bytes: u32,
}

/// Largest number of blocks in a cluster, on any GPU.
const MOST_CLUSTERED: u64 = 16;

/// Why a setting is not valid for a family.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A preset, knob or axis has an unknown name.
    #[error("{family} has no {what} `{name}`")]
    Unknown {
        /// The family's name.
        family: String,
        /// What has the name: `preset`, `knob` or `axis`.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
        /// The most similar existing name, if one is similar.
        nearest: Option<String>,
    },
    /// A knob or an axis cannot have this value.
    #[error("{family}: {name} cannot be {value}")]
    Value {
        /// The family's name.
        family: String,
        /// Name of the knob or axis.
        name: String,
        /// The refused value as text.
        value: String,
        /// The allowed values as text.
        allowed: String,
    },
    /// A setting gives a value to an axis that is a run-time argument.
    #[error("{family}: {name} is not a compile-time axis; it reaches the kernel as an argument")]
    NotSpecialised {
        /// The family's name.
        family: String,
        /// Name of the axis.
        name: String,
        /// Names of the compile-time axes.
        specialised: Vec<String>,
    },
    /// A constraint of the manifest does not hold.
    #[error("{family}: `{constraint}` does not hold ({numbers}): {because}")]
    Constraint {
        /// The family's name.
        family: String,
        /// The condition as written in the manifest.
        constraint: String,
        /// The values in the condition, as `name = value`.
        numbers: String,
        /// Why the condition is needed, from the manifest.
        because: String,
    },
    /// A block needs more shared memory than the target has.
    #[error("{family} needs {needed} bytes of shared memory per block ({buffers}); {target} has {available}")]
    SharedMemory {
        /// The family's name.
        family: String,
        /// Bytes that a block needs.
        needed: u64,
        /// Bytes that a block of the target can have.
        available: u64,
        /// The target that was checked.
        target: Target,
        /// The buffers and their sizes in bytes, as text.
        buffers: String,
    },
    /// A block has no threads or more than 1024.
    #[error("{family} needs {threads} threads per block; a block has 1024 at most")]
    Threads {
        /// The family's name.
        family: String,
        /// Number of threads per block.
        threads: u64,
    },
    /// A cluster has no blocks or too many.
    #[error("{family} needs {blocks} blocks per cluster; a cluster has {MOST_CLUSTERED} at most")]
    Cluster {
        /// The family's name.
        family: String,
        /// Number of blocks per cluster.
        blocks: u64,
    },
    /// The manifest does not list the target.
    #[error("{family} does not support {target}")]
    Target {
        /// The family's name.
        family: String,
        /// The target that is not supported.
        target: Target,
        /// The targets that the manifest lists.
        targets: Vec<Target>,
    },
    /// An expression of the manifest cannot be evaluated.
    #[error("{family}: {error}")]
    Expression {
        /// The family's name.
        family: String,
        /// The expression and the reason.
        error: EvalError,
    },
    /// The size of a memory layout does not fit 64 bits.
    #[error("{family}: the shared-memory layout overflows")]
    Overflow {
        /// The family's name.
        family: String,
    },
}

impl SettingError {
    /// The allowed alternatives, for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            SettingError::Unknown { what, known, nearest, .. } => {
                let all = format!("{what}s: {}", known.join(", "));
                Some(nearest.as_ref().map_or(all.clone(), |near| format!("did you mean `{near}`? {all}")))
            }
            SettingError::Value { name, allowed, .. } => Some(format!("{name} is one of {allowed}")),
            SettingError::NotSpecialised { specialised, .. } => {
                Some(format!("compile-time axes: {}", specialised.join(", ")))
            }
            SettingError::Target { targets, .. } => {
                let names: Vec<_> = targets.iter().map(ToString::to_string).collect();
                Some(format!("targets: {}", names.join(", ")))
            }
            _ => None,
        }
    }
}

impl Family {
    /// The candidate of a preset, or of the defaults, with overridden knobs and axes as `(name, text)`.
    pub fn candidate(
        &self,
        preset: Option<&str>,
        knobs: &[(String, String)],
        axes: &[(String, String)],
    ) -> Result<Candidate, SettingError> {
        let preset = preset
            .map(|name| {
                self.preset(name).ok_or_else(|| self.unknown("preset", name, self.preset_names().collect()))
            })
            .transpose()?;
        let mut candidate = Candidate {
            family: self.full_name(),
            preset: preset.map(|preset| preset.name.clone()),
            knobs: self.knobs.iter().map(|knob| (knob.name.clone(), knob.default.clone())).collect(),
            axes: IndexMap::new(),
        };
        for axis in self.axes.iter().filter(|axis| axis.specialised) {
            candidate.axes.insert(axis.name.clone(), axis.values[0].clone());
        }
        for (name, value) in preset.iter().flat_map(|preset| &preset.knobs) {
            candidate.knobs.insert(name.clone(), value.clone());
        }
        for (name, text) in knobs {
            let names = || self.knobs.iter().map(|knob| knob.name.as_str()).collect();
            let knob = self.knob(name).ok_or_else(|| self.unknown("knob", name, names()))?;
            let value = self.allowed(&knob.name, text, &knob.values)?;
            candidate.knobs.insert(knob.name.clone(), value);
        }
        for (name, text) in axes {
            let names = || self.axes.iter().map(|axis| axis.name.as_str()).collect();
            let axis = self.axis(name).ok_or_else(|| self.unknown("axis", name, names()))?;
            let value = self.allowed(&axis.name, text, &axis.values)?;
            if !axis.specialised {
                return Err(SettingError::NotSpecialised {
                    family: self.name.clone(),
                    name: axis.name.clone(),
                    specialised: candidate.axes.keys().cloned().collect(),
                });
            }
            candidate.axes.insert(axis.name.clone(), value);
        }
        self.check_constraints(&candidate, None)?;
        Ok(candidate)
    }

    fn allowed(&self, name: &str, text: &str, values: &[Value]) -> Result<Value, SettingError> {
        Value::among(text, values).cloned().ok_or_else(|| SettingError::Value {
            family: self.name.clone(),
            name: name.to_owned(),
            value: text.to_owned(),
            allowed: list(values),
        })
    }

    fn unknown(&self, what: &'static str, name: &str, known: Vec<&str>) -> SettingError {
        SettingError::Unknown {
            family: self.name.clone(),
            what,
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Checks the constraints of one target, or, without a target, those that apply to all targets.
    fn check_constraints(&self, candidate: &Candidate, target: Option<Target>) -> Result<(), SettingError> {
        let scope = candidate.scope();
        let applies = |on: &[Target]| target.map_or(on.is_empty(), |target| on.contains(&target));
        for constraint in self.constraints.iter().filter(|constraint| applies(&constraint.on)) {
            let holds = constraint.require.boolean(&scope).map_err(|error| self.failed(error))?;
            if !holds {
                let value =
                    |name: &String| candidate.knobs.get(name).or_else(|| candidate.axes.get(name)).cloned();
                return Err(self.violated(constraint, value));
            }
        }
        Ok(())
    }

    fn failed(&self, error: EvalError) -> SettingError {
        SettingError::Expression { family: self.name.clone(), error }
    }

    /// The candidate's layout of shared memory.
    pub fn layout(&self, candidate: &Candidate) -> Result<Layout, SettingError> {
        self.place(&self.shared, &candidate.scope())
    }

    /// The layout of the candidate's global workspace for a problem of these sizes.
    pub fn workspace(&self, candidate: &Candidate, sizes: &Sizes) -> Result<Layout, SettingError> {
        self.place(&self.workspace, &candidate.scope_with(sizes))
    }

    /// The names of the buffers in the global workspace.
    pub fn scratch_names(&self) -> impl Iterator<Item = &str> {
        self.workspace.iter().map(|rule| rule.name.as_str())
    }

    /// The boxes of the tensor maps that the candidate's kernel gets as parameters, in their order.
    pub fn tensor_boxes(&self, candidate: &Candidate) -> Result<Vec<TensorBox>, SettingError> {
        let scope = candidate.scope();
        let extent = |extent: &Expression| {
            let extent = extent.size(&scope).map_err(|error| self.failed(error))?;
            u32::try_from(extent).map_err(|_| SettingError::Overflow { family: self.name.clone() })
        };
        let tensor_box = |rule: &TensorMapRule| {
            let width = |what: &str, rule: &Expression, known: [u64; 4]| {
                let bytes = extent(rule)?;
                let reason = || format!("a {what} of {bytes} bytes does not exist");
                let unknown =
                    || self.failed(EvalError { expression: rule.text().to_owned(), reason: reason() });
                known.contains(&u64::from(bytes)).then_some(bytes).ok_or_else(unknown)
            };
            Ok(TensorBox {
                tensor: rule.tensor.clone(),
                extents: rule.extents.iter().map(extent).collect::<Result<_, _>>()?,
                swizzle_bytes: width("swizzle", &rule.swizzle_bytes, SWIZZLES)?,
                promotion_bytes: width("promotion", &rule.promotion_bytes, PROMOTIONS)?,
            })
        };
        self.tensor_maps.iter().map(tensor_box).collect()
    }

    fn place(&self, rules: &[BufferRule], scope: &Scope) -> Result<Layout, SettingError> {
        let requests = rules
            .iter()
            .map(|rule| buffer_request(rule, scope))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.failed(error))?;
        Layout::place(requests).ok_or_else(|| SettingError::Overflow { family: self.name.clone() })
    }

    /// The threads of a block of the main launch.
    pub fn block(&self, candidate: &Candidate) -> Result<[u32; 3], SettingError> {
        self.block_of(self.main_launch(), candidate)
    }

    fn main_launch(&self) -> &LaunchRule {
        // The manifest has a launch of the family's entry.
        self.launches.iter().find(|launch| launch.entry == self.entry).unwrap_or(&self.launches[0])
    }

    pub(crate) fn block_of(
        &self,
        launch: &LaunchRule,
        candidate: &Candidate,
    ) -> Result<[u32; 3], SettingError> {
        let block = self.dimensions(&launch.block, &candidate.scope())?;
        let threads = product(block);
        if threads > 1024 || threads == 0 {
            return Err(SettingError::Threads { family: self.name.clone(), threads });
        }
        Ok(block.map(|extent| extent as u32))
    }

    /// The main launch of the candidate on a problem of these sizes.
    pub fn launch(&self, candidate: &Candidate, sizes: &Sizes) -> Result<Launch, SettingError> {
        self.launch_of(self.main_launch(), candidate, sizes)
    }

    /// The launches that the candidate needs, by their place among those of the manifest.
    pub fn launched(&self, candidate: &Candidate) -> Result<Vec<usize>, SettingError> {
        let mut places = Vec::new();
        for (place, rule) in self.launches.iter().enumerate() {
            let wanted = rule.when.as_ref().map_or(Ok(true), |when| when.boolean(&candidate.scope()));
            if wanted.map_err(|error| self.failed(error))? {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// All launches of the candidate in their order, each with the name of its function.
    pub fn launch_sequence(
        &self,
        candidate: &Candidate,
        sizes: &Sizes,
    ) -> Result<Vec<(&str, Launch)>, SettingError> {
        let launch =
            |rule: &'_ LaunchRule| -> Result<_, SettingError> { self.launch_of(rule, candidate, sizes) };
        let rules = self.launched(candidate)?.into_iter().map(|place| &self.launches[place]);
        rules.map(|rule| Ok((rule.entry.as_str(), launch(rule)?))).collect()
    }

    fn launch_of(
        &self,
        rule: &LaunchRule,
        candidate: &Candidate,
        sizes: &Sizes,
    ) -> Result<Launch, SettingError> {
        let cluster = self.dimensions(&rule.cluster, &candidate.scope())?;
        let blocks = product(cluster);
        if blocks > MOST_CLUSTERED || blocks == 0 {
            return Err(SettingError::Cluster { family: self.name.clone(), blocks });
        }
        Ok(Launch {
            grid: self.dimensions(&rule.grid, &candidate.scope_with(sizes))?,
            block: self.block_of(rule, candidate)?,
            cluster: cluster.map(|extent| extent as u32),
            shared_bytes: if rule.has_shared { self.layout(candidate)?.total_bytes } else { 0 },
        })
    }

    /// Refuses a problem of sizes that the candidate does not support.
    pub fn check_sizes(&self, candidate: &Candidate, sizes: &Sizes) -> Result<(), SettingError> {
        let scope = candidate.scope_with(sizes);
        for constraint in &self.size_constraints {
            if !constraint.require.boolean(&scope).map_err(|error| self.failed(error))? {
                let value = |name: &String| {
                    let setting = candidate.knobs.get(name).or_else(|| candidate.axes.get(name)).cloned();
                    setting.or_else(|| sizes.get(name).copied().map(Value::Int))
                };
                return Err(self.violated(constraint, value));
            }
        }
        Ok(())
    }

    fn violated(&self, constraint: &Constraint, value: impl Fn(&String) -> Option<Value>) -> SettingError {
        let mut names = constraint.require.variables();
        names.sort();
        let numbers: Vec<String> =
            names.iter().filter_map(|name| Some(format!("{name} = {}", value(name)?))).collect();
        SettingError::Constraint {
            family: self.name.clone(),
            constraint: constraint.text().to_owned(),
            numbers: numbers.join(", "),
            because: constraint.because.clone(),
        }
    }

    /// Every combination of values of the compile-time axes, in the form that [`Family::candidate`] takes.
    pub fn axis_settings(&self) -> Vec<Vec<(String, String)>> {
        let mut settings = vec![Vec::new()];
        for axis in self.axes.iter().filter(|axis| axis.specialised) {
            let extended = |setting: &Vec<(String, String)>| {
                let setting = setting.clone();
                axis.values.iter().map(move |value| {
                    let mut longer = setting.clone();
                    longer.push((axis.name.clone(), value.to_string()));
                    longer
                })
            };
            settings = settings.iter().flat_map(extended).collect();
        }
        settings
    }

    /// Whether the grid of a launch depends on a knob.
    pub fn grid_depends_on(&self, knob: &str) -> bool {
        let mut extents = self.launches.iter().flat_map(|launch| &launch.grid);
        extents.any(|extent| extent.variables().iter().any(|name| name == knob))
    }

    /// The values of those knobs that the grid depends on: mostly extents of tiles.
    pub fn tile_sizes(&self) -> Vec<i64> {
        let knobs = self.knobs.iter().filter(|knob| self.grid_depends_on(&knob.name));
        let sizes = knobs.flat_map(|knob| &knob.values).filter_map(|value| match value {
            Value::Int(size) if *size > 1 => Some(*size),
            _ => None,
        });
        sizes.collect()
    }

    /// The names of the sizes that a launch needs.
    pub fn size_names(&self) -> &[String] {
        &self.sizes
    }

    fn dimensions(&self, list: &[Expression], scope: &Scope) -> Result<[u64; 3], SettingError> {
        let mut extents = [1; 3];
        for (extent, expression) in extents.iter_mut().zip(list) {
            *extent = expression.size(scope).map_err(|error| self.failed(error))?;
        }
        Ok(extents)
    }

    /// Refuses a target that the family is not written for, whatever the setting.
    pub fn check_has_target(&self, target: Target) -> Result<(), SettingError> {
        if self.targets.contains(&target) {
            return Ok(());
        }
        let targets = self.targets.clone();
        Err(SettingError::Target { family: self.name.clone(), target, targets })
    }

    /// Refuses a candidate that cannot run on the target, before anything is compiled.
    pub fn check_target(&self, candidate: &Candidate, target: Target) -> Result<(), SettingError> {
        self.check_has_target(target)?;
        self.check_constraints(candidate, Some(target))?;
        for launch in &self.launches {
            self.block_of(launch, candidate)?;
        }
        let layout = self.layout(candidate)?;
        let available = u64::from(target.limits().shared_per_block_opt_in);
        if layout.total_bytes > available {
            let buffers: Vec<String> = layout
                .buffers
                .iter()
                .filter(|buffer| buffer.bytes > 0)
                .map(|buffer| format!("{} {}", buffer.name, buffer.bytes))
                .collect();
            return Err(SettingError::SharedMemory {
                family: self.name.clone(),
                needed: layout.total_bytes,
                available,
                target,
                buffers: buffers.join(" + "),
            });
        }
        Ok(())
    }
}

/// The name of a setting for people: a preset, and the knobs that are set on top of it. `d64 BLOCK_M=64 STAGES=2`.
pub fn setting_name<'k>(
    preset: Option<&str>,
    knobs: impl IntoIterator<Item = &'k (String, String)>,
) -> String {
    let knobs = knobs.into_iter().map(|(knob, value)| format!(" {knob}={value}"));
    preset.unwrap_or("defaults").to_owned() + &knobs.collect::<String>()
}

impl Candidate {
    /// A short name for people: the preset, and the knobs that differ from it.
    pub fn label(&self, family: &Family) -> String {
        setting_name(self.preset.as_deref(), &self.changes(family))
    }

    /// The knobs that differ from the preset, or from the defaults. The preset's name and these changes define the
    /// candidate.
    pub fn changes(&self, family: &Family) -> Vec<(String, String)> {
        let preset = self.preset.as_deref().and_then(|name| family.preset(name));
        let changed = family.knobs.iter().filter_map(|knob| {
            let before = preset.and_then(|preset| preset.knobs.get(&knob.name)).unwrap_or(&knob.default);
            let now = &self.knobs[&knob.name];
            (now != before).then(|| (knob.name.clone(), now.to_string()))
        });
        changed.collect()
    }

    /// The same setting, relative to the preset from which the fewest knobs differ. In a tie `favourite` is chosen,
    /// then the first preset.
    #[must_use]
    pub fn relative_to_nearest_preset(self, family: &Family, favourite: &str) -> Self {
        let presets = family.preset(favourite).into_iter().chain(&family.presets);
        let from = presets.map(|preset| Some(preset.name.clone())).chain([None]);
        let candidates = from.map(|preset| Candidate { preset, ..self.clone() });
        candidates.min_by_key(|candidate| candidate.changes(family).len()).unwrap_or(self)
    }

    pub(crate) fn scope(&self) -> Scope {
        Family::scope(self.knobs.iter().chain(&self.axes))
    }

    pub(crate) fn scope_with(&self, sizes: &Sizes) -> Scope {
        let mut scope = self.scope();
        for (name, size) in sizes {
            scope.add(name, &Value::Int(*size));
        }
        scope
    }
}

/// The product of three extents, saturated: the extents come from a manifest.
fn product(extents: [u64; 3]) -> u64 {
    extents.into_iter().fold(1, u64::saturating_mul)
}

fn buffer_request(rule: &BufferRule, scope: &Scope) -> Result<BufferRequest, EvalError> {
    let present = rule.when.as_ref().map_or(Ok(true), |when| when.boolean(scope))?;
    let mut shape = rule.shape.iter().map(|extent| extent.size(scope)).collect::<Result<Vec<_>, _>>()?;
    if !present {
        shape.fill(0);
    }
    Ok(BufferRequest {
        name: rule.name.clone(),
        element: rule.element.clone(),
        shape,
        align: rule.align,
        overlays: rule.overlays.clone(),
        about: rule.about.clone(),
    })
}
