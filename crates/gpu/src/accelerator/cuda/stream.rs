//! Streams, and what the driver allows while one of them is being captured.

use cudarc::driver::{result, sys};

use super::status::check;
use crate::accelerator::AcceleratorError;

/// A stream of the caller, as the driver's handle. 0 is the default stream of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaStream(pub u64);

/// A stream that is destroyed with its owner.
#[derive(Debug)]
pub(super) struct OwnStream(pub(super) sys::CUstream);

impl OwnStream {
    pub(super) fn new() -> Result<Self, AcceleratorError> {
        let kind = result::stream::StreamKind::NonBlocking;
        check("cuStreamCreate", result::stream::create(kind)).map(OwnStream)
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once. After a sticky error the driver refuses the call; that is harmless.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// Whether launches on a stream are recorded instead of run. If the driver does not say, the answer is yes: an ordinary
/// launch then reports the error.
pub(super) fn is_captured(stream: sys::CUstream) -> bool {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the caller's stream is alive; the call writes one status.
    let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) };
    asked != sys::CUresult::CUDA_SUCCESS
        || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

/// Does work that the driver refuses while any stream of the program is being captured, such as making a graph. A
/// refused call would end the capture with an error. The work must not concern the captured stream.
pub(super) fn without_capture_rules<T>(work: impl FnOnce() -> T) -> Result<T, AcceleratorError> {
    let exchange = |mode: &mut sys::CUstreamCaptureMode| {
        // SAFETY: the call reads and writes one mode, that of this thread.
        let status = unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) };
        check("cuThreadExchangeStreamCaptureMode", status.result())
    };
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mut mode)?;
    let done = work();
    exchange(&mut mode)?;
    Ok(done)
}
