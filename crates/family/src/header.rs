//! Generates `generated.cuh`, the candidate as C++ constants. Only this header passes knobs to the compiler.

use std::fmt::Write as _;

use crate::layout::Layout;
use crate::manifest::Family;
use crate::{Candidate, Value};

pub(crate) const NAME: &str = "generated.cuh";

/// The text of the header for one candidate.
pub(crate) fn generate(family: &Family, candidate: &Candidate, layout: &Layout) -> String {
    let mut text =
        format!("// Made by warpsmith from {}'s manifest. Do not edit.\n#pragma once\n", family.full_name());
    text.push_str("namespace axis {\n");
    for axis in family.axes.iter().filter(|axis| axis.specialised) {
        constant(&mut text, &axis.name, &candidate.axes[&axis.name], &axis.values);
    }
    text.push_str("}\nnamespace knob {\n");
    for knob in &family.knobs {
        constant(&mut text, &knob.name, &candidate.knobs[&knob.name], &knob.values);
    }
    text.push_str("}\nnamespace smem {  // byte offsets into dynamic shared memory\n");
    for buffer in &layout.buffers {
        let _ = write!(
            text,
            "struct {} {{ static constexpr unsigned offset = {}, bytes = {};",
            buffer.name, buffer.offset, buffer.bytes
        );
        for (index, extent) in buffer.shape.iter().enumerate() {
            let _ = write!(text, " static constexpr int dim{index} = {extent};");
        }
        let _ = writeln!(text, " }};  // {} {}", buffer.element, buffer.about);
    }
    let _ = writeln!(text, "constexpr unsigned total = {};\n}}", layout.total_bytes);
    text
}

fn constant(text: &mut String, name: &str, value: &Value, values: &[Value]) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::Int(value) => writeln!(text, "constexpr int {name} = {value};"),
        Value::Bool(value) => writeln!(text, "constexpr bool {name} = {value};"),
        Value::Text(value) => {
            let kind = camel_case(name);
            let all: Vec<String> = values.iter().map(|value| identifier(&value.to_string())).collect();
            writeln!(
                text,
                "enum class {kind} {{ {} }};\nconstexpr {kind} {name} = {kind}::{};",
                all.join(", "),
                identifier(value)
            )
        }
    };
}

/// `causal-tl` -> `causal_tl`
fn identifier(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// `head_dim` -> `HeadDim`, `PV_MODE` -> `PvMode`
fn camel_case(name: &str) -> String {
    name.split('_')
        .map(|part| {
            let mut chars = part.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars.map(|c| c.to_ascii_lowercase())).collect::<String>()
        })
        .collect()
}
