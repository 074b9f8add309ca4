//! Tests of launches on a GPU: repeated launches become graphs, and the results stay the same.
//!
//! ```text
//! cargo test --release -p warpsmith-attention --test gpu
//! cargo test --release -p warpsmith-attention --test gpu -- capture
//! ```
//!
//! Without a GPU it prints `skipped: no GPU`. The program can be copied to a machine without cargo, which needs a compiler
//! for the kernels. `crates/gpu/tests/repeated_launches.rs` tests without a GPU when launches become graphs.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaStream};
use gpu::accelerator::AcceleratorError;
use warpsmith_attention::forward::{
    Buffer, Device, ForwardError, Options, Plan, Quantisation, QuantisedPlan, Stream, Tensors, View,
};
use warpsmith_attention::{Class, Dtype, Inputs, Layout, Problem, Tensor};

/// More launches than it takes until a call becomes a graph.
const MANY: usize = 40;

/// A test and its name.
type Test = (&'static str, fn(&Device));

const TESTS: [Test; 8] = [
    ("every_launch_sees_the_inputs_of_its_time", every_launch_sees_the_inputs_of_its_time),
    ("a_capture_records_a_repeated_launch", a_capture_records_a_repeated_launch),
    ("a_capture_elsewhere_survives_repeated_launches", a_capture_elsewhere_survives_repeated_launches),
    ("a_capture_survives_the_end_of_graphs", a_capture_survives_the_end_of_graphs),
    ("many_argument_sets_are_correct", many_argument_sets_are_correct),
    ("threads_share_a_plan", threads_share_a_plan),
    ("a_plan_may_be_dropped_while_its_launch_runs", a_plan_may_be_dropped_while_its_launch_runs),
    ("quantised_launches_repeat", quantised_launches_repeat),
];

fn main() -> ExitCode {
    // Words that start with `-` are options of the standard test harness, which this program does not use.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(ForwardError::Device(
            error @ (AcceleratorError::NoDriver(_) | AcceleratorError::NoDevice(_)),
        )) => {
            println!("skipped: no GPU ({error})");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("on {}", device.describe());
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let mut failed = 0;
    for (name, test) in TESTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&device)));
        failed += usize::from(outcome.is_err());
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn problem() -> Problem {
    Problem::new(1, 8, 512, 64, Dtype::Fp16)
}

/// Tensors on the GPU, two sets of inputs for them, and the right answer for each set.
struct Case<'d> {
    device: &'d Device,
    plan: Arc<Plan>,
    /// Q, K and V.
    inputs: [Buffer; 3],
    output: Buffer,
    contents: [[Tensor; 3]; 2],
    answers: [Vec<u8>; 2],
}

impl<'d> Case<'d> {
    fn new(device: &'d Device) -> Self {
        let problem = problem();
        let contents = [1, 2].map(|seed| {
            let inputs = Inputs::generate(&problem, Class::Normal, seed).encode(problem.dtype, Layout::Bhsd);
            [inputs.q, inputs.k, inputs.v]
        });
        let inputs = [0, 1, 2].map(|at| device.upload("input", &contents[0][at].bytes).unwrap());
        let output = device.allocate("output", inputs[0].bytes).unwrap();
        let plan = device.plan(&problem).unwrap();
        let mut case = Case { device, plan, inputs, output, contents, answers: [Vec::new(), Vec::new()] };
        // The first launches of a call are ordinary ones, which `check` compares with the reference.
        for set in [0, 1] {
            case.write(set);
            case.launch(Stream::default());
            case.answers[set] = case.device.read(case.output).unwrap();
        }
        assert_ne!(case.answers[0], case.answers[1]);
        case
    }

    /// Writes a set of inputs and poisons the output.
    fn write(&self, set: usize) {
        // A read waits for all work of the GPU. A write does not wait for non-blocking streams, and may return before its
        // copy has ended.
        self.device.read(self.output).unwrap();
        for (buffer, tensor) in self.inputs.iter().zip(&self.contents[set]) {
            self.device.write(*buffer, &tensor.bytes).unwrap();
        }
        poison(self.device, self.output);
    }

    fn tensors(&self) -> Tensors {
        self.tensors_to(self.output)
    }

    fn tensors_to(&self, output: Buffer) -> Tensors {
        let view = |buffer: Buffer| {
            let shape = problem().query_shape();
            View::bhsd(buffer.address, Dtype::Fp16, [shape.batch, shape.heads, shape.seq, shape.head_dim])
        };
        let [q, k, v] = self.inputs.map(view);
        Tensors { q, k, v, o: view(output) }
    }

    fn launch(&self, stream: Stream) {
        self.plan.launch(&self.tensors(), &on(stream)).unwrap();
    }

    fn expect(&self, set: usize) {
        assert!(self.device.read(self.output).unwrap() == self.answers[set], "the answer is wrong");
    }
}

/// Overwrites an output.
fn poison(device: &Device, output: Buffer) {
    device.write(output, &vec![0xff; output.bytes as usize]).unwrap();
    assert!(is_poisoned(device, output));
}

/// Waits for all work of the GPU.
fn is_poisoned(device: &Device, output: Buffer) -> bool {
    device.read(output).unwrap().iter().all(|byte| *byte == 0xff)
}

fn on(stream: Stream) -> Options {
    Options { stream, ..Options::default() }
}

fn handle(stream: &CudaStream) -> Stream {
    Stream(stream.cu_stream() as u64)
}

fn new_stream() -> Arc<CudaStream> {
    CudaContext::new(0).unwrap().new_stream().unwrap()
}

fn every_launch_sees_the_inputs_of_its_time(device: &Device) {
    let case = Case::new(device);
    let own = new_stream();
    for launch in 0..MANY {
        case.write(launch % 2);
        case.launch(if launch % 3 == 0 { handle(&own) } else { Stream::default() });
        case.expect(launch % 2);
    }
}

fn a_capture_records_a_repeated_launch(device: &Device) {
    let case = Case::new(device);
    let stream = new_stream();
    (0..MANY).for_each(|_| case.launch(handle(&stream)));
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    case.launch(handle(&stream));
    case.launch(handle(&stream));
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
    for set in [1, 0] {
        case.write(set);
        graph.launch().unwrap();
        stream.synchronize().unwrap();
        case.expect(set);
    }
}

fn a_capture_elsewhere_survives_repeated_launches(device: &Device) {
    let (first, second) = (Case::new(device), Case::new(device));
    let (captured, other) = (new_stream(), new_stream());
    second.write(1);
    captured.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    first.launch(handle(&captured));
    // One of these launches makes a graph while the other stream is being captured.
    (0..MANY).for_each(|_| second.launch(handle(&other)));
    let graph = captured.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
    other.synchronize().unwrap();
    second.expect(1);
    first.write(0);
    graph.launch().unwrap();
    captured.synchronize().unwrap();
    first.expect(0);
}

fn a_capture_survives_the_end_of_graphs(device: &Device) {
    let case = Case::new(device);
    let stream = new_stream();
    (0..MANY).for_each(|_| case.launch(handle(&stream)));
    stream.synchronize().unwrap();
    // More than a plan keeps: it forgets the launches that have become graphs during the capture.
    let outputs: Vec<Buffer> =
        (0..300).map(|_| device.allocate("output", case.output.bytes).unwrap()).collect();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    for output in &outputs {
        case.plan.launch(&case.tensors_to(*output), &on(handle(&stream))).unwrap();
    }
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
    graph.launch().unwrap();
    for output in outputs {
        assert!(device.read(output).unwrap() == case.answers[1], "the answer is wrong");
        device.free(output).unwrap();
    }
}

fn many_argument_sets_are_correct(device: &Device) {
    let case = Case::new(device);
    // More than a plan keeps, and more than become graphs.
    let outputs: Vec<Buffer> =
        (0..300).map(|_| device.allocate("output", case.output.bytes).unwrap()).collect();
    for outputs in [&outputs[..150], &outputs[..], &outputs[..150]] {
        let launch = |output: &Buffer| {
            case.plan.launch(&case.tensors_to(*output), &Options::default()).unwrap();
        };
        (0..MANY).for_each(|_| outputs.iter().for_each(launch));
        for output in outputs {
            poison(device, *output);
        }
        outputs.iter().step_by(2).for_each(launch);
        for (place, output) in outputs.iter().enumerate() {
            if place % 2 == 0 {
                assert!(device.read(*output).unwrap() == case.answers[1], "the answer is wrong");
            } else {
                assert!(is_poisoned(device, *output), "the launch of another output wrote to this one");
            }
        }
    }
    for output in outputs {
        device.free(output).unwrap();
    }
}

fn threads_share_a_plan(device: &Device) {
    let case = Case::new(device);
    let outputs = [(); 2].map(|()| device.allocate("output", case.output.bytes).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (case, outputs) = (&case, &outputs);
            scope.spawn(move || {
                let stream = new_stream();
                for launch in 0..1000 {
                    let output = outputs[(thread + launch) % 2];
                    case.plan.launch(&case.tensors_to(output), &on(handle(&stream))).unwrap();
                }
                stream.synchronize().unwrap();
            });
        }
    });
    for output in outputs {
        assert!(device.read(output).unwrap() == case.answers[1], "the answer is wrong");
        poison(device, output);
        case.plan.launch(&case.tensors_to(output), &Options::default()).unwrap();
        assert!(device.read(output).unwrap() == case.answers[1], "the answer of the graph is wrong");
    }
}

fn a_plan_may_be_dropped_while_its_launch_runs(device: &Device) {
    let answer = Case::new(device).answers[1].clone();
    for _ in 0..20 {
        let own = Device::cuda(0).unwrap();
        let mut case = Case::new(&own);
        (0..MANY).for_each(|_| case.launch(Stream::default()));
        case.write(1);
        (0..300).for_each(|_| case.launch(Stream::default()));
        let output = case.output;
        // The device keeps a plan too, so both must go.
        case.plan = device.plan(&problem()).unwrap();
        drop(case);
        drop(own);
        assert!(device.read(output).unwrap() == answer, "the answer is wrong");
    }
}

fn quantised_launches_repeat(device: &Device) {
    let mut case = Case::new(device);
    let plan: QuantisedPlan = device.quantised_plan(&problem(), Quantisation::default()).unwrap();
    let workspace = device.allocate("workspace", plan.workspace_bytes()).unwrap();
    let options = Options { workspace: Some(workspace), ..Options::default() };
    for launch in 0..MANY {
        let set = launch % 2;
        case.write(set);
        plan.launch(&case.tensors(), &options).unwrap();
        if launch < 2 {
            let fp16 = std::mem::replace(&mut case.answers[set], device.read(case.output).unwrap());
            assert!(
                !is_poisoned(device, case.output) && case.answers[set] != fp16,
                "nothing was computed in FP8"
            );
        }
        case.expect(set);
    }
    assert_ne!(case.answers[0], case.answers[1]);
}
