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
    let element = candidate.axes.get("dtype").and_then(|dtype| element_type(&dtype.to_string()));
    let element = element.filter(|_| !family.axes.iter().any(|axis| camel_case(&axis.name) == "Element"));
    if let Some(name) = element.and_then(|name| name.strip_prefix("::")) {
        // Declared only: a kernel that uses elements includes CUDA's header.
        let _ = writeln!(text, "struct {name};");
    }
    text.push_str("namespace axis {\n");
    for axis in family.axes.iter().filter(|axis| axis.specialised) {
        constant(&mut text, &axis.name, &candidate.axes[&axis.name], &axis.values);
    }
    if let Some(name) = element {
        let _ = writeln!(text, "template <typename E4m3 = void>\nusing Element = {name};  // of dtype");
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

/// The C++ type of elements. FP8 has none that every kernel uses, so a kernel names its own: `axis::Element<Code>`.
fn element_type(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "fp16" => "::__half",
        "bf16" => "::__nv_bfloat16",
        "fp32" => "float",
        "e4m3" => "E4m3",
        _ => return None,
    })
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
