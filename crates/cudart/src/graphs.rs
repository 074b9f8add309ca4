//! Graphs.

use crate::api::check;
use crate::copies::{driver_copy_3d, node};
use crate::driver;
use crate::launches::with_kernel;
use crate::memory::{part_of_symbol, structure};

runtime! {
    fn cudaGraphCreate(place: *mut u64, flags: u32) {
        check(driver::cuGraphCreate(place, flags))
    }
    fn cudaGraphDestroy(graph: u64) {
        check(driver::cuGraphDestroy(graph))
    }
    fn cudaGraphClone(place: *mut u64, graph: u64) {
        check(driver::cuGraphClone(place, graph))
    }
    fn cudaGraphAddKernelNode(place: *mut u64, graph: u64, after: u64, count: u64, parameters: u64) {
        let parameters = with_kernel(parameters)?;
        check(driver::cuGraphAddKernelNode_v2(place, graph, after, count, parameters.as_ptr() as u64))
    }
    fn cudaGraphKernelNodeSetParams(node: u64, parameters: u64) {
        let parameters = with_kernel(parameters)?;
        check(driver::cuGraphKernelNodeSetParams_v2(node, parameters.as_ptr() as u64))
    }
    fn cudaGraphExecKernelNodeSetParams(executable: u64, node: u64, parameters: u64) {
        let parameters = with_kernel(parameters)?;
        check(driver::cuGraphExecKernelNodeSetParams_v2(executable, node, parameters.as_ptr() as u64))
    }
    fn cudaGraphAddMemcpyNode(place: *mut u64, graph: u64, after: u64, count: u64, parameters: u64) {
        let copy = driver_copy_3d(&structure(parameters)?)?;
        check(driver::cuGraphAddMemcpyNode(place, graph, after, count, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphAddMemcpyNode1D(
        place: *mut u64, graph: u64, after: u64, count: u64, to: u64, from: u64, bytes: u64, kind: u32,
    ) {
        let copy = node(to, from, bytes, kind)?;
        check(driver::cuGraphAddMemcpyNode(place, graph, after, count, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphAddMemcpyNodeToSymbol(
        place: *mut u64, graph: u64, after: u64, count: u64, symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32,
    ) {
        let copy = node(part_of_symbol(symbol, offset, bytes)?, from, bytes, kind)?;
        check(driver::cuGraphAddMemcpyNode(place, graph, after, count, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphAddMemcpyNodeFromSymbol(
        place: *mut u64, graph: u64, after: u64, count: u64, to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32,
    ) {
        let copy = node(to, part_of_symbol(symbol, offset, bytes)?, bytes, kind)?;
        check(driver::cuGraphAddMemcpyNode(place, graph, after, count, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphExecMemcpyNodeSetParams1D(executable: u64, at: u64, to: u64, from: u64, bytes: u64, kind: u32) {
        let copy = node(to, from, bytes, kind)?;
        check(driver::cuGraphExecMemcpyNodeSetParams(executable, at, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphExecMemcpyNodeSetParams(executable: u64, at: u64, parameters: u64) {
        let copy = driver_copy_3d(&structure(parameters)?)?;
        check(driver::cuGraphExecMemcpyNodeSetParams(executable, at, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        executable: u64, at: u64, symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32,
    ) {
        let copy = node(part_of_symbol(symbol, offset, bytes)?, from, bytes, kind)?;
        check(driver::cuGraphExecMemcpyNodeSetParams(executable, at, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        executable: u64, at: u64, to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32,
    ) {
        let copy = node(to, part_of_symbol(symbol, offset, bytes)?, bytes, kind)?;
        check(driver::cuGraphExecMemcpyNodeSetParams(executable, at, copy.as_ptr() as u64, 0))
    }
    fn cudaGraphMemcpyNodeSetParams(at: u64, parameters: u64) {
        let copy = driver_copy_3d(&structure(parameters)?)?;
        check(driver::cuGraphMemcpyNodeSetParams(at, copy.as_ptr() as u64))
    }
    fn cudaGraphMemcpyNodeSetParams1D(at: u64, to: u64, from: u64, bytes: u64, kind: u32) {
        let copy = node(to, from, bytes, kind)?;
        check(driver::cuGraphMemcpyNodeSetParams(at, copy.as_ptr() as u64))
    }
    fn cudaGraphMemcpyNodeSetParamsToSymbol(at: u64, symbol: u64, from: u64, bytes: u64, offset: u64, kind: u32) {
        let copy = node(part_of_symbol(symbol, offset, bytes)?, from, bytes, kind)?;
        check(driver::cuGraphMemcpyNodeSetParams(at, copy.as_ptr() as u64))
    }
    fn cudaGraphMemcpyNodeSetParamsFromSymbol(at: u64, to: u64, symbol: u64, bytes: u64, offset: u64, kind: u32) {
        let copy = node(to, part_of_symbol(symbol, offset, bytes)?, bytes, kind)?;
        check(driver::cuGraphMemcpyNodeSetParams(at, copy.as_ptr() as u64))
    }
    fn cudaGraphMemsetNodeSetParams(node: u64, parameters: u64) {
        check(driver::cuGraphMemsetNodeSetParams(node, parameters))
    }
    fn cudaGraphExecMemsetNodeSetParams(executable: u64, node: u64, parameters: u64) {
        check(driver::cuGraphExecMemsetNodeSetParams(executable, node, parameters, 0))
    }
    fn cudaGraphHostNodeSetParams(node: u64, parameters: u64) {
        check(driver::cuGraphHostNodeSetParams(node, parameters))
    }
    fn cudaGraphExecHostNodeSetParams(executable: u64, node: u64, parameters: u64) {
        check(driver::cuGraphExecHostNodeSetParams(executable, node, parameters))
    }
    fn cudaGraphNodeGetEnabled(executable: u64, node: u64, enabled: *mut u32) {
        check(driver::cuGraphNodeGetEnabled(executable, node, enabled))
    }
    fn cudaGraphNodeFindInClone(place: *mut u64, original: u64, clone: u64) {
        check(driver::cuGraphNodeFindInClone(place, original, clone))
    }
    fn cudaGraphNodeGetDependencies(node: u64, nodes: u64, data: u64, count: u64) {
        // CUDA 12 has no data of edges: its third parameter is the count.
        let count = if crate::devices::api_version() >= 13 { count } else { data };
        check(driver::cuGraphNodeGetDependencies(node, nodes, count))
    }
    fn cudaGraphNodeGetDependentNodes(node: u64, nodes: u64, data: u64, count: u64) {
        let count = if crate::devices::api_version() >= 13 { count } else { data };
        check(driver::cuGraphNodeGetDependentNodes(node, nodes, count))
    }
    fn cudaGraphInstantiateWithParams(place: *mut u64, graph: u64, parameters: u64) {
        check(driver::cuGraphInstantiateWithParams(place, graph, parameters))
    }
    fn cudaGraphExecGetFlags(executable: u64, flags: *mut u64) {
        check(driver::cuGraphExecGetFlags(executable, flags))
    }
    fn cudaGraphAddMemsetNode(place: *mut u64, graph: u64, after: u64, count: u64, parameters: u64) {
        check(driver::cuGraphAddMemsetNode(place, graph, after, count, parameters, 0))
    }
    fn cudaGraphAddHostNode(place: *mut u64, graph: u64, after: u64, count: u64, parameters: u64) {
        check(driver::cuGraphAddHostNode(place, graph, after, count, parameters))
    }
    fn cudaGraphAddChildGraphNode(place: *mut u64, graph: u64, after: u64, count: u64, child: u64) {
        check(driver::cuGraphAddChildGraphNode(place, graph, after, count, child))
    }
    fn cudaGraphAddEmptyNode(place: *mut u64, graph: u64, after: u64, count: u64) {
        check(driver::cuGraphAddEmptyNode(place, graph, after, count))
    }
    fn cudaGraphAddEventRecordNode(place: *mut u64, graph: u64, after: u64, count: u64, event: u64) {
        check(driver::cuGraphAddEventRecordNode(place, graph, after, count, event))
    }
    fn cudaGraphAddEventWaitNode(place: *mut u64, graph: u64, after: u64, count: u64, event: u64) {
        check(driver::cuGraphAddEventWaitNode(place, graph, after, count, event))
    }
    // Before CUDA 12 the function had five parameters; the third was a place for a node.
    fn cudaGraphInstantiate(place: *mut u64, graph: u64, flags: u64) {
        check(driver::cuGraphInstantiateWithFlags(place, graph, flags))
    }
    fn cudaGraphInstantiateWithFlags(place: *mut u64, graph: u64, flags: u64) {
        check(driver::cuGraphInstantiateWithFlags(place, graph, flags))
    }
    fn cudaGraphUpload(executable: u64, stream: u64) {
        check(driver::cuGraphUpload(executable, stream))
    }
    fn cudaGraphLaunch(executable: u64, stream: u64) {
        check(driver::cuGraphLaunch(executable, stream))
    }
    fn cudaGraphExecDestroy(executable: u64) {
        check(driver::cuGraphExecDestroy(executable))
    }
    fn cudaGraphExecUpdate(executable: u64, graph: u64, result: u64) {
        check(driver::cuGraphExecUpdate_v2(executable, graph, result))
    }
    fn cudaGraphGetNodes(graph: u64, nodes: u64, count: u64) {
        check(driver::cuGraphGetNodes(graph, nodes, count))
    }
    fn cudaGraphGetRootNodes(graph: u64, nodes: u64, count: u64) {
        check(driver::cuGraphGetRootNodes(graph, nodes, count))
    }
    fn cudaGraphGetEdges(graph: u64, from: u64, to: u64, data: u64, count: u64) {
        // CUDA 12 has no data of edges: its fourth parameter is the count.
        if crate::devices::api_version() >= 13 {
            check(driver::cuGraphGetEdges_v2(graph, from, to, data, count))
        } else {
            check(driver::cuGraphGetEdges_v2(graph, from, to, 0, data))
        }
    }
    fn cudaGraphNodeGetType(node: u64, kind: *mut u32) {
        check(driver::cuGraphNodeGetType(node, kind))
    }
    fn cudaGraphAddDependencies(graph: u64, from: u64, to: u64, data: u64, count: u64) {
        let count = if crate::devices::api_version() >= 13 { count } else { data };
        check(driver::cuGraphAddDependencies_v2(graph, from, to, 0, count))
    }
    fn cudaGraphRemoveDependencies(graph: u64, from: u64, to: u64, data: u64, count: u64) {
        let count = if crate::devices::api_version() >= 13 { count } else { data };
        check(driver::cuGraphRemoveDependencies_v2(graph, from, to, 0, count))
    }
    fn cudaGraphDestroyNode(node: u64) {
        check(driver::cuGraphDestroyNode(node))
    }
    fn cudaGraphNodeSetEnabled(executable: u64, node: u64, enabled: u32) {
        check(driver::cuGraphNodeSetEnabled(executable, node, enabled))
    }
}

per_thread! {
    cudaGraphLaunch_ptsz = cudaGraphLaunch: (executable: u64; stream);
}
