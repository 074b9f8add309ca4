//! Baselines of a declared op: Python functions on PyTorch tensors.

use op::{Input, OpProblems as _, Peer, PeerProblem, Peers};
use serde_json::json;

use crate::declaration::{Declaration, Kind};
use crate::declared_op::DeclaredOp;
use crate::inputs::DeclaredInputs;
use crate::problem::DeclaredProblem;

pub(crate) fn peers(op: &DeclaredOp) -> Option<Peers> {
    let all: Vec<Peer> = op.declaration.baselines.keys().map(|name| Peer::of_pytorch(name)).collect();
    (!all.is_empty()).then(|| Peers { all, script: op::pytorch_script(include_str!("baselines.py")) })
}

pub(crate) fn problem(op: &DeclaredOp, problem: &DeclaredProblem, inputs: &DeclaredInputs) -> PeerProblem {
    let declaration = &op.declaration;
    let functions: serde_json::Map<String, serde_json::Value> = declaration
        .baselines
        .iter()
        .map(|(name, function)| {
            let script = op.files.scripts.iter().find(|(file, _)| *file == function.file);
            let script = script.map_or("", |(_, text)| text.as_str());
            let file = op.script_path(&function.file);
            (name.clone(), json!({ "script": script, "file": file, "function": function.name }))
        })
        .collect();
    let fields = json!({
        "op": op.name(),
        "folder": op.files.folder.as_ref().map(|folder| folder.display().to_string()),
        "functions": functions,
        "values": declaration.json_values(problem),
        "tensors": tensors(declaration, problem, true),
        "outputs": tensors(declaration, problem, false),
    });
    let given = inputs.tensors.iter();
    let given =
        given.map(|tensor| Input { name: tensor.name.clone(), bytes: tensor.bytes.clone(), sign_bits: 0 });
    PeerProblem { fields, inputs: given.collect(), untimed_conversion: "" }
}

/// Name, type and shape of the inputs or of the outputs.
fn tensors(declaration: &Declaration, problem: &DeclaredProblem, read: bool) -> Vec<serde_json::Value> {
    let arguments = declaration.arguments.iter().filter(|argument| {
        argument.kind != Kind::Scalar
            && if read { argument.kind.is_read() } else { argument.kind.is_written() }
    });
    let describe = |argument: &crate::declaration::Argument| {
        let dtype = declaration.dtype(argument.dtype, problem);
        let name = match dtype.name() {
            "f16" => "fp16",
            "f32" => "fp32",
            "f64" => "fp64",
            other => other,
        };
        let shape = declaration.shape(argument, problem).unwrap_or_default();
        json!({ "name": argument.name, "dtype": name, "shape": shape })
    };
    arguments.map(describe).collect()
}
