//! A kernel that was selected for a problem, ready to launch on any tensors of that problem.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use family::{Candidate, Family, TensorBox, Value};
use gpu::accelerator::{AcceleratorError, Geometry, LaunchStep, RepeatedCall};

use super::backend::{Backend, Module, keep, lock};
use super::error::{ForwardError, wrong};
use super::options::Options;
use super::view::View;
use crate::arguments::Arguments;
use crate::problem::{Mask, Problem, Serving};
use crate::run;
use crate::tensor::{Layout, Shape};

/// Most prepared launches of a plan to keep. A program usually uses the same memory again and again.
const MOST_CALLS: usize = 256;

/// The knob of families that can have FP8 scales per block.
pub(super) const BLOCK_SCALES: &str = "BLOCK_SCALES";

/// The tensors of one attention.
#[derive(Clone, Copy, Debug)]
pub struct Tensors {
    /// `[batch, heads, seq_q, head_dim]`.
    pub q: View,
    /// `[batch, kv_heads, seq_k, head_dim]`.
    pub k: View,
    /// Of the shape of `k`.
    pub v: View,
    /// The output, of the shape of `q`, in the type of the inputs. FP8 inputs give fp16 or bf16, as the caller likes.
    pub o: View,
}

impl Tensors {
    /// The problem that these tensors are. Refuses shapes and types that do not fit together.
    pub fn problem(&self, mask: Mask) -> Result<Problem, ForwardError> {
        self.problem_of(mask, false)
    }

    /// The problem of these tensors and what servers add to them.
    pub(super) fn problem_with(&self, options: &Options) -> Result<Problem, ForwardError> {
        let has_own_batch = options.served.pages.is_some();
        options.served.problem(self.problem_of(options.mask, has_own_batch)?, &self.k)
    }

    /// `has_own_batch`: K and V are not batch entries but pages.
    fn problem_of(&self, mask: Mask, has_own_batch: bool) -> Result<Problem, ForwardError> {
        let Tensors { q, k, v, o } = self;
        let Shape { batch, heads, seq: seq_q, head_dim } = q.shape;
        let Shape { heads: kv_heads, seq: seq_k, .. } = k.shape;
        for (argument, tensor) in [("k", k), ("v", v)] {
            if tensor.dtype != q.dtype {
                return Err(wrong(
                    argument,
                    format!("its type is {}, but that of q is {}", tensor.dtype, q.dtype),
                ));
            }
        }
        if k.shape.batch != batch && !has_own_batch {
            return Err(wrong("k", format!("its batch is {}, but that of q is {batch}", k.shape.batch)));
        }
        if k.shape.head_dim != head_dim {
            return Err(wrong(
                "k",
                format!("its head_dim is {}, but that of q is {head_dim}", k.shape.head_dim),
            ));
        }
        if v.shape != k.shape {
            return Err(wrong("v", "its shape differs from that of k"));
        }
        if o.shape != q.shape {
            return Err(wrong("o", "its shape differs from that of q"));
        }
        let outputs = q.dtype.outputs();
        if !outputs.contains(&o.dtype) {
            let wanted = outputs.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ");
            return Err(wrong(
                "o",
                format!("its type is {}, but for inputs in {} it is {wanted}", o.dtype, q.dtype),
            ));
        }
        if heads > 0 && (kv_heads == 0 || heads % kv_heads != 0) {
            let reason = format!("q has {heads} heads, which is not a multiple of its {kv_heads} heads");
            return Err(wrong("k", reason));
        }
        if head_dim == 0 {
            return Err(wrong("q", "head_dim is 0"));
        }
        let (dtype, output, serving) = (q.dtype, o.dtype, Serving::default());
        Ok(Problem { batch, heads, kv_heads, seq_q, seq_k, head_dim, mask, dtype, output, serving })
    }

    fn check(&self) -> Result<(), ForwardError> {
        let Tensors { q, k, v, o } = self;
        let inputs = [("q", q), ("k", k), ("v", v)];
        for (argument, view) in inputs.into_iter().chain([("o", o)]) {
            view.check(argument)?;
        }
        o.check_distinct("o")?;
        for (argument, input) in inputs {
            if o.overlaps(input) {
                return Err(wrong("o", format!("it overlaps {argument}")));
            }
        }
        Ok(())
    }
}

/// A kernel that was selected, compiled and loaded for a problem.
#[derive(Debug)]
pub struct Plan {
    backend: Arc<Backend>,
    /// The problem.
    pub problem: Problem,
    kernel: Option<Kernel>,
    /// Launches that are ready, by the bytes of their arguments.
    calls: Mutex<HashMap<Vec<u8>, Arc<Prepared>>>,
}

#[derive(Debug)]
struct Kernel {
    module: Arc<Module>,
    name: String,
    launches: Vec<(String, Geometry)>,
    boxes: Vec<TensorBox>,
    workspace_bytes: u64,
    /// Whether the FP8 scales are per block.
    has_block_scales: bool,
}

/// The launches of a plan on certain tensors.
#[derive(Debug)]
struct Prepared {
    parameters: Vec<Vec<u8>>,
    /// Only on a GPU.
    call: Option<RepeatedCall>,
}

impl Plan {
    pub(super) fn new(
        backend: Arc<Backend>,
        module: Arc<Module>,
        family: &Family,
        candidate: &Candidate,
        problem: Problem,
    ) -> Result<Self, ForwardError> {
        let unsupported = |reason: String| ForwardError::Unsupported(reason);
        let sizes = run::sizes(&problem);
        let launches = op::launch_geometries(family, candidate, &sizes);
        let workspace =
            family.workspace(candidate, &sizes).map_err(|error| unsupported(error.to_string()))?;
        let kernel = Kernel {
            module,
            name: format!("{} {}", family.name, candidate.label(family)),
            launches: launches.map_err(|error| unsupported(error.to_string()))?,
            boxes: family.tensor_boxes(candidate).map_err(|error| unsupported(error.to_string()))?,
            workspace_bytes: workspace.total_bytes,
            has_block_scales: candidate.knobs.get(BLOCK_SCALES) == Some(&Value::Bool(true)),
        };
        Ok(Plan { backend, problem, kernel: Some(kernel), calls: Mutex::default() })
    }

    pub(super) fn empty(backend: Arc<Backend>, problem: Problem) -> Self {
        Plan { backend, problem, kernel: None, calls: Mutex::default() }
    }

    /// The family and the setting: `hopper d64`. Empty for a problem without rows, which needs no kernel.
    pub fn kernel(&self) -> &str {
        self.kernel.as_ref().map_or("", |kernel| &kernel.name)
    }

    /// The size of the workspace that a launch needs.
    pub fn workspace_bytes(&self) -> u64 {
        self.kernel.as_ref().map_or(0, |kernel| kernel.workspace_bytes)
    }

    /// Enqueues the kernel on tensors of the plan's problem. See [`super::forward`] for what the caller guarantees.
    ///
    /// On a GPU it makes no call that would break the capture of a CUDA graph. The graph contains the addresses of
    /// these tensors.
    ///
    /// After some launches on the same tensors with the same options, it launches a graph of its own ([`Options::graphs`]).
    /// Launches on the same tensors then run one after another, also on different streams.
    pub fn launch(&self, tensors: &Tensors, options: &Options) -> Result<(), ForwardError> {
        if tensors.problem_with(options)? != self.problem {
            return Err(wrong("q", "these tensors have another shape than those of the plan"));
        }
        options.served.check()?;
        let scale = options.scale.unwrap_or_else(|| self.problem.softmax_scale());
        if !(scale.is_finite() && scale > 0.0) {
            return Err(wrong("scale", format!("it is {scale}, but must be a finite number above 0")));
        }
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let workspace = options.workspace.map_or(0, |buffer| buffer.bytes);
        if workspace < kernel.workspace_bytes {
            let needed = kernel.workspace_bytes;
            return Err(wrong("workspace", format!("it has {workspace} bytes, but {needed} are needed")));
        }
        if options.workspace.is_some_and(|buffer| buffer.address % 16 != 0) {
            return Err(wrong("workspace", "its address is not a multiple of 16"));
        }
        let arguments = self.arguments(tensors, options, scale).bytes();
        let known = lock(&self.calls).get(&arguments).cloned();
        let prepared = match known {
            Some(prepared) => prepared,
            None => self.prepare(kernel, tensors, arguments)?,
        };
        match &prepared.call {
            Some(call) => Ok(enqueue(call, options)?),
            None => self.backend.run_virtual(&kernel.module, steps(kernel, &prepared.parameters)),
        }
    }

    fn arguments(&self, tensors: &Tensors, options: &Options, scale: f32) -> Arguments {
        let Tensors { q, k, v, o } = tensors;
        // The strides are those of the tensors, so it does not matter here how sequences are stored.
        let serving = Serving { packed: false, ..self.problem.serving };
        let arguments = Arguments {
            q: q.address,
            k: k.address,
            v: v.address,
            o: o.address,
            q_strides: q.used_strides().into(),
            k_strides: k.used_strides().into(),
            v_strides: v.used_strides().into(),
            o_strides: o.used_strides().into(),
            softmax_scale: scale,
            lse: options.lse.unwrap_or(0),
            q_scale: options.scales.q.unwrap_or(0),
            k_scale: options.scales.k.unwrap_or(0),
            v_scale: options.scales.v.unwrap_or(0),
            workspace: options.workspace.map_or(0, |buffer| buffer.address),
            block_scales: i32::from(self.kernel.as_ref().is_some_and(|kernel| kernel.has_block_scales)),
            ..Arguments::for_problem(&Problem { serving, ..self.problem }, Layout::default())
        };
        options.served.add_to(arguments)
    }

    /// Checks the tensors, encodes their tensor maps and resolves the launches.
    fn prepare(
        &self,
        kernel: &Kernel,
        tensors: &Tensors,
        arguments: Vec<u8>,
    ) -> Result<Arc<Prepared>, ForwardError> {
        tensors.check()?;
        let mut parameters = vec![arguments.clone()];
        let Tensors { q, k, v, o } = tensors;
        let strides = [q, k, v, o].map(View::used_strides);
        let shapes = run::tensor_shapes(&self.problem, [q.shape, k.shape], strides);
        for wanted in &kernel.boxes {
            let found = shapes.iter().zip([q, k, v, o]).find(|(shape, _)| shape.name == wanted.tensor);
            let unknown = || ForwardError::Unsupported(format!("there is no tensor `{}`", wanted.tensor));
            let (shape, view) = found.ok_or_else(unknown)?;
            // A tensor without elements may have the address 0; a map must not. No kernel copies from it.
            let address = if view.is_empty() { q.address } else { view.address };
            parameters.push(self.backend.encode_tensor_map(&shape.map(address, wanted))?);
        }
        let call = self.backend.call(&kernel.module, steps(kernel, &parameters))?;
        Ok(keep(&self.calls, MOST_CALLS, arguments, Arc::new(Prepared { parameters, call })))
    }
}

/// Enqueues a prepared launch.
pub(super) fn enqueue(call: &RepeatedCall, options: &Options) -> Result<(), AcceleratorError> {
    if options.graphs { call.enqueue(options.stream) } else { call.enqueue_ordinary(options.stream) }
}

/// Every launch of an attention kernel has the same parameters.
fn steps<'l>(kernel: &'l Kernel, parameters: &'l [Vec<u8>]) -> impl Iterator<Item = LaunchStep<'l>> {
    let step =
        |(entry, geometry): &'l (String, Geometry)| LaunchStep { entry, geometry: *geometry, parameters };
    kernel.launches.iter().map(step)
}
