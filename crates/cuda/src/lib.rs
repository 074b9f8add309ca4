//! CUDA's driver API over the virtual GPU: a `libcuda.so.1` for machines with no GPU.
//!
//! `warpsmith exec` lets the dynamic linker find this library in place of NVIDIA's. A program then runs unchanged: its
//! kernels run on the virtual GPU under all checkers, and its calls are checked too. Findings are written as records
//! (`execlog`), which `exec` prints.
//!
//! * [`api`]: what every exported function does; [`guest`]: access to memory of the program;
//! * [`State`]: the device with everything that the program has made; handles are numbers in tables, never addresses;
//! * [`order`] and [`ordering`]: what happens before what, on streams and host threads;
//! * [`work`]: operations on streams, as they run and as nodes of graphs;
//! * one module per subject for the exported functions.
//!
//! Operations on streams run when they are enqueued. A missing wait therefore never shows in the results, only as a
//! finding of [`order`].

// Lengths and handles of the program are 64-bit numbers, as on every machine that CUDA supports.
#![allow(clippy::not_unsafe_ptr_arg_deref)]
// The names of CUDA's functions and their parameters.
#![allow(non_snake_case)]
#![allow(clippy::too_many_arguments)]

#[macro_use]
mod api;
mod arrays;
mod call_site;
mod contexts;
mod copies;
mod copy_calls;
mod devices;
mod entry_points;
mod errors;
mod events;
mod fat_binary;
mod findings;
mod functions;
mod graphs;
mod guest;
mod host_memory;
mod launch_calls;
mod launches;
mod memory;
mod missing;
mod modules;
mod occupancy;
mod order;
mod ordering;
mod pointers;
mod pools;
mod stream_calls;
mod streams;
mod tensor_maps;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use chips::Chip;
use execlog::variables;

use crate::arrays::Array;
use crate::contexts::Contexts;
use crate::errors::Status;
use crate::events::Event;
use crate::findings::Findings;
use crate::functions::{Function, Module};
use crate::graphs::{Executable, Graph};
use crate::memory::{Allocation, Freed};
use crate::modules::LinkState;
use crate::order::Order;
use crate::pools::Pool;
use crate::streams::Streams;

/// Device addresses lie in this range. It is reserved, so that no memory of the host has such an address and an access of
/// host code is a fault.
pub(crate) const RESERVED: std::ops::Range<u64> = 0x2000_0000_0000..0x5000_0000_0000;
const FIRST: u64 = 0x3000_0000_0000;
const SHARED_WINDOW: u64 = 0x4f00_0000_0000;

/// Objects by their handles. Handles are never used twice.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: HashMap<u64, T>,
    kind: u64,
    made: u64,
    /// What the objects are, if a handle of no object is a finding. `None` if it is not: some programs ask whether an
    /// address is a function.
    name: Option<&'static str>,
}

impl<T> Table<T> {
    /// `kind` distinguishes the handles of tables.
    pub fn new(kind: u64) -> Table<T> {
        Table { objects: HashMap::new(), kind, made: 0, name: None }
    }

    /// A table for which a handle of no object is a finding.
    pub fn named(kind: u64, name: &'static str) -> Table<T> {
        Table { name: Some(name), ..Table::new(kind) }
    }

    /// Adds an object and returns its handle. Handles look like addresses, but nothing is there.
    pub fn add(&mut self, object: T) -> u64 {
        self.made += 1;
        let handle = 0x0000_0700_0000_0000 | self.kind << 36 | self.made << 4;
        self.objects.insert(handle, object);
        handle
    }

    pub fn get(&self, handle: u64) -> Result<&T, Status> {
        self.objects.get(&handle).ok_or_else(|| self.missed())
    }

    pub fn get_mut(&mut self, handle: u64) -> Result<&mut T, Status> {
        if !self.objects.contains_key(&handle) {
            return Err(self.missed());
        }
        self.objects.get_mut(&handle).ok_or(Status::INVALID_HANDLE)
    }

    pub fn remove(&mut self, handle: u64) -> Result<T, Status> {
        self.objects.remove(&handle).ok_or_else(|| self.missed())
    }

    fn missed(&self) -> Status {
        if let Some(name) = self.name {
            api::missed(name);
        }
        Status::INVALID_HANDLE
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.objects.iter().map(|(handle, object)| (*handle, object))
    }
}

/// The device, and everything that the program has made on it.
#[derive(Debug)]
pub(crate) struct State {
    pub chip: &'static Chip,
    pub memory: vgpu::Device,
    pub options: vgpu::Options,
    /// The process that initialised CUDA. A child that it forks cannot use it.
    pub process: u32,
    pub findings: Findings,
    pub order: Order,
    pub contexts: Contexts,
    /// By address.
    pub allocations: BTreeMap<u64, Allocation>,
    pub freed: BTreeMap<u64, Freed>,
    /// Number of allocations so far.
    pub allocated: u64,
    pub pools: Table<Pool>,
    pub default_pool: u64,
    pub modules: Table<Arc<Module>>,
    pub libraries: Table<Arc<Module>>,
    pub functions: Table<Function>,
    pub links: Table<LinkState>,
    pub arrays: Table<Array>,
    pub streams: Streams,
    pub events: Table<Event>,
    pub graphs: Table<Graph>,
    pub executables: Table<Executable>,
    /// The graph of each node.
    pub nodes: HashMap<u64, u64>,
    pub nodes_made: u64,
    /// The error that every call returns, after a kernel has failed.
    pub fault: Option<Status>,
    /// Values of `cuCtxSetLimit`.
    pub limits: HashMap<u32, u64>,
    pub missing: HashSet<&'static str>,
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();

/// The state, if CUDA is initialised.
pub(crate) fn state() -> Result<MutexGuard<'static, State>, Status> {
    let state = STATE.get().ok_or(Status::NOT_INITIALIZED)?.lock().unwrap_or_else(PoisonError::into_inner);
    if state.process == std::process::id() { Ok(state) } else { Err(Status::NOT_INITIALIZED) }
}

/// The state, if no kernel has failed.
pub(crate) fn usable() -> Result<MutexGuard<'static, State>, Status> {
    let state = state()?;
    match state.fault {
        Some(fault) => Err(fault),
        None => Ok(state),
    }
}

/// The state, if it is free now.
pub(crate) fn try_state() -> Option<MutexGuard<'static, State>> {
    match STATE.get()?.try_lock() {
        Ok(state) => Some(state).filter(|state| state.process == std::process::id()),
        Err(_) => None,
    }
}

/// Initialises CUDA, once.
pub(crate) fn initialise() -> Result<(), Status> {
    let state = STATE.get_or_init(|| {
        let state = State::new();
        crate::host_memory::watch_faults();
        Mutex::new(state)
    });
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if state.process == std::process::id() { Ok(()) } else { Err(Status::NOT_INITIALIZED) }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

impl State {
    fn new() -> State {
        let name = std::env::var(variables::DEVICE).unwrap_or_else(|_| "h200".to_owned());
        let chip = Chip::by_name(&name).unwrap_or_else(|error| {
            eprintln!("warpsmith: {error}; the virtual GPU is an H200");
            &chips::CHIPS[0]
        });
        let limits = chip.limits();
        let world = vgpu::World { memory: FIRST, shared_window: SHARED_WINDOW, ..vgpu::World::default() };
        let is_checked = std::env::var(variables::CHECK).is_ok_and(|check| check != "none")
            || std::env::var(variables::CHECK).is_err();
        let default = vgpu::Options::default();
        let options = vgpu::Options {
            checks: if is_checked { vgpu::Checks::All } else { vgpu::Checks::None },
            counters: variable(variables::COUNTERS) == Some(1u8),
            budget: variable(variables::BUDGET).unwrap_or(100_000_000_000),
            time_limit: variable(variables::TIME_LIMIT).map(Duration::from_secs).or(default.time_limit),
            threads: variable(variables::THREADS).unwrap_or(0),
            touched: is_checked,
            limits: vgpu::Limits {
                sms: chip.sms,
                blocks_per_sm: limits.max_blocks_per_sm,
                threads_per_sm: limits.max_threads_per_sm,
                shared_per_sm: limits.shared_per_sm,
                shared_per_block: limits.shared_per_block_opt_in,
            },
            world,
            ..default
        };
        reserve();
        let mut pools = Table::new(1);
        let default_pool = pools.add(Pool::default());
        State {
            chip,
            memory: vgpu::Device::in_world(chip.memory.bytes, world),
            options,
            process: std::process::id(),
            findings: Findings::open(chip.id),
            order: Order::default(),
            contexts: Contexts::default(),
            allocations: BTreeMap::new(),
            freed: BTreeMap::new(),
            allocated: 0,
            pools,
            default_pool,
            modules: Table::new(2),
            libraries: Table::new(3),
            functions: Table::new(4),
            links: Table::new(5),
            arrays: Table::new(9),
            streams: Streams::default(),
            events: Table::named(6, "event"),
            graphs: Table::named(7, "graph"),
            executables: Table::named(8, "executable graph"),
            nodes: HashMap::new(),
            nodes_made: 0,
            fault: None,
            limits: HashMap::new(),
            missing: HashSet::new(),
        }
    }

    /// Whether the checkers run.
    pub fn is_checked(&self) -> bool {
        self.options.checks == vgpu::Checks::All
    }
}

/// Reserves the addresses of the device, so that the host does not use them. A failure is ignored.
fn reserve() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let bytes = (RESERVED.end - RESERVED.start) as usize;
    // SAFETY: the mapping is new, and replaces no other.
    unsafe { libc::mmap(RESERVED.start as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
}
