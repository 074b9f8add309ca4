//! Graphs of launches.

use cudarc::driver::{result, sys};

use super::status::check;
use super::stream::without_capture_rules;
use crate::accelerator::AcceleratorError;

/// Captured work of a stream that can be replayed.
#[derive(Debug)]
pub(super) struct Graph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

impl Graph {
    pub(super) fn capture<E: From<AcceleratorError>>(
        stream: sys::CUstream,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and captures nothing else.
        check("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream, mode) })?;
        let done = work();
        // SAFETY: capture began just above. It must end even if the work failed, or the stream stays in capture mode.
        let graph = check("cuStreamEndCapture", unsafe { result::stream::end_capture(stream) });
        done?;
        let graph = graph?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was just captured.
        match check("cuGraphInstantiate", unsafe { result::graph::instantiate(graph, flags) }) {
            Ok(exec) => Ok(Graph { graph, exec }),
            Err(error) => {
                // SAFETY: nothing else refers to the graph.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(error.into())
            }
        }
    }

    pub(super) fn launch(&self, stream: sys::CUstream) -> Result<(), AcceleratorError> {
        // SAFETY: both are alive; the caller keeps the memory that the graph's kernels use.
        check("cuGraphLaunch", unsafe { result::graph::launch(self.exec, stream) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: created in `capture`, destroyed once; nothing launches the graph any more. If it is running, the driver
        // destroys it afterwards.
        let destroy = || unsafe {
            let _ = result::graph::exec_destroy(self.exec);
            let _ = result::graph::destroy(self.graph);
        };
        let _ = without_capture_rules(destroy);
    }
}
