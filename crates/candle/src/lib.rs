//! Warpsmith's attention for candle: [`flash_attn`] on candle's tensors, with the name and the arguments of
//! `candle-flash-attn`.
//!
//! ```no_run
//! use candle_core::{DType, Device, Tensor};
//! use warpsmith_candle::flash_attn;
//!
//! // [batch, seq, heads, head_dim]
//! let q = Tensor::randn(0f32, 1.0, (1, 512, 8, 64), &Device::Cpu)?.to_dtype(DType::F16)?;
//! let output = flash_attn(&q, &q, &q, 0.125, true)?;
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! Tensors of a GPU need the feature `cuda`, which turns on that of candle. The kernel then runs on the memory and the
//! stream of candle's device. Tensors of the CPU are computed by the same kernels on the virtual GPU, under its
//! checkers. That is slow and meant for tests.
//!
//! A kernel is compiled when its shape is used first; the compiler is installed if the machine has none. With the
//! feature `embedded-kernels` the program contains the kernels ([`attention::forward`] has the details).

mod arguments;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod devices;

use std::sync::Arc;

use attention::forward::{Buffer, Device, ForwardError, Options, Stream, Tensors};
use attention::problem::Mask;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp3, Error, Layout, Result, Shape, Tensor, bail};

/// Computes attention: `softmax(softmax_scale * Q K^T + mask) V`.
///
/// * `q`: `[batch, seq_q, heads, head_dim]`, f16 or bf16;
/// * `k`, `v`: `[batch, seq_k, kv_heads, head_dim]`; `heads` is a multiple of `kv_heads`;
/// * `causal`: query i sees key j if `j - i <= seq_k - seq_q`. A query that sees no key has the output 0.
///
/// The tensors may have any strides if the elements of a row (`head_dim`) are contiguous and rows start on 16 bytes.
/// The result is contiguous and has the shape of `q`. There are no gradients.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    FlashAttn::new(softmax_scale, causal).apply(q, k, v)
}

/// Attention as an op of candle. [`flash_attn`] is enough for most programs.
#[derive(Clone, Debug)]
pub struct FlashAttn {
    softmax_scale: f32,
    causal: bool,
    device: Option<Arc<Device>>,
}

impl FlashAttn {
    /// Attention with a factor of the scores, and with or without a causal mask.
    pub fn new(softmax_scale: f32, causal: bool) -> Self {
        FlashAttn { softmax_scale, causal, device: None }
    }

    /// Computes on this device, for example one with its own compiler or pack of kernels. It must be the GPU of the
    /// tensors; for tensors of the CPU it must be a virtual GPU. Without it, the program's own devices are used.
    #[must_use]
    pub fn with_device(mut self, device: Arc<Device>) -> Self {
        self.device = Some(device);
        self
    }

    /// Computes attention; see [`flash_attn`].
    pub fn apply(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        arguments::check_places([("q", q), ("k", k), ("v", v)])?;
        q.apply_op3(k, v, self.clone())
    }

    /// The device for tensors of a GPU of candle, or for those of the CPU.
    fn device(&self, gpu: Option<u32>) -> Result<Arc<Device>> {
        let Some(device) = &self.device else { return devices::shared(gpu) };
        if device.gpu() != gpu {
            let wanted = gpu.map_or_else(|| "a virtual GPU".to_owned(), |index| format!("GPU {index}"));
            bail!("device: it is {}, but these tensors need {wanted}", device.describe())
        }
        Ok(device.clone())
    }

    /// Selects the kernel for these tensors, compiles it if necessary, and launches it. `workspace` allocates memory
    /// that the kernel may overwrite, if it needs some.
    fn launch(
        &self,
        device: &Device,
        tensors: &Tensors,
        stream: Stream,
        workspace: impl FnOnce(u64) -> Result<Buffer>,
    ) -> Result<()> {
        let scale = self.softmax_scale;
        if !(scale.is_finite() && scale > 0.0) {
            bail!("softmax_scale: it is {scale}, but must be a finite number above 0")
        }
        let mask = if self.causal { Mask::Causal } else { Mask::None };
        let plan = device.plan_for(tensors, mask).map_err(error)?;
        let workspace = match plan.workspace_bytes() {
            0 => None,
            bytes => Some(workspace(bytes)?),
        };
        let options = Options { mask, scale: Some(scale), stream, workspace, ..Options::default() };
        plan.launch(tensors, &options).map_err(error)
    }
}

impl CustomOp3 for FlashAttn {
    fn name(&self) -> &'static str {
        "flash-attn"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        cpu::forward(self, [(q, q_layout), (k, k_layout), (v, v_layout)])
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_layout: &Layout,
        k: &CudaStorage,
        k_layout: &Layout,
        v: &CudaStorage,
        v_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        cuda::forward(self, [(q, q_layout), (k, k_layout), (v, v_layout)])
    }
}

fn error(error: ForwardError) -> Error {
    Error::wrap(error).bt()
}
