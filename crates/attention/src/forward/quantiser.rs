//! Quantises one tensor before attention: selects a kernel of the op `quantise` and launches it.
//!
//! The op and its families are declared by files, and this crate does not depend on the crate that reads them. It needs
//! only their manifests and tuned tables, which the catalog has.

use std::sync::Arc;

use family::{Candidate, Catalog, Family, Parameter, Sizes, Value};
use gpu::accelerator::{Geometry, LaunchStep, RepeatedCall};
use gpu::device::Device as FoundDevice;

use super::backend::{Backend, Module};
use super::error::ForwardError;
use crate::problem::Dtype;
use crate::tensor::Shape;

/// The op, and the names of its sizes.
const OP: &str = "quantise";
const SIZES: [&str; 4] = ["batch", "heads", "seq", "head_dim"];

/// What a tensor is quantised from and to.
#[derive(Clone, Copy, Debug)]
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

/// Selects a family and a setting: the pick for the nearest number of elements, those of this GPU first; without a pick
/// the first preset that is allowed, of the plain family last.
pub(super) fn choose<'c>(
    catalog: &'c Catalog,
    device: &FoundDevice,
    problem: &QuantiserProblem,
) -> Result<(&'c Family, Candidate), ForwardError> {
    let entries = catalog.entries().iter().filter(|entry| entry.op == OP);
    let mut families: Vec<&Family> = entries.filter_map(|entry| entry.family.as_ref().ok()).collect();
    families.sort_by_key(|family| family.plain);
    let sizes = problem.sizes();
    let allowed = |family: &Family, preset: Option<&str>, knobs: &[(String, String)]| -> Option<Candidate> {
        let candidate = family.candidate(preset, knobs, &problem.axes(family)?).ok()?;
        family.check_sizes(&candidate, &sizes).ok()?;
        family.check_target(&candidate, device.target()).ok()?;
        Some(candidate)
    };
    let mut picks: Vec<_> = families
        .iter()
        .flat_map(|&family| {
            family.tuned.picks.iter().filter_map(move |pick| Some((elements(&pick.problem)?, family, pick)))
        })
        .map(|(size, family, pick)| {
            let distance = (size / problem.shape.elements() as f64).ln().abs();
            ((!pick.matches_gpu(device.gpu()), distance, pick.time.micros()), family, pick)
        })
        .collect();
    picks.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    let picked = picks.iter().find_map(|(_, family, pick)| {
        let candidate = allowed(family, None, &pick.setting())?;
        Some((*family, candidate.relative_to_nearest_preset(family, &pick.baseline)))
    });
    let preset = || {
        let presets = families
            .iter()
            .flat_map(|&family| family.presets.iter().map(move |preset| (family, preset.name.as_str())));
        presets.into_iter().find_map(|(family, preset)| Some((family, allowed(family, Some(preset), &[])?)))
    };
    picked.or_else(preset).ok_or_else(|| {
        let Shape { batch, heads, seq, head_dim } = problem.shape;
        ForwardError::Unsupported(format!(
            "no kernel quantises {} tensors [{batch}, {heads}, {seq}, {head_dim}] on {}",
            problem.dtype,
            device.gpu()
        ))
    })
}

/// The number of elements of a problem of the op, from its name: `batch1-heads8-seq512-head_dim64-fp16`.
fn elements(problem: &str) -> Option<f64> {
    let size = |name: &str| {
        let part = problem.split('-').find_map(|part| part.strip_prefix(name))?;
        part.parse::<f64>().ok()
    };
    SIZES.iter().map(|name| size(name)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(gpu: &str, problem: QuantiserProblem) -> String {
        let catalog = Catalog::load(None).expect("the embedded kernels");
        let device = FoundDevice::Virtual { chip: chips::Chip::by_name(gpu).expect("a chip") };
        let (family, _) = choose(&catalog, &device, &problem).unwrap_or_else(|error| panic!("{error}"));
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

    #[test]
    fn the_elements_of_a_pick_are_known_from_its_name() {
        assert_eq!(elements("batch2-heads8-seq512-head_dim64-bf16-block64"), Some(524_288.0));
        assert_eq!(elements("rows4-cols8"), None);
    }
}
