//! Graphs: made by capture or node by node, instantiated and launched.

use crate::call_site::Site;
use crate::copies::{Copy, Copy3D, Fill};
use crate::errors::{Outcome, Status};
use crate::guest::{self, Plain};
use crate::launches::{Launch, arguments};
use crate::streams::{Key, PER_THREAD};
use crate::work::{Callback, Node, Work, perform, run};
use crate::{State, state, usable};

/// A graph. Its nodes are in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<(u64, Node)>,
    /// In a clone: the node of the original for each node.
    originals: Vec<(u64, u64)>,
}

/// An instantiated graph: the nodes in an order that their dependencies allow.
#[derive(Clone, Debug)]
pub struct Executable {
    nodes: Vec<(u64, Node)>,
    flags: u64,
}

impl Graph {
    fn node(&self, handle: u64) -> Result<&Node, Status> {
        self.nodes.iter().find(|(it, _)| *it == handle).map(|(_, node)| node).ok_or(Status::INVALID_VALUE)
    }

    fn node_mut(&mut self, handle: u64) -> Result<&mut Node, Status> {
        self.nodes.iter_mut().find(|(it, _)| *it == handle).map(|(_, node)| node).ok_or(Status::INVALID_VALUE)
    }

    /// Whether another node depends on a node.
    pub fn has_dependent(&self, handle: u64) -> bool {
        self.nodes.iter().any(|(_, node)| node.after.contains(&handle))
    }

    /// The nodes in an order that their dependencies allow; `None` if they form a circle.
    fn ordered(&self) -> Option<Vec<(u64, Node)>> {
        let mut left: Vec<&(u64, Node)> = self.nodes.iter().collect();
        let mut ordered: Vec<(u64, Node)> = Vec::new();
        let mut done = std::collections::HashSet::new();
        while !left.is_empty() {
            let (ready, rest): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(_, node)| node.after.iter().all(|it| done.contains(it)));
            if ready.is_empty() {
                return None;
            }
            done.extend(ready.iter().map(|(handle, _)| *handle));
            ordered.extend(ready.into_iter().cloned());
            left = rest;
        }
        Some(ordered)
    }

    fn edges(&self) -> Vec<(u64, u64)> {
        self.nodes.iter().flat_map(|(to, node)| node.after.iter().map(move |from| (*from, *to))).collect()
    }
}

/// `CUDA_KERNEL_NODE_PARAMS` of version 2. Version 1 is its beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct KernelNode {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    _padding: u32,
    parameters: u64,
    extra: u64,
}
// SAFETY: numbers only.
unsafe impl Plain for KernelNode {}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct MemsetNode {
    address: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}
// SAFETY: numbers only.
unsafe impl Plain for MemsetNode {}

impl State {
    /// Adds a node to a graph.
    pub fn add_node(&mut self, graph: u64, after: &[u64], work: Work, site: Site) -> Result<u64, Status> {
        let nodes = self.graphs.get_mut(graph)?;
        if !after.iter().all(|it| nodes.nodes.iter().any(|(handle, _)| handle == it)) {
            return Err(Status::INVALID_VALUE);
        }
        self.nodes_made += 1;
        let handle = 0x0000_0400_0000_0000 + self.nodes_made * 0x40;
        nodes.nodes.push((handle, Node { work, after: after.to_vec(), site, is_enabled: true }));
        self.nodes.insert(handle, graph);
        Ok(handle)
    }

    fn node(&self, handle: u64) -> Result<&Node, Status> {
        self.graphs.get(*self.nodes.get(&handle).ok_or(Status::INVALID_VALUE)?)?.node(handle)
    }

    /// The nodes that depend on a node.
    fn dependents(&self, handle: u64) -> Result<Vec<u64>, Status> {
        let graph = self.graphs.get(*self.nodes.get(&handle).ok_or(Status::INVALID_VALUE)?)?;
        let dependents = graph.nodes.iter().filter(|(_, node)| node.after.contains(&handle));
        Ok(dependents.map(|(it, _)| *it).collect())
    }

    fn node_mut(&mut self, handle: u64) -> Result<&mut Node, Status> {
        let graph = *self.nodes.get(&handle).ok_or(Status::INVALID_VALUE)?;
        self.graphs.get_mut(graph)?.node_mut(handle)
    }

    fn kernel_work(&self, parameters: &KernelNode) -> Result<Work, Status> {
        let function = self.functions.get(parameters.function)?;
        let kernel = function.kernel().ok_or(Status::NOT_SUPPORTED)?;
        Ok(Work::Launch(Launch {
            function: parameters.function,
            grid: parameters.grid,
            block: parameters.block,
            cluster: [1; 3],
            shared: parameters.shared,
            cooperative: false,
            arguments: arguments(kernel, parameters.parameters, parameters.extra)?,
        }))
    }
}

/// Adds a node that the program describes.
fn add(
    place: *mut u64,
    graph: u64,
    (dependencies, count): (*const u64, u64),
    work: impl FnOnce(&State) -> Result<Work, Status>,
) -> Outcome {
    let mut state = usable()?;
    state.graphs.get(graph)?;
    guest::write(place, 0)?;
    let after = guest::read_many(dependencies, usize::try_from(count).map_err(|_| Status::INVALID_VALUE)?)?;
    let work = work(&state)?;
    let handle = state.add_node(graph, &after, work, Site::here())?;
    guest::write(place, handle)
}

/// Changes the operation of a node to one of the same kind.
fn change(node: &mut Node, work: Work) -> Outcome {
    if std::mem::discriminant(&node.work) != std::mem::discriminant(&work) {
        return Err(Status::INVALID_VALUE);
    }
    node.work = work;
    Ok(())
}

fn change_in(executable: u64, node: u64, work: impl FnOnce(&State) -> Result<Work, Status>) -> Outcome {
    let mut state = usable()?;
    let work = work(&state)?;
    let executable = state.executables.get_mut(executable)?;
    let found = executable.nodes.iter_mut().find(|(it, _)| *it == node).ok_or(Status::INVALID_VALUE)?;
    change(&mut found.1, work)
}

fn change_of(node: u64, work: impl FnOnce(&State) -> Result<Work, Status>) -> Outcome {
    let mut state = usable()?;
    let work = work(&state)?;
    change(state.node_mut(node)?, work)
}

fn fill(it: &MemsetNode) -> Result<Work, Status> {
    if ![1, 2, 4].contains(&it.element) {
        return Err(Status::INVALID_VALUE);
    }
    let element = u64::from(it.element);
    let pitch = if it.height <= 1 { it.width.saturating_mul(element) } else { it.pitch };
    Ok(Work::Fill(Fill {
        address: it.address,
        pitch,
        value: it.value,
        element,
        width: it.width,
        height: it.height,
    }))
}

fn host(parameters: *const [u64; 2]) -> Result<Work, Status> {
    let [function, data] = guest::read(parameters)?;
    if function == 0 {
        return Err(Status::INVALID_VALUE);
    }
    Ok(Work::Host(Callback::Plain { function, data }))
}

fn instantiate(place: *mut u64, graph: u64, flags: u64) -> Outcome {
    let mut state = usable()?;
    guest::write(place, 0)?;
    let nodes = state.graphs.get(graph)?.ordered().ok_or(Status::INVALID_VALUE)?;
    let handle = state.executables.add(Executable { nodes, flags });
    guest::write(place, handle)
}

fn launch(executable: u64, stream: u64) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    let nodes = state.executables.get(executable)?.nodes.clone();
    if state.streams.captures.contains_key(&key) {
        drop(state);
        return perform(key, Work::Graph(nodes), Site::here());
    }
    for (_, node) in &nodes {
        if let Work::Launch(launch) = &node.work {
            state.check_stale(launch, &node.site);
        }
    }
    drop(state);
    run_in_order(key, &nodes)
}

fn run_in_order(stream: Key, nodes: &[(u64, Node)]) -> Outcome {
    let place = Site::here();
    for (_, node) in nodes.iter().filter(|(_, node)| node.is_enabled) {
        run(stream, &node.work, &place)?;
    }
    Ok(())
}

/// Writes a list for the program: the entries, if it gave a place for them, and their number.
fn tell(list: &[u64], place: *mut u64, count: *mut u64) -> Outcome {
    if !place.is_null() {
        let most = guest::read(count)? as usize;
        guest::write_many(place, &list[..list.len().min(most)])?;
        // Entries beyond the list are null.
        for index in list.len()..most.min(list.len() + 64) {
            guest::write(place.wrapping_add(index), 0)?;
        }
    }
    guest::write(count, list.len() as u64)
}

fn kind(work: &Work) -> u32 {
    match work {
        Work::Launch(_) => 0,
        Work::Copy(_) => 1,
        Work::Fill(_) => 2,
        Work::Host(_) => 3,
        Work::Graph(_) => 4,
        Work::Nothing => 5,
        Work::Wait(_) => 6,
        Work::Record(_) => 7,
        Work::Free(_) => 11,
    }
}

fn edges(graph: u64, from: *mut u64, to: *mut u64, count: *mut u64) -> Outcome {
    let state = usable()?;
    let edges = state.graphs.get(graph)?.edges();
    if !from.is_null() && !to.is_null() {
        let most = guest::read(count)? as usize;
        let shown = &edges[..edges.len().min(most)];
        guest::write_many(from, &shown.iter().map(|it| it.0).collect::<Vec<_>>())?;
        guest::write_many(to, &shown.iter().map(|it| it.1).collect::<Vec<_>>())?;
    }
    guest::write(count, edges.len() as u64)
}

fn connect(graph: u64, from: *const u64, to: *const u64, count: u64, remove: bool) -> Outcome {
    let mut state = usable()?;
    let count = usize::try_from(count).map_err(|_| Status::INVALID_VALUE)?;
    let (from, to) = (guest::read_many(from, count)?, guest::read_many(to, count)?);
    let graph = state.graphs.get_mut(graph)?;
    for (from, to) in from.into_iter().zip(to) {
        graph.node(from)?;
        let node = graph.node_mut(to)?;
        match (node.after.iter().position(|it| *it == from), remove) {
            (Some(at), true) => drop(node.after.remove(at)),
            (None, false) => node.after.push(from),
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    Ok(())
}

fn update(executable: u64, graph: u64) -> Result<bool, Status> {
    let mut state = usable()?;
    let nodes = state.graphs.get(graph)?.ordered().ok_or(Status::INVALID_VALUE)?;
    let old = state.executables.get_mut(executable)?;
    let fits = old.nodes.len() == nodes.len()
        && old.nodes.iter().zip(&nodes).all(|((_, a), (_, b))| kind(&a.work) == kind(&b.work));
    if fits {
        // The nodes keep their handles, by which the program changes them.
        for ((_, old), (_, new)) in old.nodes.iter_mut().zip(nodes) {
            *old = new;
        }
    }
    Ok(fits)
}

api! {
    fn cuGraphCreate(place: *mut u64, _flags: u32) {
        let mut state = usable()?;
        guest::write(place, 0)?;
        let handle = state.graphs.add(Graph::default());
        guest::write(place, handle)
    }

    fn cuGraphAddKernelNode(place: *mut u64, graph: u64, after: *const u64, count: u64, node: *const [u64; 7]) {
        // Version 1 has the first 56 bytes of version 2.
        let node = guest::read(node.cast::<KernelNode>())?;
        add(place, graph, (after, count), |state| state.kernel_work(&node))
    }

    fn cuGraphAddKernelNode_v2(place: *mut u64, graph: u64, after: *const u64, count: u64, node: *const [u64; 7]) {
        let node = guest::read(node.cast::<KernelNode>())?;
        add(place, graph, (after, count), |state| state.kernel_work(&node))
    }

    fn cuGraphAddMemcpyNode(
        place: *mut u64, graph: u64, after: *const u64, count: u64, copy: *const Copy3D, _context: u64,
    ) {
        let copy = Copy::from_3d(&guest::read(copy)?)?;
        add(place, graph, (after, count), |_| Ok(Work::Copy(copy)))
    }

    fn cuGraphAddMemsetNode(
        place: *mut u64, graph: u64, after: *const u64, count: u64, node: *const [u64; 5], _context: u64,
    ) {
        let node = guest::read(node.cast::<MemsetNode>())?;
        add(place, graph, (after, count), |_| fill(&node))
    }

    fn cuGraphAddHostNode(place: *mut u64, graph: u64, after: *const u64, count: u64, node: *const [u64; 2]) {
        add(place, graph, (after, count), |_| host(node))
    }

    fn cuGraphAddChildGraphNode(place: *mut u64, graph: u64, after: *const u64, count: u64, child: u64) {
        add(place, graph, (after, count), |state| {
            Ok(Work::Graph(state.graphs.get(child)?.ordered().ok_or(Status::INVALID_VALUE)?))
        })
    }

    fn cuGraphAddEmptyNode(place: *mut u64, graph: u64, after: *const u64, count: u64) {
        add(place, graph, (after, count), |_| Ok(Work::Nothing))
    }

    fn cuGraphAddEventRecordNode(place: *mut u64, graph: u64, after: *const u64, count: u64, event: u64) {
        add(place, graph, (after, count), |state| state.events.get(event).map(|_| Work::Record(event)))
    }

    fn cuGraphAddEventWaitNode(place: *mut u64, graph: u64, after: *const u64, count: u64, event: u64) {
        add(place, graph, (after, count), |state| state.events.get(event).map(|_| Work::Wait(event)))
    }

    fn cuGraphKernelNodeSetParams_v2(node: u64, parameters: *const [u64; 7]) {
        let parameters = guest::read(parameters.cast::<KernelNode>())?;
        change_of(node, |state| state.kernel_work(&parameters))
    }

    fn cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, parameters: *const [u64; 7]) {
        let parameters = guest::read(parameters.cast::<KernelNode>())?;
        change_in(executable, node, |state| state.kernel_work(&parameters))
    }

    fn cuGraphKernelNodeSetParams(node: u64, parameters: *const [u64; 7]) {
        let parameters = guest::read(parameters.cast::<KernelNode>())?;
        change_of(node, |state| state.kernel_work(&parameters))
    }

    fn cuGraphExecKernelNodeSetParams(executable: u64, node: u64, parameters: *const [u64; 7]) {
        let parameters = guest::read(parameters.cast::<KernelNode>())?;
        change_in(executable, node, |state| state.kernel_work(&parameters))
    }

    fn cuGraphMemcpyNodeSetParams(node: u64, copy: *const Copy3D) {
        let copy = Copy::from_3d(&guest::read(copy)?)?;
        change_of(node, |_| Ok(Work::Copy(copy)))
    }

    fn cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, copy: *const Copy3D, _context: u64) {
        let copy = Copy::from_3d(&guest::read(copy)?)?;
        change_in(executable, node, |_| Ok(Work::Copy(copy)))
    }

    fn cuGraphMemsetNodeSetParams(node: u64, parameters: *const [u64; 5]) {
        let parameters = guest::read(parameters.cast::<MemsetNode>())?;
        change_of(node, |_| fill(&parameters))
    }

    fn cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, parameters: *const [u64; 5], _context: u64) {
        let parameters = guest::read(parameters.cast::<MemsetNode>())?;
        change_in(executable, node, |_| fill(&parameters))
    }

    fn cuGraphHostNodeSetParams(node: u64, parameters: *const [u64; 2]) {
        change_of(node, |_| host(parameters))
    }

    fn cuGraphExecHostNodeSetParams(executable: u64, node: u64, parameters: *const [u64; 2]) {
        change_in(executable, node, |_| host(parameters))
    }

    fn cuGraphNodeSetEnabled(executable: u64, node: u64, enabled: u32) {
        let mut state = usable()?;
        let executable = state.executables.get_mut(executable)?;
        let found = executable.nodes.iter_mut().find(|(it, _)| *it == node).ok_or(Status::INVALID_VALUE)?;
        found.1.is_enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(executable: u64, node: u64, enabled: *mut u32) {
        let state = usable()?;
        let executable = state.executables.get(executable)?;
        let found = executable.nodes.iter().find(|(it, _)| *it == node).ok_or(Status::INVALID_VALUE)?;
        guest::write(enabled, u32::from(found.1.is_enabled))
    }

    fn cuGraphClone(place: *mut u64, graph: u64) {
        let mut state = usable()?;
        guest::write(place, 0)?;
        let original = state.graphs.get(graph)?.clone();
        let copy = state.graphs.add(Graph::default());
        let mut handles: Vec<(u64, u64)> = Vec::new();
        for (old, node) in original.ordered().ok_or(Status::INVALID_VALUE)? {
            let new_of = |it: &u64| handles.iter().find(|(old, _)| old == it).map(|(_, new)| *new);
            let after: Vec<u64> = node.after.iter().filter_map(new_of).collect();
            let new = state.add_node(copy, &after, node.work, node.site)?;
            handles.push((old, new));
        }
        state.graphs.get_mut(copy)?.originals = handles;
        guest::write(place, copy)
    }

    fn cuGraphNodeFindInClone(place: *mut u64, original: u64, clone: u64) {
        let state = usable()?;
        let found = state.graphs.get(clone)?.originals.iter().find(|(old, _)| *old == original).map(|it| it.1);
        guest::write(place, found.ok_or(Status::INVALID_VALUE)?)
    }

    fn cuGraphNodeGetType(node: u64, place: *mut u32) {
        let state = usable()?;
        guest::write(place, kind(&state.node(node)?.work))
    }

    fn cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut u64) {
        let state = usable()?;
        let all: Vec<u64> = state.graphs.get(graph)?.nodes.iter().map(|it| it.0).collect();
        tell(&all, nodes, count)
    }

    fn cuGraphGetRootNodes(graph: u64, nodes: *mut u64, count: *mut u64) {
        let state = usable()?;
        let roots = state.graphs.get(graph)?.nodes.iter().filter(|(_, node)| node.after.is_empty());
        tell(&roots.map(|it| it.0).collect::<Vec<_>>(), nodes, count)
    }

    fn cuGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, count: *mut u64) {
        edges(graph, from, to, count)
    }

    fn cuGraphGetEdges_v2(graph: u64, from: *mut u64, to: *mut u64, _data: u64, count: *mut u64) {
        edges(graph, from, to, count)
    }

    fn cuGraphNodeGetDependencies(node: u64, nodes: *mut u64, count: *mut u64) {
        let state = usable()?;
        tell(&state.node(node)?.after, nodes, count)
    }

    fn cuGraphNodeGetDependencies_v2(node: u64, nodes: *mut u64, _data: u64, count: *mut u64) {
        let state = usable()?;
        tell(&state.node(node)?.after, nodes, count)
    }

    fn cuGraphNodeGetDependentNodes(node: u64, nodes: *mut u64, count: *mut u64) {
        let state = usable()?;
        tell(&state.dependents(node)?, nodes, count)
    }

    fn cuGraphNodeGetDependentNodes_v2(node: u64, nodes: *mut u64, _data: u64, count: *mut u64) {
        let state = usable()?;
        tell(&state.dependents(node)?, nodes, count)
    }

    fn cuGraphAddDependencies(graph: u64, from: *const u64, to: *const u64, count: u64) {
        connect(graph, from, to, count, false)
    }

    fn cuGraphAddDependencies_v2(graph: u64, from: *const u64, to: *const u64, _data: u64, count: u64) {
        connect(graph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies(graph: u64, from: *const u64, to: *const u64, count: u64) {
        connect(graph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies_v2(graph: u64, from: *const u64, to: *const u64, _data: u64, count: u64) {
        connect(graph, from, to, count, true)
    }

    fn cuGraphDestroyNode(node: u64) {
        let mut state = usable()?;
        let graph = state.nodes.remove(&node).ok_or(Status::INVALID_VALUE)?;
        let graph = state.graphs.get_mut(graph)?;
        graph.nodes.retain(|(it, _)| *it != node);
        for (_, other) in &mut graph.nodes {
            other.after.retain(|it| *it != node);
        }
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(place: *mut u64, graph: u64, flags: u64) {
        instantiate(place, graph, flags)
    }

    fn cuGraphInstantiate(place: *mut u64, graph: u64, node: *mut u64, log: *mut u8, bytes: u64) {
        guest::write_optional(node, 0)?;
        if bytes > 0 {
            guest::write_optional(log, 0)?;
        }
        instantiate(place, graph, 0)
    }

    fn cuGraphInstantiate_v2(place: *mut u64, graph: u64, node: *mut u64, log: *mut u8, bytes: u64) {
        guest::write_optional(node, 0)?;
        if bytes > 0 {
            guest::write_optional(log, 0)?;
        }
        instantiate(place, graph, 0)
    }

    fn cuGraphInstantiateWithParams(place: *mut u64, graph: u64, parameters: *mut [u64; 4]) {
        // Flags, the stream for the upload, the node of an error, the result.
        let [flags, stream, ..] = guest::read(parameters)?;
        guest::write(parameters, [flags, stream, 0, 0])?;
        instantiate(place, graph, flags)
    }

    fn cuGraphExecGetFlags(executable: u64, flags: *mut u64) {
        let state = usable()?;
        guest::write(flags, state.executables.get(executable)?.flags)
    }

    fn cuGraphExecUpdate_v2(executable: u64, graph: u64, result: *mut [u64; 3]) {
        let fits = update(executable, graph)?;
        // 2: the topology changed.
        guest::write(result, [if fits { 0 } else { 2 }, 0, 0])?;
        if fits { Ok(()) } else { Err(Status::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphExecUpdate(executable: u64, graph: u64, node: *mut u64, result: *mut u32) {
        let fits = update(executable, graph)?;
        guest::write_optional(node, 0)?;
        guest::write(result, if fits { 0 } else { 2 })?;
        if fits { Ok(()) } else { Err(Status::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphUpload(executable: u64, stream: u64) {
        let state = usable()?;
        state.stream(stream)?;
        state.executables.get(executable).map(|_| ())
    }

    fn cuGraphLaunch(executable: u64, stream: u64) {
        launch(executable, stream)
    }

    fn cuGraphLaunch_ptsz(executable: u64, stream: u64) {
        launch(executable, if stream == 0 { PER_THREAD } else { stream })
    }

    fn cuGraphExecDestroy(executable: u64) {
        state()?.executables.remove(executable).map(|_| ())
    }

    fn cuGraphDestroy(graph: u64) {
        let mut state = state()?;
        let gone = state.graphs.remove(graph)?;
        for (node, _) in gone.nodes {
            state.nodes.remove(&node);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn node(after: &[u64]) -> Node {
        Node { work: Work::Nothing, after: after.to_vec(), site: Site::default(), is_enabled: true }
    }

    #[test]
    fn nodes_run_after_those_that_they_depend_on() {
        let nodes = vec![(1, node(&[3])), (2, node(&[])), (3, node(&[2]))];
        let graph = Graph { nodes, originals: Vec::new() };
        let order: Vec<u64> = graph.ordered().unwrap().iter().map(|it| it.0).collect();
        assert_eq!(order, [2, 3, 1]);
        let circle = Graph { nodes: vec![(1, node(&[2])), (2, node(&[1]))], originals: Vec::new() };
        assert!(circle.ordered().is_none());
    }
}
