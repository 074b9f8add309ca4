//! Parses the answer of a proposer.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

/// A candidate as it was proposed. Nothing about it has been checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposedCandidate {
    /// Knobs that override the baseline's.
    pub knobs: IndexMap<String, String>,
    /// A source that replaces the family's own.
    pub source: Option<String>,
}

/// The JSON form of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposedCandidateText {
    #[serde(default)]
    knobs: Option<IndexMap<String, Value>>,
    #[serde(default)]
    source: Option<String>,
    /// An explanation for readers of the log.
    #[serde(default)]
    #[expect(dead_code, reason = "the log keeps it as part of the answer")]
    why: Option<String>,
}

/// Info strings that mark a fenced block as a kernel.
const CUDA_MARKS: [&str; 5] = ["cuda", "cu", "c++", "cpp", "c"];

/// Parses an answer. It is a JSON object, alone or in a fenced block, or a source in a fenced block marked as CUDA,
/// with or without such an object beside it. The error text is for the proposer.
pub fn parse(text: &str) -> Result<ProposedCandidate, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    if text.starts_with('{') {
        return parse_object(text);
    }
    let blocks = fenced_blocks(text)?;
    let is_cuda = |(mark, _): &&(String, String)| CUDA_MARKS.contains(&mark.as_str());
    let is_object = |(mark, body): &&(String, String)| {
        mark == "json" || (mark.is_empty() && body.trim_start().starts_with('{'))
    };
    let objects: Vec<_> = blocks.iter().filter(is_object).collect();
    let sources: Vec<_> = blocks.iter().filter(is_cuda).collect();
    match (objects.as_slice(), sources.as_slice()) {
        ([], []) => {
            Err("the answer has no JSON object and no fenced block marked `json` or `cuda`".to_owned())
        }
        ([(_, object)], []) => parse_object(object),
        ([], [(_, source)]) => {
            Ok(ProposedCandidate { source: Some(source.clone()), ..ProposedCandidate::default() })
        }
        ([(_, object)], [(_, source)]) => match parse_object(object)? {
            ProposedCandidate { source: None, knobs } => {
                Ok(ProposedCandidate { knobs, source: Some(source.clone()) })
            }
            ProposedCandidate { source: Some(_), .. } => Err("the answer has two sources".to_owned()),
        },
        _ => Err("the answer has more than one candidate; send one".to_owned()),
    }
}

fn parse_object(text: &str) -> Result<ProposedCandidate, String> {
    let written: ProposedCandidateText = serde_json::from_str(text.trim())
        .map_err(|error| format!("the answer is not a valid JSON object: {error}"))?;
    if written.knobs.is_none() && written.source.is_none() {
        return Err("the answer names neither knobs nor a source".to_owned());
    }
    let mut knobs = IndexMap::new();
    for (knob, value) in written.knobs.unwrap_or_default() {
        let value = match value {
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(format!(
                    "{knob} cannot be {value}: the value of a knob is a number, a string, true or false"
                ));
            }
        };
        knobs.insert(knob, value);
    }
    Ok(ProposedCandidate { knobs, source: written.source })
}

/// The blocks between lines of three backticks, each with its mark in lower case.
fn fenced_blocks(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(mark), None) => {
                let mark = mark.split_whitespace().next().unwrap_or_default().to_lowercase();
                open = Some((mark, String::new()));
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    if open.is_some() {
        Err("the answer has a fenced block that does not end".to_owned())
    } else {
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs(pairs: &[(&str, &str)]) -> IndexMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_form_of_an_answer_is_parsed() {
        let stages =
            ProposedCandidate { knobs: knobs(&[("STAGES", "2"), ("SWIZZLE", "true")]), source: None };
        let source = |knobs| ProposedCandidate { knobs, source: Some("int x;\n".to_owned()) };
        for (text, answer) in [
            (r#" {"knobs": {"STAGES": 2, "SWIZZLE": true}, "why": "less waiting"} "#, stages.clone()),
            (
                "Here:\n```json\n{\"knobs\": {\"STAGES\": \"2\", \"SWIZZLE\": \"true\"}}\n```\nthat is all",
                stages.clone(),
            ),
            ("```\n{\"knobs\": {\"STAGES\": 2, \"SWIZZLE\": true}}\n```", stages),
            (r#"{"knobs": {}}"#, ProposedCandidate::default()),
            (r#"{"source": "int x;\n"}"#, source(knobs(&[]))),
            ("so\n```CUDA\nint x;\n```", source(knobs(&[]))),
            (
                "```text\nno\n```\n```json\n{\"knobs\":{\"A\":1}}\n```\n```cpp\nint x;\n```",
                source(knobs(&[("A", "1")])),
            ),
        ] {
            assert_eq!(parse(text), Ok(answer), "{text}");
        }
    }

    #[test]
    fn an_invalid_answer_has_a_reason() {
        let deep = format!(r#"{{"knobs": {{"STAGES": {}"#, "[".repeat(100_000));
        for (text, words) in [
            ("  ", "empty"),
            ("I would raise STAGES.", "no JSON object"),
            (r#"["STAGES"]"#, "no JSON object"),
            ("```python\nprint()\n```", "no JSON object"),
            (r#"{"knobs": {"STAGES": 2}"#, "EOF"),
            (r#"{"knobs": {"STAGES": [2]}}"#, "STAGES cannot be [2]"),
            (r#"{"knobs": {"STAGES": null}}"#, "STAGES cannot be null"),
            (r#"{"knobs": "STAGES=2"}"#, "expected a map"),
            (r#"{"knob": {"STAGES": 2}}"#, "unknown field `knob`"),
            (r#"{"source": 7}"#, "expected a string"),
            (r#"{"why": "no idea"}"#, "neither knobs nor a source"),
            ("{}", "neither knobs nor a source"),
            (r#"{"knobs": {}} and more"#, "trailing"),
            ("```json\n{\"knobs\": {}}\n", "does not end"),
            ("```json\n{}\n```\n```json\n{}\n```", "more than one"),
            ("```cuda\na\n```\n```cuda\nb\n```", "more than one"),
            ("```json\n{\"source\": \"a\"}\n```\n```cuda\nb\n```", "two sources"),
            (&deep, "recursion limit"),
        ] {
            let reason = parse(text).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
