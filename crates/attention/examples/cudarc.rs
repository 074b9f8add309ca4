//! Attention on cudarc's slices and stream. Without a GPU the same call runs on the virtual GPU.
//!
//! `cargo run --release -p warpsmith-attention --example cudarc`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaStream, DevicePtr as _, DevicePtrMut as _};
use warpsmith_attention::forward::{Device, Options, Stream, Tensors, View, forward};
use warpsmith_attention::metrics::{Tolerance, Weights, compare};
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::{Class, Dtype, Inputs, Layout, Problem, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let mut problem = Problem::new(1, 8, 512, 64, Dtype::Fp16);
    // The driver library must exist before cudarc looks for GPUs.
    let device = Device::open_default()?;
    println!("{}", device.describe());
    let has_gpu = device.describe().starts_with("cuda");
    if !has_gpu {
        problem = Problem::new(1, 2, 100, 64, Dtype::Fp16);
    }
    let inputs = Inputs::generate(&problem, Class::Normal, 1).encode(problem.dtype, Layout::Bhsd);
    let shape = problem.query_shape();
    let view =
        |address| View::bhsd(address, Dtype::Fp16, [shape.batch, shape.heads, shape.seq, shape.head_dim]);

    let bytes = if has_gpu {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let q = stream.clone_htod(&inputs.q.bytes)?;
        let k = stream.clone_htod(&inputs.k.bytes)?;
        let v = stream.clone_htod(&inputs.v.bytes)?;
        let mut o = stream.alloc_zeros::<u8>(2 * shape.elements())?;
        {
            let (q, _q) = q.device_ptr(&stream);
            let (k, _k) = k.device_ptr(&stream);
            let (v, _v) = v.device_ptr(&stream);
            let (o, _o) = o.device_ptr_mut(&stream);
            let tensors = Tensors { q: view(q), k: view(k), v: view(v), o: view(o) };
            let options = Options { stream: Stream(stream.cu_stream() as u64), ..Options::default() };
            let plan = device.plan_for(&tensors, options.mask)?;
            println!("kernel: {}", plan.kernel());
            plan.launch(&tensors, &options)?;

            // The first calls are ordinary launches; repeated calls become graphs, which take less time.
            let mut first_calls = eager(&context, &stream, 15, || plan.launch(&tensors, &options))?;
            let mut calls = eager(&context, &stream, 2000, || plan.launch(&tensors, &options))?;

            // The time from a call to its result, and the time of a call in a row of calls.
            let mut latencies = Vec::new();
            for _ in 0..200 {
                stream.synchronize()?;
                let start = Instant::now();
                plan.launch(&tensors, &options)?;
                stream.synchronize()?;
                latencies.push(start.elapsed().as_secs_f64() * 1e6);
            }
            let start = Instant::now();
            for _ in 0..2000 {
                plan.launch(&tensors, &options)?;
            }
            let issued = start.elapsed().as_secs_f64() * 1e6 / 2000.0;
            stream.synchronize()?;
            let each = start.elapsed().as_secs_f64() * 1e6 / 2000.0;
            println!("p50 between events around a call, launch included: {:.1} us", median(&mut calls));
            println!("the same for the first 15 calls: {:.1} us", median(&mut first_calls));
            println!(
                "p50 of a call that is waited for, on the CPU's clock: {:.1} us",
                median(&mut latencies)
            );
            println!("in a row: {each:.2} us, of which the CPU {issued:.2} us");
        }
        stream.clone_dtoh(&o)?
    } else {
        let [q, k, v] = [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v)]
            .map(|(label, tensor)| device.upload(label, &tensor.bytes));
        let o = device.allocate("o", 2 * shape.elements() as u64)?;
        let [q, k, v] = [view(q?.address), view(k?.address), view(v?.address)];
        forward(&device, q, k, v, view(o.address), &Options::default())?;
        device.read(o)?
    };

    let output = Tensor { bytes, ..Tensor::poisoned(shape, Dtype::Fp16, Layout::Bhsd) };
    let reference = oracle::attention(&problem, &inputs.decode(), Rows::all(&problem));
    let comparison = compare(&reference, &output, None, Tolerance::new(problem.dtype, Weights::Half));
    println!("relative L2 error: {:.1e}", comparison.relative_l2);
    if comparison.passed() { Ok(()) } else { Err("the output is wrong".into()) }
}

/// Microseconds between two events around each of several calls, which start on an idle GPU.
fn eager<E: Error + 'static>(
    context: &Arc<CudaContext>,
    stream: &CudaStream,
    calls: usize,
    call: impl Fn() -> Result<(), E>,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let (start, end) = (context.new_event(timed)?, context.new_event(timed)?);
    let mut times = Vec::new();
    for _ in 0..calls {
        stream.synchronize()?;
        start.record(stream)?;
        call()?;
        end.record(stream)?;
        times.push(f64::from(start.elapsed_ms(&end)?) * 1e3);
    }
    Ok(times)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
