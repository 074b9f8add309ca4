//! Streams, events, and captures.

use crate::api::check;
use crate::driver::{self, PER_THREAD};

runtime! {
    fn cudaStreamCreate(place: *mut u64) {
        check(driver::cuStreamCreateWithPriority(place, 0, 0))
    }
    fn cudaStreamCreateWithFlags(place: *mut u64, flags: u32) {
        check(driver::cuStreamCreateWithPriority(place, flags, 0))
    }
    fn cudaStreamCreateWithPriority(place: *mut u64, flags: u32, priority: i32) {
        check(driver::cuStreamCreateWithPriority(place, flags, priority))
    }
    fn cudaStreamDestroy(stream: u64) {
        check(driver::cuStreamDestroy_v2(stream))
    }
    fn cudaStreamSynchronize(stream: u64) {
        check(driver::cuStreamSynchronize(stream))
    }
    fn cudaStreamQuery(stream: u64) {
        check(driver::cuStreamQuery(stream))
    }
    fn cudaStreamWaitEvent(stream: u64, event: u64, flags: u32) {
        check(driver::cuStreamWaitEvent(stream, event, flags))
    }
    fn cudaStreamAddCallback(stream: u64, function: u64, data: u64, flags: u32) {
        check(driver::cuStreamAddCallback(stream, function, data, flags))
    }
    fn cudaStreamGetPriority(stream: u64, priority: *mut i32) {
        check(driver::cuStreamGetPriority(stream, priority))
    }
    fn cudaStreamGetFlags(stream: u64, flags: *mut u32) {
        check(driver::cuStreamGetFlags(stream, flags))
    }
    fn cudaStreamGetId(stream: u64, id: *mut u64) {
        check(driver::cuStreamGetId(stream, id))
    }
    fn cudaStreamGetDevice(stream: u64, device: *mut i32) {
        let mut flags = 0;
        check(driver::cuStreamGetFlags(stream, &raw mut flags))?;
        crate::api::write(device, 0)
    }
    fn cudaStreamCopyAttributes(to: u64, from: u64) {
        let mut flags = 0;
        check(driver::cuStreamGetFlags(to, &raw mut flags))?;
        check(driver::cuStreamGetFlags(from, &raw mut flags))
    }
    fn cudaStreamSetAttribute(stream: u64, _attribute: u32, _value: u64) {
        let mut flags = 0;
        check(driver::cuStreamGetFlags(stream, &raw mut flags))
    }
    fn cudaStreamBeginCapture(stream: u64, mode: u32) {
        check(driver::cuStreamBeginCapture_v2(stream, mode))
    }
    fn cudaStreamEndCapture(stream: u64, graph: *mut u64) {
        check(driver::cuStreamEndCapture(stream, graph))
    }
    fn cudaStreamIsCapturing(stream: u64, status: *mut u32) {
        check(driver::cuStreamIsCapturing(stream, status))
    }
    fn cudaStreamGetCaptureInfo_v2(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut u64, count: *mut u64,
    ) {
        let none = std::ptr::null_mut();
        check(driver::cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, none, count))
    }
    fn cudaStreamGetCaptureInfo_v3(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut u64, edges: *mut u64,
        count: *mut u64,
    ) {
        check(driver::cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count))
    }
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut u32) {
        check(driver::cuThreadExchangeStreamCaptureMode(mode))
    }
    fn cudaEventCreate(place: *mut u64) {
        check(driver::cuEventCreate(place, 0))
    }
    fn cudaEventCreateWithFlags(place: *mut u64, flags: u32) {
        check(driver::cuEventCreate(place, flags))
    }
    fn cudaEventDestroy(event: u64) {
        check(driver::cuEventDestroy_v2(event))
    }
    fn cudaEventRecord(event: u64, stream: u64) {
        check(driver::cuEventRecordWithFlags(event, stream, 0))
    }
    fn cudaEventRecordWithFlags(event: u64, stream: u64, flags: u32) {
        check(driver::cuEventRecordWithFlags(event, stream, flags))
    }
    fn cudaEventQuery(event: u64) {
        check(driver::cuEventQuery(event))
    }
    fn cudaEventSynchronize(event: u64) {
        check(driver::cuEventSynchronize(event))
    }
    fn cudaEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64) {
        check(driver::cuEventElapsedTime(milliseconds, start, end))
    }
    fn cudaEventElapsedTime_v2(milliseconds: *mut f32, start: u64, end: u64) {
        check(driver::cuEventElapsedTime(milliseconds, start, end))
    }
}

per_thread! {
    cudaStreamSynchronize_ptsz = cudaStreamSynchronize: (; stream);
    cudaStreamQuery_ptsz = cudaStreamQuery: (; stream);
    cudaEventRecord_ptsz = cudaEventRecord: (event: u64; stream);
}

/// `cudaStreamWaitEvent` on the calling thread's default stream.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamWaitEvent_ptsz(stream: u64, event: u64, flags: u32) -> u32 {
    cudaStreamWaitEvent(if stream == 0 { PER_THREAD } else { stream }, event, flags)
}
