//! The exported functions for launches.

use execlog::HostKind;

use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::functions::Function;
use crate::guest;
use crate::launches::{Config, Launch, arguments, readable};
use crate::streams::PER_THREAD;
use crate::usable;
use crate::work::{Work, perform};

/// Enqueues a launch.
fn enqueue(
    function: u64,
    geometry: ([u32; 3], [u32; 3], [u32; 3]),
    shared: u32,
    cooperative: bool,
    stream: u64,
    (parameters, extra): (u64, u64),
) -> Outcome {
    let (grid, block, cluster) = geometry;
    let mut state = usable()?;
    state.require_context()?;
    let key = state.stream(stream)?;
    let found: &Function = state.functions.get(function)?;
    let Some(kernel) = found.kernel() else {
        let reason = found.module.code.refusal(&found.name).map(ToString::to_string).unwrap_or_default();
        let message = format!("the virtual GPU cannot run `{}`:\n{reason}", readable(&found.name));
        eprintln!("warpsmith: {message}");
        state.report(HostKind::Unsupported, message);
        return Err(Status::NOT_SUPPORTED);
    };
    let arguments = match arguments(kernel, parameters, extra) {
        Ok(arguments) => arguments,
        Err(error) => {
            let message = format!("the arguments of `{}` cannot be read", readable(&found.name));
            state.report(HostKind::InvalidLaunch, message);
            return Err(error);
        }
    };
    let launch = Launch { function, grid, block, cluster, shared, cooperative, arguments };
    state.check_launch(&launch)?;
    let site = if state.is_checked() { Site::here() } else { Site::default() };
    drop(state);
    perform(key, Work::Launch(launch), site)
}

fn with_config(config: *const Config, function: u64, arguments: (u64, u64), default: u64) -> Outcome {
    let config = guest::read(config)?;
    let (cluster, cooperative) = config.attributes()?;
    let stream = if config.stream == 0 { default } else { config.stream };
    enqueue(function, (config.grid, config.block, cluster), config.shared, cooperative, stream, arguments)
}

api! {
    fn cuLaunchKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: u64, parameters: u64, extra: u64,
    ) {
        let geometry = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], [1; 3]);
        enqueue(function, geometry, shared, false, stream, (parameters, extra))
    }

    fn cuLaunchKernel_ptsz(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: u64, parameters: u64, extra: u64,
    ) {
        let geometry = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], [1; 3]);
        let stream = if stream == 0 { PER_THREAD } else { stream };
        enqueue(function, geometry, shared, false, stream, (parameters, extra))
    }

    fn cuLaunchCooperativeKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: u64, parameters: u64,
    ) {
        let geometry = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], [1; 3]);
        enqueue(function, geometry, shared, true, stream, (parameters, 0))
    }

    fn cuLaunchKernelEx(config: *const Config, function: u64, parameters: u64, extra: u64) {
        with_config(config, function, (parameters, extra), 0)
    }

    fn cuLaunchKernelEx_ptsz(config: *const Config, function: u64, parameters: u64, extra: u64) {
        with_config(config, function, (parameters, extra), PER_THREAD)
    }
}
