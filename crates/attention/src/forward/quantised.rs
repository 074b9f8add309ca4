//! FP8 attention for fp16 and bf16 tensors: quantises Q, K and V to E4M3, then computes attention on the codes.
//!
//! All launches are on the caller's stream. Codes and scales are in the workspace.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use family::{Candidate, Family, Value};
use gpu::accelerator::Buffer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backend::{Backend, keep, lock};
use super::device::Device;
use super::error::{ForwardError, wrong};
use super::options::{Options, Scales};
use super::plan::{BLOCK_SCALES, Plan, Tensors, enqueue};
use super::quantiser::{self, PreparedQuantiser, Quantiser, QuantiserAddresses, QuantiserProblem};
use super::view::View;
use crate::problem::{Dtype, Problem};
use crate::run;
use crate::tensor::{Layout, Shape};

/// Most prepared launches to keep.
const MOST_CALLS: usize = 256;

/// Parts of the workspace start on this boundary, in bytes.
const ALIGNMENT: u64 = 256;

/// Queries that share a scale, if scales are per block: the rows of a warpgroup.
const QUERY_BLOCK: usize = 64;

/// Which elements share a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaledPart {
    /// All elements of a head.
    #[default]
    Head,
    /// 64 queries of a head, and as many keys and values as the kernel uses in one step.
    Block,
}

impl fmt::Display for ScaledPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ScaledPart::Head => "head",
            ScaledPart::Block => "block",
        })
    }
}

/// How tensors are quantised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quantisation {
    /// Which elements share a scale.
    pub scales: ScaledPart,
    /// Whether queries and keys are multiplied by the same random rotation first. Their products stay the same, and an
    /// element that is much larger than the others is spread over the head dimension. That must be a power of two.
    pub rotate: bool,
    /// The type of the output, fp16 or bf16. `None`: fp16, whose range ends at 65504.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Dtype>,
}

/// Kernels that quantise Q, K and V, and the attention kernel for the codes.
#[derive(Debug)]
pub struct QuantisedPlan {
    backend: Arc<Backend>,
    /// The problem, in fp16 or bf16.
    pub problem: Problem,
    /// How tensors are quantised.
    pub quantisation: Quantisation,
    attention: Plan,
    /// For Q, K and V; `None` for a tensor without elements.
    quantisers: [Option<Quantiser>; 3],
    places: Places,
    calls: Mutex<HashMap<[QuantiserAddresses; 3], Arc<PreparedParts>>>,
}

type PreparedParts = [Option<PreparedQuantiser>; 3];

/// Offsets in the workspace.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    codes: [u64; 3],
    scales: [u64; 3],
    quantiser: u64,
    attention: u64,
    total: u64,
}

impl Places {
    fn new(problems: &[QuantiserProblem; 3], quantiser_bytes: u64, attention_bytes: u64) -> Self {
        let mut places = Places::default();
        let mut take = |bytes: u64| {
            let at = places.total;
            places.total = (at + bytes).next_multiple_of(ALIGNMENT);
            at
        };
        let codes = problems.map(|problem| take(problem.shape.elements() as u64));
        let scales = problems.map(|problem| take(4 * problem.scales() as u64));
        let (quantiser, attention) = (take(quantiser_bytes), take(attention_bytes));
        Places { codes, scales, quantiser, attention, ..places }
    }
}

impl Device {
    /// Selects, compiles and loads the kernels for a problem in fp16 or bf16. Keep the plan: every call makes a new one.
    pub fn quantised_plan(
        &self,
        problem: &Problem,
        quantisation: Quantisation,
    ) -> Result<QuantisedPlan, ForwardError> {
        if problem.dtype == Dtype::E4m3 {
            return Err(wrong("q", "its type is e4m3 already, but must be fp16 or bf16"));
        }
        if quantisation.rotate && !problem.head_dim.is_power_of_two() {
            let reason = format!("head_dim is {}, but a rotation needs a power of two", problem.head_dim);
            return Err(wrong("q", reason));
        }
        let codes = problem.with_dtype(Dtype::E4m3);
        let output = quantisation.output.unwrap_or(codes.output);
        if !Dtype::E4m3.outputs().contains(&output) {
            return Err(wrong("o", format!("its type is {output}, but must be fp16 or bf16")));
        }
        let codes = codes.with_output(output);
        let (attention, key_block) = self.attention_plan(&codes, quantisation.scales)?;
        let blocks = match quantisation.scales {
            ScaledPart::Head => [0; 3],
            ScaledPart::Block => [QUERY_BLOCK, key_block, key_block],
        };
        let Quantisation { rotate, .. } = quantisation;
        let [queries, keys] = [problem.query_shape(), problem.key_shape()];
        let part = |shape: Shape, block: usize, rotate: bool| QuantiserProblem {
            shape,
            dtype: problem.dtype,
            block,
            rotate,
        };
        let problems =
            [part(queries, blocks[0], rotate), part(keys, blocks[1], rotate), part(keys, blocks[2], false)];
        let mut quantisers = [None, None, None];
        for (quantiser, problem) in quantisers.iter_mut().zip(problems) {
            if problem.shape.elements() > 0 {
                let (family, candidate) = quantiser::choose(self.catalog(), self.found(), &problem)?;
                let module = self.load(family, &candidate)?;
                *quantiser = Some(Quantiser::new(module, family, &candidate, problem)?);
            }
        }
        // The quantisers run one after the other, so they share a workspace.
        let shared = quantisers.iter().flatten().map(|it| it.workspace_bytes).max().unwrap_or(0);
        let places = Places::new(&problems, shared, attention.workspace_bytes());
        Ok(QuantisedPlan {
            backend: self.backend().clone(),
            problem: *problem,
            quantisation,
            attention,
            quantisers,
            places,
            calls: Mutex::default(),
        })
    }

    /// The plan for the codes, and the keys of one step.
    fn attention_plan(&self, codes: &Problem, scales: ScaledPart) -> Result<(Plan, usize), ForwardError> {
        let Some((family, candidate)) = self.choose(codes)? else {
            return Ok((Plan::empty(self.backend().clone(), *codes), QUERY_BLOCK));
        };
        let candidate = match scales {
            ScaledPart::Head => candidate,
            ScaledPart::Block => with_block_scales(family, &candidate, codes)?,
        };
        let key_block = match candidate.knobs.get("BLOCK_N") {
            Some(Value::Int(keys)) => *keys as usize,
            _ => QUERY_BLOCK,
        };
        let module = self.load(family, &candidate)?;
        Ok((Plan::new(self.backend().clone(), module, family, &candidate, *codes)?, key_block))
    }
}

/// The same setting, compiled for scales per block.
fn with_block_scales(
    family: &Family,
    candidate: &Candidate,
    codes: &Problem,
) -> Result<Candidate, ForwardError> {
    let unsupported = |reason: String| ForwardError::Unsupported(reason);
    if family.knob(BLOCK_SCALES).is_none() {
        let name = &family.name;
        return Err(unsupported(format!(
            "the kernels of {name}, which this GPU runs, have scales per head only"
        )));
    }
    let mut knobs: Vec<(String, String)> =
        candidate.knobs.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
    knobs.push((BLOCK_SCALES.to_owned(), "true".to_owned()));
    let preset = candidate.preset.as_deref().unwrap_or_default();
    let changed = family.candidate(None, &knobs, &run::axes(family, codes));
    Ok(changed.map_err(|error| unsupported(error.to_string()))?.relative_to_nearest_preset(family, preset))
}

impl QuantisedPlan {
    /// The family and the setting of the attention kernel: `hopper fp8-d64`.
    pub fn attention_kernel(&self) -> &str {
        self.attention.kernel()
    }

    /// The families and settings of the kernels that quantise Q, K and V, each once.
    pub fn quantise_kernels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for quantiser in self.quantisers.iter().flatten() {
            if !names.contains(&quantiser.name.as_str()) {
                names.push(&quantiser.name);
            }
        }
        names
    }

    /// The size of the workspace that a launch needs: codes, scales, and what the kernels need themselves.
    pub fn workspace_bytes(&self) -> u64 {
        self.places.total
    }

    /// Enqueues all kernels. Q, K and V must be contiguous, `[batch, heads, seq, head_dim]`. The output has the type
    /// of [`Quantisation::output`]. See [`super::forward`] for what the caller guarantees.
    pub fn launch(&self, tensors: &Tensors, options: &Options) -> Result<(), ForwardError> {
        self.quantise(tensors, options)?;
        self.attend(tensors, options)
    }

    /// Enqueues the kernels that quantise Q, K and V: the first part of [`QuantisedPlan::launch`].
    pub fn quantise(&self, tensors: &Tensors, options: &Options) -> Result<(), ForwardError> {
        let workspace = self.check(tensors, options)?;
        let Tensors { q, k, v, .. } = tensors;
        let at = |part: usize, view: &View| QuantiserAddresses {
            x: view.address,
            codes: workspace.address + self.places.codes[part],
            scales: workspace.address + self.places.scales[part],
            workspace: workspace.address + self.places.quantiser,
        };
        let addresses = [at(0, q), at(1, k), at(2, v)];
        let prepared = self.prepared(&addresses)?;
        for (quantiser, prepared) in self.quantisers.iter().zip(prepared.iter()) {
            let (Some(quantiser), Some(prepared)) = (quantiser, prepared) else { continue };
            match &prepared.call {
                Some(call) => enqueue(call, options)?,
                None => quantiser.run_virtual(&self.backend, prepared)?,
            }
        }
        Ok(())
    }

    /// Enqueues attention on the codes that [`QuantisedPlan::quantise`] has written to the workspace.
    pub fn attend(&self, tensors: &Tensors, options: &Options) -> Result<(), ForwardError> {
        let workspace = self.check(tensors, options)?;
        let codes = |part: usize, shape: Shape| {
            let address = workspace.address + self.places.codes[part];
            View { address, dtype: Dtype::E4m3, shape, strides: Layout::Bhsd.strides(shape) }
        };
        // A tensor without elements has no scales: nothing has written them.
        let scales = |part: usize| {
            let address = workspace.address + self.places.scales[part];
            self.quantisers[part].as_ref().map(|_| address)
        };
        let (queries, keys) = (self.problem.query_shape(), self.problem.key_shape());
        let of_codes = Tensors { q: codes(0, queries), k: codes(1, keys), v: codes(2, keys), o: tensors.o };
        let options = Options {
            scales: Scales { q: scales(0), k: scales(1), v: scales(2) },
            workspace: Some(Buffer {
                address: workspace.address + self.places.attention,
                bytes: self.attention.workspace_bytes(),
            }),
            ..*options
        };
        self.attention.launch(&of_codes, &options)
    }

    /// Refuses tensors that are not those of the plan. Returns the workspace.
    fn check(&self, tensors: &Tensors, options: &Options) -> Result<Buffer, ForwardError> {
        let Tensors { q, k, v, .. } = tensors;
        let [queries, keys] = [self.problem.query_shape(), self.problem.key_shape()];
        for (argument, view, shape) in [("q", q, queries), ("k", k, keys), ("v", v, keys)] {
            if view.shape != shape || view.dtype != self.problem.dtype {
                return Err(wrong(argument, format!("its shape or type is not that of {}", self.problem)));
            }
            view.check(argument)?;
            let contiguous = View { strides: Layout::Bhsd.strides(shape), ..*view };
            if view.used_strides() != contiguous.used_strides() {
                let reason = "it must be contiguous, [batch, heads, sequence, head_dim]; copy it first";
                return Err(wrong(argument, reason));
            }
        }
        if options.mask != self.problem.mask {
            return Err(wrong("mask", format!("it is not that of {}", self.problem)));
        }
        if options.scales != Scales::default() {
            return Err(wrong("scales", "the plan computes the scales itself"));
        }
        let workspace = options.workspace.unwrap_or(Buffer { address: 0, bytes: 0 });
        let (bytes, needed) = (workspace.bytes, self.places.total);
        if bytes < needed || !workspace.address.is_multiple_of(ALIGNMENT) {
            let reason =
                format!("it has {bytes} bytes, but {needed} are needed, at a multiple of {ALIGNMENT}");
            return Err(wrong("workspace", reason));
        }
        Ok(workspace)
    }

    fn prepared(&self, addresses: &[QuantiserAddresses; 3]) -> Result<Arc<PreparedParts>, ForwardError> {
        if let Some(known) = lock(&self.calls).get(addresses) {
            return Ok(known.clone());
        }
        let mut parts: PreparedParts = [None, None, None];
        for ((part, quantiser), at) in parts.iter_mut().zip(&self.quantisers).zip(addresses) {
            *part = quantiser.as_ref().map(|it| it.prepare(&self.backend, at)).transpose()?;
        }
        Ok(keep(&self.calls, MOST_CALLS, *addresses, Arc::new(parts)))
    }
}
