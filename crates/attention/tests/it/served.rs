//! `forward` with lengths, pages, packed sequences, windows, sinks and capped scores on the virtual GPU, against the oracle.

#![allow(clippy::unwrap_used)] // A test whose setup fails must fail, and `unwrap` does that.

use std::collections::HashMap;
use std::sync::Arc;

use warpsmith_attention::forward::{
    Device, ForwardError, KeyWindow, Options, PackedSequences, PageTable, Served, Tensors, View,
};
use warpsmith_attention::metrics::{Tolerance, Weights, compare};
use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::{Class, Encoded, Inputs, Layout, Mask, Problem, Shape, run};

use crate::common::new_compiler;

fn device() -> Device {
    Device::virtual_gpu("h200").unwrap().with_compiler(new_compiler())
}

/// What a problem adds to its tensors, in the buffers with these addresses.
fn served(problem: &Problem, addresses: &HashMap<String, u64>) -> Served {
    let given = |name: &str| addresses.get(name).copied();
    let serving = problem.serving;
    Served {
        key_lengths: given("key_lengths"),
        pages: serving.page_size.map(|size| PageTable {
            address: given("page_table").unwrap(),
            pages_of_sequence: problem.seq_k.div_ceil(size as usize),
        }),
        packed: serving.packed.then(|| PackedSequences {
            batch: problem.batch,
            longest_queries: problem.seq_q,
            longest_keys: problem.seq_k,
            query_starts: given("query_starts").unwrap(),
            key_starts: given("key_starts"),
        }),
        window: serving.window.map(|window| KeyWindow { left: Some(window.left), right: window.right }),
        sinks: given("sinks"),
        softcap: serving.softcap.map(|cap| cap as f32),
    }
}

fn view_of(problem: &Problem, address: u64, shape: Shape) -> View {
    View { address, dtype: problem.dtype, shape, strides: Layout::Bshd.strides(shape) }
}

/// Launches one plan for inputs of several seeds, which take each other's place in the same buffers.
fn check(device: &Device, name: &str) {
    let problem: Problem = name.parse().unwrap();
    let mut addresses: HashMap<String, u64> = HashMap::new();
    let mut buffers = HashMap::new();
    let mut first_plan = None;
    for seed in [7, 8, 9] {
        let inputs: Encoded =
            Inputs::generate(&problem, Class::Normal, seed).encode(problem.dtype, Layout::Bshd);
        let arrangement = run::arrange(&problem, &inputs, true);
        for input in &arrangement.inputs {
            let buffer = *buffers.entry(input.name.clone()).or_insert_with(|| {
                let buffer = device.allocate(&input.name, input.bytes.len() as u64).unwrap();
                addresses.insert(input.name.clone(), buffer.address);
                buffer
            });
            device.write(buffer, &input.bytes).unwrap();
        }
        let [output, lse] = &arrangement.outputs[..] else { panic!("two outputs") };
        let outputs = [output, lse].map(|it| device.allocate(&it.name, it.bytes as u64).unwrap());
        let queries = problem.stored_query_shape();
        let cache = inputs.serving.cache_shape(&problem);
        let tensors = Tensors {
            q: view_of(&problem, addresses["q"], queries),
            k: view_of(&problem, addresses["k"], cache),
            v: view_of(&problem, addresses["v"], cache),
            o: view_of(&problem, outputs[0].address, queries),
        };
        let mut options = Options {
            mask: problem.mask,
            lse: Some(outputs[1].address),
            served: served(&problem, &addresses),
            ..Options::default()
        };
        let plan = device.plan_for_options(&tensors, &options).unwrap();
        assert!(Arc::ptr_eq(first_plan.get_or_insert(plan.clone()), &plan), "{name}");
        options.workspace = Some(device.allocate("workspace", plan.workspace_bytes()).unwrap());
        plan.launch(&tensors, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let stored = outputs.map(|buffer| device.read(buffer).unwrap()).to_vec();
        let (output, lse) = run::answer(&problem, Layout::Bshd, stored);
        let reference = oracle::attention(&problem, &inputs.decode(), Rows::all(&problem));
        let tolerance = Tolerance::new(problem.dtype, Weights::Half);
        let comparison = compare(&reference, &output, lse.as_deref(), tolerance);
        assert!(comparison.passed(), "{name}, seed {seed}, {}: {comparison:?}", plan.kernel());
    }
}

#[test]
fn lengths_and_tables_may_change_between_launches_of_one_plan() {
    let device = device();
    for name in [
        "b5h8kv2sq1sk150d128-ragged-bf16",
        "b5h8kv2sq1sk150d128-ragged-page16-fp16",
        "b3h4sq3sk100d64-causal-ragged-page24-window40-sink-cap20-bf16",
        "b2h4kv1sq1sk112d64-page16-cap5-fp16",
        "b2h2s40d64-window8+3-sink-fp16",
    ] {
        check(&device, name);
    }
}

#[test]
fn packed_sequences_are_computed() {
    let device = device();
    for name in [
        "b7h4kv2s100d64-causal-packed-fp16",
        "b7h8kv2sq3sk100d128-causal-packed-bf16",
        "b5h2sq40sk70d64-causal-packed-page16-window30-sink-cap20-bf16",
    ] {
        check(&device, name);
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let device = device();
    let tensors = |queries: [usize; 4], keys: [usize; 4]| {
        let at = |address, shape| View::bshd(address, warpsmith_attention::Dtype::Bf16, shape);
        Tensors { q: at(256, queries), k: at(512, keys), v: at(512, keys), o: at(1024, queries) }
    };
    let refusal = |tensors: &Tensors, served: Served| {
        let options = Options { mask: Mask::Causal, served, ..Options::default() };
        let plan = device.plan_for_options(tensors, &options);
        plan.map_or_else(|error: ForwardError| error.to_string(), |_| String::new())
    };
    let packed =
        PackedSequences { batch: 2, longest_queries: 3, longest_keys: 5, query_starts: 64, key_starts: None };
    let pages = PageTable { address: 64, pages_of_sequence: 3 };
    let one = tensors([1, 4, 2, 64], [1, 9, 2, 64]);
    let cases = [
        (
            tensors([2, 4, 2, 64], [2, 9, 2, 64]),
            Served { packed: Some(packed), ..Served::default() },
            "q: packed",
        ),
        (
            one,
            Served { packed: Some(PackedSequences { longest_queries: 5, ..packed }), ..Served::default() },
            "q: a sequence cannot have more queries",
        ),
        (one, Served { packed: Some(packed), ..Served::default() }, "k: packed keys need"),
        (
            one,
            Served { packed: Some(packed), pages: Some(pages), ..Served::default() },
            "k: keys in pages need their starts or lengths",
        ),
        (one, Served { softcap: Some(-1.0), ..Served::default() }, "softcap: it must be"),
        (
            tensors([2, 1, 2, 64], [0, 16, 2, 64]),
            Served { pages: Some(pages), ..Served::default() },
            "k: there are no pages",
        ),
    ];
    for (tensors, served, words) in cases {
        let refused = refusal(&tensors, served);
        assert!(refused.starts_with(words), "{words}: {refused}");
    }
}

/// The bits of one sequence's rows are the same alone, and among others of other lengths.
#[test]
fn rows_do_not_depend_on_other_sequences_if_that_is_asked_for() {
    let device = device();
    for name in ["b6h8kv2sq1sk700d128-ragged3-bf16", "b6h4sq20sk300d64-causal-ragged3-fp16"] {
        let problem: Problem = name.parse().unwrap();
        let inputs = Inputs::generate(&problem, Class::Normal, 3).encode(problem.dtype, Layout::Bshd);
        let arrangement = run::arrange(&problem, &inputs, true);
        let addresses: HashMap<String, u64> = arrangement
            .inputs
            .iter()
            .map(|it| (it.name.clone(), device.upload(&it.name, &it.bytes).unwrap().address))
            .collect();
        // The sequences from `first` on.
        let compute = |first: usize, batch: usize| -> Vec<u8> {
            let (queries, keys) = (problem.query_shape(), problem.key_shape());
            let view = |name: &str, shape: Shape| {
                let skipped = first * shape.elements() / shape.batch * problem.dtype.bytes();
                view_of(&problem, addresses[name] + skipped as u64, Shape { batch, ..shape })
            };
            let shape = Shape { batch, ..queries };
            let o = device.allocate("o", (shape.elements() * 2) as u64).unwrap();
            let lse = device.allocate("lse", (shape.rows() * 4) as u64).unwrap();
            let tensors = Tensors {
                q: view("q", queries),
                k: view("k", keys),
                v: view("v", keys),
                o: view_of(&problem, o.address, shape),
            };
            let key_lengths = Some(addresses["key_lengths"] + 4 * first as u64);
            let mut options = Options {
                mask: problem.mask,
                lse: Some(lse.address),
                served: Served { key_lengths, ..Served::default() },
                batch_invariant: true,
                ..Options::default()
            };
            let plan = device.plan_for_options(&tensors, &options).unwrap();
            options.workspace = Some(device.allocate("workspace", plan.workspace_bytes()).unwrap());
            plan.launch(&tensors, &options).unwrap();
            [device.read(o).unwrap(), device.read(lse).unwrap()].concat()
        };
        let (elements, rows) =
            (problem.query_shape().elements() / 6 * 2, problem.query_shape().rows() / 6 * 4);
        let all = compute(0, 6);
        for sequence in 0..6 {
            let alone = compute(sequence, 1);
            assert_eq!(
                alone[..elements],
                all[sequence * elements..][..elements],
                "{name}, output of {sequence}"
            );
            let lse = &all[6 * elements..][sequence * rows..][..rows];
            assert_eq!(&alone[elements..], lse, "{name}, log-sum-exp of {sequence}");
        }
    }
}
