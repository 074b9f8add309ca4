//! Attention on tensors of a GPU, or on bytes of the host by the virtual GPU. `python/warpsmith/_attention.py` knows
//! arrays and PyTorch; this module gets addresses, shapes and strides.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use attention::forward::{
    Device, ForwardError, KeyWindow, Options, Pack, PackedSequences, PageTable, Plan, Scales, Served, Stream,
    Tensors, View,
};
use attention::tensor::Strides;
use attention::{Dtype, Layout, Mask, Shape};
use gpu::accelerator::Buffer;
use gpu::device::Selector;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCapsule};

use crate::exchange::{CUDA, Exchange, ExchangedTensor};
use crate::launch::interruptible;
use crate::{CompileError, ToolchainError, UnsupportedError, UsageError, WarpsmithError, toolchain_text};

/// A GPU or a virtual GPU that computes attention.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
pub struct AttentionDevice {
    device: Device,
    /// Stops the virtual GPU.
    stop: Arc<AtomicBool>,
}

/// Attention for tensors of certain shapes and strides: the kernel is selected, compiled and loaded.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
pub struct AttentionPlan {
    plan: Arc<Plan>,
    /// Tensors without addresses.
    tensors: Tensors,
    mask: Mask,
    scale: Option<f32>,
}

/// A tensor without its address: the extents and the strides of batch, heads and sequence, and head_dim.
type Described = ([usize; 4], [usize; 3]);

/// The addresses of a launch: q, k, v, o, lse, q_scale, k_scale, v_scale. 0 for those that are absent.
type Addresses = [u64; 8];

/// What servers add, without addresses: entries of a sequence in the table of pages; packed sequences (their number, the
/// most queries, the most keys); the window (earlier and later keys); the cap of the scores.
type ServedSizes = (Option<usize>, Option<[usize; 3]>, Option<[Option<u32>; 2]>, f32);

/// Addresses of what servers add: lengths of keys, table of pages, starts of queries, starts of keys, sinks. 0 for those that
/// are absent.
type ServedAddresses = [u64; 5];

fn served(sizes: ServedSizes, addresses: ServedAddresses) -> Served {
    let (pages_of_sequence, packed, window, softcap) = sizes;
    let [key_lengths, table, query_starts, key_starts, sinks] = addresses;
    let given = |address: u64| (address != 0).then_some(address);
    Served {
        key_lengths: given(key_lengths),
        pages: pages_of_sequence.map(|pages_of_sequence| PageTable { address: table, pages_of_sequence }),
        packed: packed.map(|[batch, longest_queries, longest_keys]| PackedSequences {
            batch,
            longest_queries,
            longest_keys,
            query_starts,
            key_starts: given(key_starts),
        }),
        window: window.map(|[left, right]| KeyWindow { left, right }),
        sinks: given(sinks),
        softcap: Some(softcap),
    }
}

fn mask_named(name: &str) -> PyResult<Mask> {
    let known = Mask::ALL.into_iter().find(|mask| mask.name() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("causal: there is no mask `{name}`")))
}

fn dtype_named(name: &str) -> PyResult<Dtype> {
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("q: the type {name} is not supported")))
}

/// The type of the output. Without a name it is the usual one for the type of the inputs.
fn output_named(name: Option<&str>, dtype: Dtype) -> PyResult<Dtype> {
    let Some(name) = name else { return Ok(dtype.output()) };
    let known = dtype.outputs().iter().copied().find(|output| output.name() == name);
    known.ok_or_else(|| {
        PyValueError::new_err(format!("out_dtype: for inputs in {dtype} the output cannot be {name}"))
    })
}

fn view(dtype: Dtype, ([batch, heads, seq, head_dim], [by_batch, head, sequence]): Described) -> View {
    let shape = Shape { batch, heads, seq, head_dim };
    View { address: 0, dtype, shape, strides: Strides { batch: by_batch, head, sequence } }
}

#[pymethods]
impl AttentionDevice {
    /// Opens `cuda:N` or `virtual:NAME`. `pack` is a file with compiled kernels.
    #[new]
    #[pyo3(signature = (name, pack=None))]
    fn new(py: Python<'_>, name: &str, pack: Option<PathBuf>) -> PyResult<Self> {
        let selector: Selector = name
            .parse()
            .map_err(|error: gpu::device::SelectorError| UsageError::new_err(format!("device: {error}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let opened = py.detach(|| match selector {
            Selector::Auto => Device::open_default(),
            Selector::Cuda(index) => Device::cuda(index),
            Selector::Virtual(chip) => Device::virtual_gpu(chip.id),
        });
        let mut device = opened.map_err(|error| raised(&error))?.with_stop(stop.clone());
        if let Some(path) = pack {
            let broken = |reason: String| WarpsmithError::new_err(format!("{}: {reason}", path.display()));
            let bytes = std::fs::read(&path).map_err(|error| broken(error.to_string()))?;
            device = device.with_pack(Pack::read(bytes).map_err(|error| broken(error.to_string()))?);
        }
        Ok(AttentionDevice { device, stop })
    }

    /// A description for people.
    fn describe(&self) -> String {
        self.device.describe()
    }

    /// Selects, compiles and loads the kernel for tensors of these shapes and strides. `output` is the type of the output,
    /// if it is not the usual one for `dtype`.
    #[pyo3(signature = (dtype, q, k, v, o, mask, scale, output=None))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn plan(
        &self,
        py: Python<'_>,
        dtype: &str,
        q: Described,
        k: Described,
        v: Described,
        o: Described,
        mask: &str,
        scale: Option<f32>,
        output: Option<&str>,
    ) -> PyResult<AttentionPlan> {
        let (dtype, mask) = (dtype_named(dtype)?, mask_named(mask)?);
        let [q, k, v] = [q, k, v].map(|tensor| view(dtype, tensor));
        let tensors = Tensors { q, k, v, o: view(output_named(output, dtype)?, o) };
        let plan = py.detach(|| self.device.plan_for(&tensors, mask)).map_err(|error| raised(&error))?;
        Ok(AttentionPlan { plan, tensors, mask, scale })
    }

    /// The same as `plan` with what servers add. Only whether an address is 0 matters.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn plan_served(
        &self,
        py: Python<'_>,
        dtype: &str,
        q: Described,
        k: Described,
        v: Described,
        o: Described,
        mask: &str,
        scale: Option<f32>,
        sizes: ServedSizes,
        present: ServedAddresses,
    ) -> PyResult<ServedPlan> {
        let (dtype, mask) = (dtype_named(dtype)?, mask_named(mask)?);
        let [q, k, v, o] = [q, k, v, o].map(|tensor| view(dtype, tensor));
        let (tensors, served) = (Tensors { q, k, v, o }, served(sizes, present));
        let options = Options { mask, scale, served, ..Options::default() };
        let plan =
            py.detach(|| self.device.plan_for_options(&tensors, &options)).map_err(|error| raised(&error))?;
        Ok(ServedPlan { plan, tensors, mask, scale, sizes })
    }

    /// The same as `compute` with what servers add. `arrays` has the contents of what `ServedAddresses` names.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn compute_served<'py>(
        &self,
        py: Python<'py>,
        dtype: &str,
        shapes: [Described; 3],
        tensors: [PyBackedBytes; 3],
        mask: &str,
        scale: Option<f32>,
        sizes: ServedSizes,
        arrays: [Option<PyBackedBytes>; 5],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (dtype, mask) = (dtype_named(dtype)?, mask_named(mask)?);
        let work = || {
            let mut buffers = Vec::new();
            let mut upload = |label: &str, bytes: &[u8]| -> Result<u64, ForwardError> {
                let buffer = self.device.upload(label, bytes)?;
                buffers.push(buffer);
                Ok(buffer.address)
            };
            let done = (|| {
                let mut views = [view(dtype, shapes[0]); 4];
                for (((label, view_of), described), bytes) in
                    ["q", "k", "v"].iter().zip(&mut views).zip(shapes).zip(&tensors)
                {
                    *view_of = View { address: upload(label, bytes)?, ..view(dtype, described) };
                }
                let mut addresses = [0; 5];
                let labels = ["key_lengths", "page_table", "query_starts", "key_starts", "sinks"];
                for ((label, array), address) in labels.into_iter().zip(&arrays).zip(&mut addresses) {
                    if let Some(bytes) = array {
                        *address = upload(label, bytes)?;
                    }
                }
                let [q, k, v, _] = views;
                let rows = q.shape.rows();
                let (output, lse) = (
                    self.device.allocate("o", (q.shape.elements() * dtype.bytes()) as u64)?,
                    self.device.allocate("lse", (rows * size_of::<f32>()) as u64)?,
                );
                let tensors = Tensors { q, k, v, o: View { address: output.address, ..q } };
                let served = served(sizes, addresses);
                let mut options =
                    Options { mask, scale, lse: Some(lse.address), served, ..Options::default() };
                let plan = self.device.plan_for_options(&tensors, &options)?;
                let workspace = self.device.allocate("workspace", plan.workspace_bytes())?;
                options.workspace = Some(workspace);
                let done = plan
                    .launch(&tensors, &options)
                    .and_then(|()| Ok((self.device.read(output)?, self.device.read(lse)?)));
                for buffer in [output, lse, workspace] {
                    self.device.free(buffer)?;
                }
                done
            })();
            for buffer in buffers {
                self.device.free(buffer)?;
            }
            done
        };
        let done = py.detach(|| interruptible(work, &self.stop));
        if done.is_err() {
            self.stop.store(false, Ordering::Relaxed);
        }
        let (output, lse) = done?.map_err(|error| raised(&error))?;
        Ok((PyBytes::new(py, &output), PyBytes::new(py, &lse)))
    }

    /// Computes attention on the virtual GPU from the bytes of contiguous tensors `[batch, heads, seq, head_dim]`.
    /// Returns the bytes of the output and of the log-sum-exp. `output` is as in `plan`.
    #[pyo3(signature = (dtype, shapes, tensors, scales, mask, scale, output=None))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn compute<'py>(
        &self,
        py: Python<'py>,
        dtype: &str,
        shapes: [[usize; 4]; 3],
        tensors: [PyBackedBytes; 3],
        scales: [Option<PyBackedBytes>; 3],
        mask: &str,
        scale: Option<f32>,
        output: Option<&str>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (dtype, mask) = (dtype_named(dtype)?, mask_named(mask)?);
        let output = output_named(output, dtype)?;
        let job = Job { dtype, output, shapes, tensors, scales, mask, scale };
        let work = || self.compute_bytes(&job);
        let done = py.detach(|| interruptible(work, &self.stop));
        if done.is_err() {
            // The next computation must not stop at once.
            self.stop.store(false, Ordering::Relaxed);
        }
        let (output, lse) = done?.map_err(|error| raised(&error))?;
        Ok((PyBytes::new(py, &output), PyBytes::new(py, &lse)))
    }
}

/// Attention of contiguous tensors in the memory of the host.
struct Job {
    dtype: Dtype,
    output: Dtype,
    shapes: [[usize; 4]; 3],
    tensors: [PyBackedBytes; 3],
    scales: [Option<PyBackedBytes>; 3],
    mask: Mask,
    scale: Option<f32>,
}

impl AttentionDevice {
    fn compute_bytes(&self, job: &Job) -> Result<(Vec<u8>, Vec<u8>), ForwardError> {
        let mut buffers = Vec::new();
        let done = self.compute_in(&mut buffers, job);
        for buffer in buffers {
            self.device.free(buffer)?;
        }
        done
    }

    /// Adds every buffer that it allocates to `buffers`.
    fn compute_in(&self, buffers: &mut Vec<Buffer>, job: &Job) -> Result<(Vec<u8>, Vec<u8>), ForwardError> {
        let Job { dtype, output: output_dtype, shapes, tensors: contents, scales, mask, scale } = job;
        let (dtype, output_dtype) = (*dtype, *output_dtype);
        let mut upload = |label: &str, bytes: &[u8]| -> Result<u64, ForwardError> {
            let buffer = self.device.upload(label, bytes)?;
            buffers.push(buffer);
            Ok(buffer.address)
        };
        let mut views = Vec::new();
        for ((label, [batch, heads, seq, head_dim]), bytes) in
            ["q", "k", "v"].into_iter().zip(*shapes).zip(contents)
        {
            let shape = Shape { batch, heads, seq, head_dim };
            let strides = Layout::Bhsd.strides(shape);
            views.push(View { address: upload(label, bytes)?, dtype, shape, strides });
        }
        let mut addresses = [None; 3];
        for ((label, bytes), address) in
            ["q_scale", "k_scale", "v_scale"].into_iter().zip(scales).zip(&mut addresses)
        {
            *address = bytes.as_ref().map(|bytes| upload(label, bytes)).transpose()?;
        }
        let [q, k, v] = [views[0], views[1], views[2]];
        let output = self.device.allocate("o", (q.shape.elements() * output_dtype.bytes()) as u64)?;
        buffers.push(output);
        let lse = self.device.allocate("lse", (q.shape.rows() * size_of::<f32>()) as u64)?;
        buffers.push(lse);
        let o = View { address: output.address, dtype: output_dtype, ..q };
        let [q_scale, k_scale, v_scale] = addresses;
        let scales = Scales { q: q_scale, k: k_scale, v: v_scale };
        let tensors = Tensors { q, k, v, o };
        let plan = self.device.plan_for(&tensors, *mask)?;
        let workspace = self.device.allocate("workspace", plan.workspace_bytes())?;
        buffers.push(workspace);
        let options = Options {
            mask: *mask,
            scale: *scale,
            lse: Some(lse.address),
            scales,
            workspace: Some(workspace),
            ..Options::default()
        };
        plan.launch(&tensors, &options)?;
        Ok((self.device.read(output)?, self.device.read(lse)?))
    }
}

#[pymethods]
impl AttentionPlan {
    /// The family and the setting.
    #[getter]
    fn kernel(&self) -> &str {
        self.plan.kernel()
    }

    /// The size of the workspace that a launch needs.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    /// Enqueues the kernel on a stream.
    #[pyo3(signature = (stream, workspace, q, k, v, o, lse=0, q_scale=0, k_scale=0, v_scale=0))]
    #[allow(
        clippy::too_many_arguments,
        reason = "plain numbers are the fastest arguments of a call from Python"
    )]
    fn launch(
        &self,
        py: Python<'_>,
        stream: u64,
        workspace: u64,
        q: u64,
        k: u64,
        v: u64,
        o: u64,
        lse: u64,
        q_scale: u64,
        k_scale: u64,
        v_scale: u64,
    ) -> PyResult<()> {
        let addresses = [q, k, v, o, lse, q_scale, k_scale, v_scale];
        py.detach(|| self.enqueue(stream, workspace, addresses)).map_err(|error| raised(&error))
    }
}

impl AttentionPlan {
    fn enqueue(&self, stream: u64, workspace: u64, addresses: Addresses) -> Result<(), ForwardError> {
        let [q, k, v, o, lse, q_scale, k_scale, v_scale] = addresses;
        let given = |address: u64| (address != 0).then_some(address);
        let at = |view: View, address: u64| View { address, ..view };
        let own = &self.tensors;
        let tensors = Tensors { q: at(own.q, q), k: at(own.k, k), v: at(own.v, v), o: at(own.o, o) };
        let options = Options {
            mask: self.mask,
            scale: self.scale,
            lse: given(lse),
            scales: Scales { q: given(q_scale), k: given(k_scale), v: given(v_scale) },
            stream: Stream(stream),
            workspace: given(workspace).map(|address| Buffer { address, bytes: self.plan.workspace_bytes() }),
            ..Options::default()
        };
        self.plan.launch(&tensors, &options)
    }
}

/// A plan with what servers add.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
pub struct ServedPlan {
    plan: Arc<Plan>,
    /// Tensors without addresses.
    tensors: Tensors,
    mask: Mask,
    scale: Option<f32>,
    sizes: ServedSizes,
}

#[pymethods]
impl ServedPlan {
    /// The family and the setting.
    #[getter]
    fn kernel(&self) -> &str {
        self.plan.kernel()
    }

    /// The size of the workspace that a launch needs.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    /// Enqueues the kernel on a stream. `tensors` are the addresses of q, k, v, the output and the log-sum-exp.
    fn launch(
        &self,
        py: Python<'_>,
        stream: u64,
        workspace: u64,
        tensors: [u64; 5],
        addresses: ServedAddresses,
    ) -> PyResult<()> {
        let [q, k, v, o, lse] = tensors;
        let given = |address: u64| (address != 0).then_some(address);
        let at = |view: View, address: u64| View { address, ..view };
        let own = &self.tensors;
        let tensors = Tensors { q: at(own.q, q), k: at(own.k, k), v: at(own.v, v), o: at(own.o, o) };
        let options = Options {
            mask: self.mask,
            scale: self.scale,
            lse: given(lse),
            served: served(self.sizes, addresses),
            stream: Stream(stream),
            workspace: given(workspace).map(|address| Buffer { address, bytes: self.plan.workspace_bytes() }),
            ..Options::default()
        };
        py.detach(|| self.plan.launch(&tensors, &options)).map_err(|error| raised(&error))
    }
}

/// The fast path for tensors of another package: one call from Python, with the tensors themselves.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
pub struct AttentionExchange {
    exchange: Exchange,
    devices: Mutex<Vec<(i32, Py<AttentionDevice>)>>,
}

#[pymethods]
impl AttentionExchange {
    /// `capsule` is `__dlpack_c_exchange_api__` of the tensors' type.
    #[new]
    fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        Ok(AttentionExchange { exchange: Exchange::new(capsule)?, devices: Mutex::default() })
    }

    /// Serves tensors of GPU number `index` from now on.
    fn add(&self, index: i32, device: Py<AttentionDevice>) {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).push((index, device));
    }

    /// Enqueues attention on the package's current stream. Returns False, and does nothing, if it cannot serve these
    /// tensors as they are; the caller then finds out why. All tensors must be of the type of the capsule.
    #[pyo3(signature = (q, k, v, o, lse, mask, scale, is_bshd))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn launch(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        o: &Bound<'_, PyAny>,
        lse: u64,
        mask: &str,
        scale: Option<f32>,
        is_bshd: bool,
    ) -> PyResult<bool> {
        let Some(first) = self.exchange.tensor(q)? else { return Ok(false) };
        let mut views = [view_of(&first, is_bshd); 4];
        for (view, value) in views[1..].iter_mut().zip([k, v, o]) {
            let Some(tensor) = self.exchange.tensor(value)? else { return Ok(false) };
            if (tensor.device, tensor.dtype) != (first.device, first.dtype) {
                return Ok(false);
            }
            *view = view_of(&tensor, is_bshd);
        }
        let [Some(q), Some(k), Some(v), Some(o)] = views else { return Ok(false) };
        let (kind, index) = first.device;
        let device = {
            let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            devices.iter().find(|(known, _)| *known == index).map(|(_, device)| device.clone_ref(py))
        };
        let Some(device) = device.filter(|_| kind == CUDA) else { return Ok(false) };
        let tensors = Tensors { q, k, v, o };
        let options = Options {
            mask: mask_named(mask)?,
            scale,
            lse: (lse != 0).then_some(lse),
            stream: Stream(self.exchange.stream(py, index)?),
            ..Options::default()
        };
        let device = &device.get().device;
        let done = py.detach(|| device.plan_for(&tensors, options.mask)?.launch(&tensors, &options));
        match done {
            Ok(()) => Ok(true),
            Err(ForwardError::Argument { .. } | ForwardError::Unsupported(_)) => Ok(false),
            Err(other) => Err(raised(&other)),
        }
    }
}

/// The view of a tensor in fp16 or bf16 whose rows are contiguous.
fn view_of(tensor: &ExchangedTensor, is_bshd: bool) -> Option<View> {
    let dtype = match tensor.dtype {
        (2, 16) => Dtype::Fp16,
        (4, 16) => Dtype::Bf16,
        _ => return None,
    };
    let (mut shape, mut strides) = (tensor.shape, tensor.strides);
    if is_bshd {
        shape.swap(1, 2);
        strides.swap(1, 2);
    }
    let [batch, heads, seq, head_dim] = shape;
    let [by_batch, head, sequence, element] = strides;
    let shape = Shape { batch, heads, seq, head_dim };
    let strides = Strides { batch: by_batch, head, sequence };
    (element == 1).then_some(View { address: tensor.address, dtype, shape, strides })
}

fn raised(error: &ForwardError) -> PyErr {
    match error {
        ForwardError::Argument { .. } => PyValueError::new_err(error.to_string()),
        ForwardError::Unsupported(_) => UnsupportedError::new_err(error.to_string()),
        ForwardError::Toolchain(cause) => ToolchainError::new_err(toolchain_text(cause)),
        ForwardError::Build(_) => CompileError::new_err(error.to_string()),
        ForwardError::Device(_) | ForwardError::Findings(_) => WarpsmithError::new_err(error.to_string()),
    }
}
