//! Quantises one tensor before attention: selects a kernel of the op `quantise` and launches it.
//!
//! The op and its families are declared by files, and this crate does not depend on the crate that reads them. It needs
//! only their manifests and tuned tables, which the catalog has.

use std::fmt;
use std::sync::Arc;

use family::{Candidate, Catalog, Family, Parameter, Sizes, Value};
use gpu::accelerator::{Geometry, LaunchStep, RepeatedCall};
use gpu::device::Device as FoundDevice;
use op::dispatch::{self, Dispatch};
use op::{Refusal, Similarity};

use super::backend::{Backend, Module};
use super::error::ForwardError;
use crate::problem::Dtype;
use crate::tensor::Shape;

/// The op, and the names of its sizes.
const OP: &str = "quantise";
const SIZES: [&str; 4] = ["batch", "heads", "seq", "head_dim"];

/// What a tensor is quantised from and to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QuantiserProblem {
    pub shape: Shape,
    /// fp16 or bf16.
    pub dtype: Dtype,
    /// Positions that share a scale; 0: all of a head.
    pub block: usize,
    pub rotate: bool,
}

impl QuantiserProblem {
    /// The number of scales.
    pub(super) fn scales(&self) -> usize {
        let per_head = if self.block == 0 { 1 } else { self.shape.seq.div_ceil(self.block) };
        self.shape.all_heads() * per_head
    }

    /// Reads a name as tuned tables have it: `batch1-heads8-seq512-head_dim64-fp16-block64-rotate`.
    fn from_name(name: &str) -> Option<Self> {
        let value = |part: &str| name.split('-').find_map(|it| it.strip_prefix(part)?.parse::<usize>().ok());
        let [batch, heads, seq, head_dim] = SIZES.map(value);
        let shape = Shape { batch: batch?, heads: heads?, seq: seq?, head_dim: head_dim? };
        let dtype = Dtype::ALL.into_iter().find(|dtype| name.split('-').any(|part| part == dtype.name()))?;
        let rotate = name.split('-').any(|part| part == "rotate");
        Some(QuantiserProblem { shape, dtype, block: value("block").unwrap_or(0), rotate })
    }

    fn sizes(&self) -> Sizes {
        let Shape { batch, heads, seq, head_dim } = self.shape;
        SIZES
            .map(str::to_owned)
            .into_iter()
            .zip([batch, heads, seq, head_dim].map(|size| size as i64))
            .collect()
    }

    /// The compile-time axes for a family; `None` if it does not support the problem.
    fn axes(&self, family: &Family) -> Option<Vec<(String, String)>> {
        let value = |axis: &str| match axis {
            "dtype" => Some(Value::Text(self.dtype.name().to_owned())),
            "block" => Some(Value::Int(self.block as i64)),
            "rotate" => Some(Value::Bool(self.rotate)),
            _ => None,
        };
        let mut axes = Vec::new();
        for axis in &family.axes {
            let value = value(&axis.name).filter(|value| axis.values.contains(value))?;
            if axis.specialised {
                axes.push((axis.name.clone(), value.to_string()));
            }
        }
        Some(axes)
    }
}

impl fmt::Display for QuantiserProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { batch, heads, seq, head_dim } = self.shape;
        write!(f, "batch{batch}-heads{heads}-seq{seq}-head_dim{head_dim}-{}", self.dtype)?;
        if self.block > 0 {
            write!(f, "-block{}", self.block)?;
        }
        f.write_str(if self.rotate { "-rotate" } else { "" })
    }
}

/// The addresses of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuantiserAddresses {
    pub x: u64,
    pub codes: u64,
    pub scales: u64,
    pub workspace: u64,
}

/// A kernel that quantises tensors of one shape.
#[derive(Debug)]
pub(super) struct Quantiser {
    module: Arc<Module>,
    /// The family and the setting.
    pub(super) name: String,
    pub(super) problem: QuantiserProblem,
    launches: Vec<(String, Geometry)>,
    /// The parameters of every launch, by name.
    parameters: Vec<Vec<Parameter>>,
    pub(super) workspace_bytes: u64,
}

/// Launches on certain addresses.
#[derive(Debug)]
pub(super) struct PreparedQuantiser {
    parameters: Vec<Vec<Vec<u8>>>,
    /// Only on a GPU.
    pub(super) call: Option<RepeatedCall>,
}

impl Quantiser {
    pub(super) fn new(
        module: Arc<Module>,
        family: &Family,
        candidate: &Candidate,
        problem: QuantiserProblem,
    ) -> Result<Self, ForwardError> {
        let unsupported = |reason: String| ForwardError::Unsupported(reason);
        let sizes = problem.sizes();
        let launches = op::launch_geometries(family, candidate, &sizes);
        let launched = family.launched(candidate).map_err(|error| unsupported(error.to_string()))?;
        let parameters = family.parameters().enumerate().filter(|(place, _)| launched.contains(place));
        let workspace =
            family.workspace(candidate, &sizes).map_err(|error| unsupported(error.to_string()))?;
        Ok(Quantiser {
            module,
            name: format!("{} {}", family.full_name(), candidate.label(family)),
            problem,
            launches: launches.map_err(|error| unsupported(error.to_string()))?,
            parameters: parameters.map(|(_, names)| names.to_vec()).collect(),
            workspace_bytes: workspace.total_bytes,
        })
    }

    fn parameter(&self, parameter: &Parameter, at: &QuantiserAddresses) -> Result<Vec<u8>, ForwardError> {
        let address = |address: u64| address.to_le_bytes().to_vec();
        let size = |size: usize| match parameter.dtype.as_deref() {
            Some("i64" | "u64") => (size as u64).to_le_bytes().to_vec(),
            _ => (size as u32).to_le_bytes().to_vec(),
        };
        let Shape { batch, heads, seq, head_dim } = self.problem.shape;
        Ok(match parameter.name.as_str() {
            "x" => address(at.x),
            "codes" => address(at.codes),
            "scales" => address(at.scales),
            "workspace" => address(at.workspace),
            "batch" => size(batch),
            "heads" => size(heads),
            "seq" => size(seq),
            "head_dim" => size(head_dim),
            other => {
                let reason = format!("{}: the parameter `{other}` is unknown", self.name);
                return Err(ForwardError::Unsupported(reason));
            }
        })
    }

    /// Resolves the launches.
    pub(super) fn prepare(
        &self,
        backend: &Backend,
        at: &QuantiserAddresses,
    ) -> Result<PreparedQuantiser, ForwardError> {
        let launch = |launch: &Vec<Parameter>| {
            launch.iter().map(|it| self.parameter(it, at)).collect::<Result<_, _>>()
        };
        let parameters: Vec<Vec<Vec<u8>>> = self.parameters.iter().map(launch).collect::<Result<_, _>>()?;
        let call = backend.call(&self.module, self.steps(&parameters))?;
        Ok(PreparedQuantiser { parameters, call })
    }

    /// Runs prepared launches on the virtual GPU.
    pub(super) fn run_virtual(
        &self,
        backend: &Backend,
        prepared: &PreparedQuantiser,
    ) -> Result<(), ForwardError> {
        backend.run_virtual(&self.module, self.steps(&prepared.parameters))
    }

    fn steps<'l>(&'l self, parameters: &'l [Vec<Vec<u8>>]) -> impl Iterator<Item = LaunchStep<'l>> {
        let step = |((entry, geometry), parameters): (&'l (String, Geometry), &'l Vec<Vec<u8>>)| LaunchStep {
            entry,
            geometry: *geometry,
            parameters,
        };
        self.launches.iter().zip(parameters).map(step)
    }
}

/// The op `quantise` for the dispatcher.
struct Quantise;

impl Dispatch for Quantise {
    type Problem = QuantiserProblem;

    fn op(&self) -> &str {
        OP
    }

    fn problem(&self, name: &str) -> Result<QuantiserProblem, Refusal> {
        QuantiserProblem::from_name(name)
            .ok_or_else(|| Refusal::new(format!("`{name}` is not a problem of {OP}")))
    }

    /// All problems are of one kind: a setting that is allowed for a type and a block is as good there as for others.
    fn similarity(&self, problem: &QuantiserProblem) -> Similarity {
        let size = problem.shape.elements() as f64;
        Similarity { kind: String::new(), related: Vec::new(), regime: 0, size }
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &QuantiserProblem,
    ) -> Result<Candidate, Refusal> {
        let axes = problem
            .axes(family)
            .ok_or_else(|| Refusal::new(format!("{} does not support {problem}", family.full_name())))?;
        let candidate = family.candidate(preset, knobs, &axes)?;
        family.check_sizes(&candidate, &problem.sizes())?;
        Ok(candidate)
    }
}

/// Selects a family and a setting.
pub(super) fn choose<'c>(
    catalog: &'c Catalog,
    device: &FoundDevice,
    problem: &QuantiserProblem,
) -> Result<(&'c Family, Candidate), ForwardError> {
    dispatch::choose(&Quantise, catalog, device, problem).map_err(|_| {
        let Shape { batch, heads, seq, head_dim } = problem.shape;
        ForwardError::Unsupported(format!(
            "no kernel quantises {} tensors [{batch}, {heads}, {seq}, {head_dim}] on {}",
            problem.dtype,
            device.gpu()
        ))
    })
}

#[cfg(test)]
mod tests {
    use family::tuned_table::{self, Pick, Table};
    use times::{MeasuredMicros, ModelledMicros, Time};

    use super::*;

    fn chosen(gpu: &str, problem: QuantiserProblem) -> String {
        chosen_of(&Catalog::load(None).expect("the embedded kernels"), gpu, problem)
    }

    fn chosen_of(catalog: &Catalog, gpu: &str, problem: QuantiserProblem) -> String {
        let device = FoundDevice::Virtual { chip: chips::Chip::by_name(gpu).expect("a chip") };
        let (family, _) = choose(catalog, &device, &problem).unwrap_or_else(|error| panic!("{error}"));
        family.name.clone()
    }

    #[test]
    fn a_kernel_is_selected_for_every_way_to_quantise() {
        let shape = Shape { batch: 1, heads: 8, seq: 512, head_dim: 64 };
        let head = QuantiserProblem { shape, dtype: Dtype::Fp16, block: 0, rotate: false };
        assert_eq!(chosen("h200", head), "ring");
        assert_eq!(chosen("l4", head), "two-pass");
        assert_eq!(chosen("h200", QuantiserProblem { rotate: true, ..head }), "two-pass");
        assert_eq!(chosen("h200", QuantiserProblem { block: 96, ..head }), "blocks");
        // A head that is no whole number of vectors.
        let odd = Shape { seq: 3, head_dim: 20, ..shape };
        assert_eq!(chosen("h200", QuantiserProblem { shape: odd, ..head }), "plain");
    }

    /// The families of `quantise` whose tables have one pick each, for one problem.
    fn with_picks(ring: Time, two_pass: Time, name: &str) -> Catalog {
        let folder = tempfile::tempdir().expect("a folder");
        for (family, time) in [("ring", ring), ("two-pass", two_pass)] {
            let pick = Pick {
                gpu: "NVIDIA H200".to_owned(),
                problem: name.to_owned(),
                family: format!("{OP}/{family}"),
                time,
                speedup: None,
                baseline: "defaults".to_owned(),
                build: "3f9a".to_owned(),
                commit: None,
                knobs: [].into(),
            };
            let table = Table { picks: vec![pick], ..Table::default() };
            let path = folder.path().join(OP).join(family).join(tuned_table::FILE);
            table.write(&path).expect("a table");
        }
        Catalog::load(Some(folder.path())).expect("the embedded kernels with other tables")
    }

    /// The selection used to compare the two times.
    #[test]
    fn a_measured_pick_is_selected_before_a_faster_modelled_one() {
        let measured = |micros| Time::Measured(MeasuredMicros(micros));
        let modelled = |micros| Time::Modelled(ModelledMicros(micros));
        let name = "batch1-heads8-seq512-head_dim64-fp16";
        let problem = QuantiserProblem::from_name(name).expect("a problem");
        for (ring, two_pass, expected) in [
            (measured(9.0), modelled(3.0), "ring"),
            (modelled(3.0), measured(9.0), "two-pass"),
            (measured(9.0), measured(3.0), "two-pass"),
            (modelled(3.0), modelled(9.0), "ring"),
        ] {
            let catalog = with_picks(ring, two_pass, name);
            assert_eq!(chosen_of(&catalog, "h200", problem), expected, "{ring:?} {two_pass:?}");
        }
    }

    #[test]
    fn a_problem_is_known_from_its_name() {
        for name in [
            "batch2-heads8-seq512-head_dim64-bf16-block64",
            "batch1-heads8-seq512-head_dim64-fp16",
            "batch1-heads8-seq512-head_dim64-fp16-rotate",
        ] {
            assert_eq!(
                QuantiserProblem::from_name(name).map(|problem| problem.to_string()).as_deref(),
                Some(name)
            );
        }
        assert_eq!(QuantiserProblem::from_name("rows4-cols8"), None);
    }
}
