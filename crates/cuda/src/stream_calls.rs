//! The exported functions for streams and captures.

use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::streams::{Capture, Key, LEGACY, NON_BLOCKING, PER_THREAD, Stream};
use crate::work::{Callback, Work, perform};
use crate::{State, state, usable};

fn create(place: *mut u64, flags: u32, priority: i32) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Status::INVALID_VALUE);
    }
    guest::write(place, 0)?;
    state.streams.made += 1;
    let handle = 0x0000_0500_0000_0000 + state.streams.made * 0x40;
    state.streams.streams.insert(handle, Stream { flags, priority: priority.clamp(-5, 0) });
    guest::write(place, handle)
}

fn wait_allowed(state: &State, stream: Key) -> Outcome {
    if state.streams.captures.contains_key(&stream) {
        Err(Status::STREAM_CAPTURE_UNSUPPORTED)
    } else {
        Ok(())
    }
}

fn begin_capture(stream: u64, mode: u32) -> Outcome {
    let mut state = usable()?;
    let key = state.stream(stream)?;
    if key == LEGACY {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    if mode > 2 {
        return Err(Status::INVALID_VALUE);
    }
    if state.streams.captures.contains_key(&key) {
        return Err(Status::ILLEGAL_STATE);
    }
    let graph = state.graphs.add(crate::graphs::Graph::default());
    state.streams.captures_made += 1;
    let id = state.streams.captures_made;
    state.streams.captures.insert(key, Capture { origin: key, graph, id, tips: Vec::new(), mode });
    Ok(())
}

fn capture_info(
    stream: u64,
    status: *mut u32,
    id: *mut u64,
    graph: *mut u64,
) -> Result<Option<Capture>, Status> {
    let state = state()?;
    let key = state.stream(stream)?;
    let capture = state.streams.captures.get(&key).cloned();
    guest::write(status, u32::from(capture.is_some()))?;
    if let Some(capture) = &capture {
        guest::write_optional(id, capture.id)?;
        guest::write_optional(graph, capture.graph)?;
    }
    Ok(capture)
}

api! {
    fn cuStreamCreate(place: *mut u64, flags: u32) {
        create(place, flags, 0)
    }

    fn cuStreamCreateWithPriority(place: *mut u64, flags: u32, priority: i32) {
        create(place, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: u64) {
        let mut state = state()?;
        let key = state.stream(stream)?;
        if !matches!(key, Key::Other(..)) {
            return Err(Status::INVALID_HANDLE);
        }
        state.streams.captures.remove(&key);
        state.streams.streams.remove(&stream);
        Ok(())
    }

    fn cuStreamGetPriority(stream: u64, priority: *mut i32) {
        let state = state()?;
        state.stream(stream)?;
        guest::write(priority, state.streams.streams.get(&stream).map_or(0, |it| it.priority))
    }

    fn cuStreamGetFlags(stream: u64, flags: *mut u32) {
        let state = state()?;
        state.stream(stream)?;
        guest::write(flags, state.streams.streams.get(&stream).map_or(0, |it| it.flags))
    }

    fn cuStreamGetId(stream: u64, id: *mut u64) {
        state()?.stream(stream)?;
        guest::write(id, stream)
    }

    fn cuStreamGetCtx(stream: u64, context: *mut u64) {
        state()?.stream(stream)?;
        guest::write(context, crate::contexts::current_handle())
    }

    fn cuStreamGetDevice(stream: u64, device: *mut i32) {
        state()?.stream(stream)?;
        guest::write(device, 0)
    }

    fn cuStreamQuery(stream: u64) {
        let mut state = usable()?;
        let key = state.stream(stream)?;
        wait_allowed(&state, key)?;
        state.synchronise_stream(key);
        Ok(())
    }

    fn cuStreamSynchronize(stream: u64) {
        let mut state = usable()?;
        let key = state.stream(stream)?;
        wait_allowed(&state, key)?;
        state.synchronise_stream(key);
        Ok(())
    }

    fn cuStreamWaitEvent(stream: u64, event: u64, _flags: u32) {
        let mut state = usable()?;
        let key = state.stream(stream)?;
        state.wait_for_event(key, event)
    }

    fn cuStreamAddCallback(stream: u64, function: u64, data: u64, flags: u32) {
        let state = usable()?;
        let key = state.stream(stream)?;
        if function == 0 || flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        wait_allowed(&state, key)?;
        drop(state);
        perform(key, Work::Host(Callback::OfStream { function, stream, data }), Site::here())
    }

    fn cuLaunchHostFunc(stream: u64, function: u64, data: u64) {
        let state = usable()?;
        let key = state.stream(stream)?;
        if function == 0 {
            return Err(Status::INVALID_VALUE);
        }
        drop(state);
        perform(key, Work::Host(Callback::Plain { function, data }), Site::here())
    }

    fn cuStreamBeginCapture_v2(stream: u64, mode: u32) {
        begin_capture(stream, mode)
    }

    fn cuStreamBeginCapture(stream: u64) {
        begin_capture(stream, 0)
    }

    fn cuStreamEndCapture(stream: u64, graph: *mut u64) {
        let mut state = usable()?;
        let key = state.stream(stream)?;
        let capture = state.streams.captures.get(&key).cloned().ok_or(Status::ILLEGAL_STATE)?;
        if capture.origin != key {
            return Err(Status::STREAM_CAPTURE_UNMATCHED);
        }
        // All work of the other streams of the capture must have been joined into this stream by events.
        let others: Vec<Capture> =
            state.streams.captures.values().filter(|it| it.id == capture.id && it.origin == key).cloned().collect();
        state.streams.captures.retain(|_, it| it.id != capture.id);
        let is_joined = {
            let nodes = state.graphs.get(capture.graph)?;
            others.iter().flat_map(|it| &it.tips).all(|tip| {
                capture.tips.contains(tip) || nodes.has_dependent(*tip)
            })
        };
        if !is_joined {
            guest::write(graph, 0)?;
            return Err(Status::STREAM_CAPTURE_UNJOINED);
        }
        guest::write(graph, capture.graph)
    }

    fn cuStreamIsCapturing(stream: u64, status: *mut u32) {
        let state = state()?;
        let key = state.stream(stream)?;
        guest::write(status, u32::from(state.streams.captures.contains_key(&key)))
    }

    fn cuStreamGetCaptureInfo(stream: u64, status: *mut u32, id: *mut u64) {
        capture_info(stream, status, id, std::ptr::null_mut()).map(|_| ())
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut u64, count: *mut u64,
    ) {
        let capture = capture_info(stream, status, id, graph)?;
        tell_tips(capture, dependencies, count)
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut u64, edges: *mut u64,
        count: *mut u64,
    ) {
        let capture = capture_info(stream, status, id, graph)?;
        guest::write_optional(edges, 0)?;
        tell_tips(capture, dependencies, count)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        let asked = guest::read(mode)?;
        if asked > 2 {
            return Err(Status::INVALID_VALUE);
        }
        guest::write(mode, CAPTURE_MODE.replace(asked))
    }

    fn cuStreamCopyAttributes(to: u64, from: u64) {
        let state = state()?;
        state.stream(to)?;
        state.stream(from).map(|_| ())
    }

    fn cuStreamSetAttribute(stream: u64, _attribute: u32, value: *const u64) {
        guest::read(value)?;
        state()?.stream(stream).map(|_| ())
    }

    fn cuStreamGetAttribute(stream: u64, _attribute: u32, value: *mut [u64; 8]) {
        state()?.stream(stream)?;
        guest::write(value, [0; 8])
    }
}

thread_local! {
    /// What `cuThreadExchangeStreamCaptureMode` has set. Calls that could disturb a capture are refused in all modes but
    /// the relaxed one of the capture itself.
    static CAPTURE_MODE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    /// The dependencies that `cuStreamGetCaptureInfo` has returned last. The program reads them before its next call.
    static TIPS: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn tell_tips(capture: Option<Capture>, dependencies: *mut u64, count: *mut u64) -> Outcome {
    let Some(capture) = capture else { return Ok(()) };
    guest::write_optional(count, capture.tips.len() as u64)?;
    let at = TIPS.with_borrow_mut(|tips| {
        *tips = capture.tips;
        tips.as_ptr() as u64
    });
    guest::write_optional(dependencies, at)
}

per_thread! {
    cuStreamSynchronize_ptsz = cuStreamSynchronize: (; stream);
    cuStreamQuery_ptsz = cuStreamQuery: (; stream);
}

/// `cuLaunchHostFunc` on the calling thread's default stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc_ptsz(stream: u64, function: u64, data: u64) -> u32 {
    cuLaunchHostFunc(if stream == 0 { PER_THREAD } else { stream }, function, data)
}

/// `cuStreamWaitEvent` on the calling thread's default stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent_ptsz(stream: u64, event: u64, flags: u32) -> u32 {
    cuStreamWaitEvent(if stream == 0 { PER_THREAD } else { stream }, event, flags)
}
