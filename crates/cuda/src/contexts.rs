//! Contexts: all share the one device and its memory.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::devices::require_device;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::streams;
use crate::{State, state};

/// The handle of the primary context.
const PRIMARY: u64 = 0x0000_0600_0000_0010;

/// The contexts of the process.
#[derive(Debug, Default)]
pub struct Contexts {
    /// How often the primary context is retained.
    retained: u32,
    flags: u32,
    others: HashSet<u64>,
    made: u64,
}

thread_local! {
    /// The contexts that this thread has pushed, the current one last.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn current() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().copied())
}

fn set_current(context: Option<u64>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

impl Contexts {
    fn require(&self, context: u64) -> Outcome {
        let is_known = context == PRIMARY && self.retained > 0 || self.others.contains(&context);
        if is_known { Ok(()) } else { Err(Status::INVALID_CONTEXT) }
    }

    fn create(&mut self) -> u64 {
        self.made += 1;
        let handle = PRIMARY + 0x10 * self.made;
        self.others.insert(handle);
        STACK.with_borrow_mut(|stack| stack.push(handle));
        handle
    }
}

impl State {
    /// An error if the thread has no current context.
    pub fn require_context(&self) -> Outcome {
        let context = current().ok_or(Status::INVALID_CONTEXT)?;
        self.contexts.require(context).map_err(|_| Status::CONTEXT_IS_DESTROYED)
    }
}

/// The handle of the current context, or 0.
pub fn current_handle() -> u64 {
    current().unwrap_or(0)
}

/// The default values of limits: stack size, FIFO of printf, heap of malloc, and others.
fn default_limit(limit: u32) -> Option<u64> {
    Some(match limit {
        0 => 1024,
        1 => 1 << 20,
        2 => 8 << 20,
        3 => 2,
        4 => 2048,
        5 => 128,
        6 => 0,
        _ => return None,
    })
}

api! {
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) {
        let mut state = state()?;
        require_device(device)?;
        guest::write(context, PRIMARY)?;
        state.contexts.retained += 1;
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let mut state = state()?;
        require_device(device)?;
        if state.contexts.retained == 0 {
            return Err(Status::INVALID_CONTEXT);
        }
        state.contexts.retained -= 1;
        Ok(())
    }

    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        let mut state = state()?;
        require_device(device)?;
        state.synchronise_device();
        state.reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        let mut state = state()?;
        require_device(device)?;
        state.contexts.flags = flags;
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) {
        let state = state()?;
        require_device(device)?;
        guest::write(flags, state.contexts.flags)?;
        guest::write(active, i32::from(state.contexts.retained > 0))
    }

    fn cuCtxCreate_v2(context: *mut u64, _flags: u32, device: i32) {
        let mut state = state()?;
        require_device(device)?;
        guest::write(context, 0)?;
        let handle = state.contexts.create();
        guest::write(context, handle)
    }

    fn cuCtxCreate_v3(context: *mut u64, _params: u64, _count: i32, _flags: u32, device: i32) {
        let mut state = state()?;
        require_device(device)?;
        guest::write(context, 0)?;
        let handle = state.contexts.create();
        guest::write(context, handle)
    }

    fn cuCtxCreate_v4(context: *mut u64, _params: u64, _flags: u32, device: i32) {
        let mut state = state()?;
        require_device(device)?;
        guest::write(context, 0)?;
        let handle = state.contexts.create();
        guest::write(context, handle)
    }

    fn cuCtxDestroy_v2(context: u64) {
        let mut state = state()?;
        if !state.contexts.others.remove(&context) {
            return Err(Status::INVALID_CONTEXT);
        }
        if current() == Some(context) {
            set_current(None);
        }
        state.synchronise_device();
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: u64) {
        state()?.contexts.require(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut u64) {
        drop(state()?);
        let popped = STACK.with_borrow_mut(Vec::pop).ok_or(Status::INVALID_CONTEXT)?;
        guest::write_optional(context, popped)
    }

    fn cuCtxSetCurrent(context: u64) {
        let state = state()?;
        if context == 0 {
            set_current(None);
            return Ok(());
        }
        state.contexts.require(context)?;
        set_current(Some(context));
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut u64) {
        drop(state()?);
        guest::write(context, current_handle())
    }

    fn cuCtxGetDevice(device: *mut i32) {
        state()?.require_context()?;
        guest::write(device, 0)
    }

    fn cuCtxGetDevice_v2(device: *mut i32, context: u64) {
        let state = state()?;
        if context != 0 {
            state.contexts.require(context)?;
        }
        guest::write(device, 0)
    }

    fn cuCtxGetFlags(flags: *mut u32) {
        let state = state()?;
        state.require_context()?;
        guest::write(flags, state.contexts.flags)
    }

    fn cuCtxSetFlags(flags: u32) {
        let mut state = state()?;
        state.require_context()?;
        state.contexts.flags = flags;
        Ok(())
    }

    fn cuCtxGetId(context: u64, id: *mut u64) {
        let state = state()?;
        let context = if context == 0 { current_handle() } else { context };
        state.contexts.require(context)?;
        guest::write(id, (context - PRIMARY) / 0x10 + 1)
    }

    fn cuCtxSynchronize() {
        let mut state = state()?;
        state.require_context()?;
        streams::refuse_while_capturing(&state)?;
        state.synchronise_device();
        state.fault.map_or(Ok(()), Err)
    }

    fn cuCtxSynchronize_v2(context: u64) {
        let mut state = state()?;
        if context != 0 {
            state.contexts.require(context)?;
        }
        state.synchronise_device();
        state.fault.map_or(Ok(()), Err)
    }

    fn cuCtxSetLimit(limit: u32, value: u64) {
        let mut state = state()?;
        state.require_context()?;
        default_limit(limit).ok_or(Status::UNSUPPORTED_LIMIT)?;
        state.limits.insert(limit, value);
        Ok(())
    }

    fn cuCtxGetLimit(value: *mut u64, limit: u32) {
        let state = state()?;
        state.require_context()?;
        let default = default_limit(limit).ok_or(Status::UNSUPPORTED_LIMIT)?;
        guest::write(value, state.limits.get(&limit).copied().unwrap_or(default))
    }

    fn cuCtxGetCacheConfig(config: *mut u32) {
        state()?.require_context()?;
        guest::write(config, 0)
    }

    fn cuCtxSetCacheConfig(_config: u32) {
        state()?.require_context()
    }

    fn cuCtxGetSharedMemConfig(config: *mut u32) {
        state()?.require_context()?;
        guest::write(config, 1)
    }

    fn cuCtxSetSharedMemConfig(_config: u32) {
        state()?.require_context()
    }

    fn cuCtxGetApiVersion(_context: u64, version: *mut u32) {
        drop(state()?);
        guest::write(version, 3020)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        state()?.require_context()?;
        guest::write_optional(least, 0)?;
        guest::write_optional(greatest, -5)
    }

    fn cuCtxResetPersistingL2Cache() {
        state()?.require_context()
    }

    fn cuCtxEnablePeerAccess(_context: u64, _flags: u32) {
        state()?.require_context()?;
        Err(Status::PEER_ACCESS_UNSUPPORTED)
    }

    fn cuCtxDisablePeerAccess(_context: u64) {
        state()?.require_context()?;
        Err(Status::PEER_ACCESS_NOT_ENABLED)
    }
}
