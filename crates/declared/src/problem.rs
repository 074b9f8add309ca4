//! Problems of a declared op: a value for every size and every axis.

use std::fmt;

use family::{Scope, Sizes, Value, nearest};
use op::Refusal;

use crate::declaration::{Axis, Declaration, Size};

/// The sizes and axes of a problem, in the order of the op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredProblem {
    pub(crate) sizes: Vec<(String, i64)>,
    pub(crate) axes: Vec<(String, Value)>,
}

impl fmt::Display for DeclaredProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.sizes.iter().map(|(name, value)| format!("{name}{value}"));
        let axes = self.axes.iter().filter_map(|(name, value)| value_label(name, value));
        f.write_str(&sizes.chain(axes).collect::<Vec<_>>().join("-"))
    }
}

/// How the value of an axis appears in a problem's name.
pub(crate) fn axis_label(axis: &Axis, value: &Value) -> Option<String> {
    value_label(&axis.name, value)
}

fn value_label(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Bool(true) => Some(name.to_owned()),
        Value::Bool(false) | Value::Int(0) => None,
        Value::Int(number) => Some(format!("{name}{number}")),
        Value::Text(text) => Some(text.clone()),
    }
}

impl DeclaredProblem {
    /// The value of a size.
    pub fn size(&self, name: &str) -> Option<i64> {
        self.sizes.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The value of an axis.
    pub fn axis(&self, name: &str) -> Option<&Value> {
        self.axes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(crate) fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        for (name, value) in &self.sizes {
            scope.add(name, &Value::Int(*value));
        }
        for (name, value) in &self.axes {
            scope.add(name, value);
        }
        scope
    }

    pub(crate) fn runtime_sizes(&self) -> Sizes {
        self.sizes.iter().cloned().collect()
    }
}

impl Declaration {
    /// Parses `rows4096-cols1024-fp16`, or an alias with values of axes: `llama-bf16`. Sizes with a default and axes
    /// may be left out.
    pub(crate) fn problem(&self, text: &str) -> Result<DeclaredProblem, Refusal> {
        let mut problem =
            PartialProblem { declaration: self, sizes: vec![None; self.sizes.len()], axes: Vec::new() };
        problem.axes.resize(self.axes.len(), None);
        let mut rest = text;
        // The longest alias first: one alias may be the start of another.
        let starts = |alias: &&String| {
            text.strip_prefix(alias.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(alias) = self.aliases.keys().filter(starts).max_by_key(|alias| alias.len()) {
            for (name, value) in &self.aliases[alias] {
                problem.set(name, value);
            }
            rest = text[alias.len()..].trim_start_matches('-');
        }
        while !rest.is_empty() {
            let taken = problem.take(rest).ok_or_else(|| self.unknown_part(text, rest))??;
            rest = &rest[taken..];
            rest = match rest.strip_prefix('-') {
                Some(after) if !after.is_empty() => after,
                None if rest.is_empty() => rest,
                _ => return Err(self.unknown_part(text, rest)),
            };
        }
        problem.finish()
    }

    fn unknown_part(&self, text: &str, part: &str) -> Refusal {
        let part = part.trim_start_matches('-');
        let names = self.aliases.keys().map(String::as_str);
        let near = nearest(text, names).map(|near| format!("did you mean `{near}`? "));
        Refusal::new(format!("`{text}` is not a problem of this op: cannot read `{part}`"))
            .hint(Some(near.unwrap_or_default() + &self.example()))
    }

    /// An example of a problem's name.
    pub(crate) fn example(&self) -> String {
        let size = |size: &Size| (size.name.clone(), size.default.unwrap_or_else(|| size.nearest(128)));
        let axis = |axis: &Axis| (axis.name.clone(), axis.values[0].clone());
        let example = DeclaredProblem {
            sizes: self.sizes.iter().map(size).collect(),
            axes: self.axes.iter().map(axis).collect(),
        };
        let aliases: Vec<&str> = self.aliases.keys().map(String::as_str).collect();
        let aliases =
            if aliases.is_empty() { String::new() } else { format!("; aliases: {}", aliases.join(", ")) };
        format!("a problem is written like `{example}`{aliases}")
    }

    /// The problem with these fields.
    pub(crate) fn problem_from_fields(&self, fields: &toml::Table) -> Result<DeclaredProblem, Refusal> {
        let mut problem = PartialProblem {
            declaration: self,
            sizes: vec![None; self.sizes.len()],
            axes: vec![None; self.axes.len()],
        };
        for (name, value) in fields {
            let value = match value {
                toml::Value::Integer(number) => Value::Int(*number),
                toml::Value::Boolean(truth) => Value::Bool(*truth),
                toml::Value::String(text) => Value::Text(text.clone()),
                other => {
                    return Err(Refusal::new(format!(
                        "{name}: {other} is not a size or the value of an axis"
                    )));
                }
            };
            if !problem.set(name, &value) {
                let known = self.names().join(", ");
                return Err(Refusal::new(format!("`{name}` = {value} is not allowed"))
                    .hint(Some(format!("sizes and axes: {known}"))));
            }
        }
        problem.finish()
    }
}

/// A problem whose values are not all known yet.
struct PartialProblem<'d> {
    declaration: &'d Declaration,
    sizes: Vec<Option<i64>>,
    axes: Vec<Option<Value>>,
}

impl PartialProblem<'_> {
    /// Sets a value by name. False if there is no such size or axis, or if the axis has no such value.
    fn set(&mut self, name: &str, value: &Value) -> bool {
        if let Some(index) = self.declaration.sizes.iter().position(|size| size.name == name) {
            let Value::Int(number) = value else { return false };
            self.sizes[index] = Some(*number);
            return true;
        }
        let Some(index) = self.declaration.axes.iter().position(|axis| axis.name == name) else {
            return false;
        };
        let allowed = self.declaration.axes[index].values.contains(value);
        if allowed {
            self.axes[index] = Some(value.clone());
        }
        allowed
    }

    /// Takes one part of a name from the start of `rest`. Returns its length.
    fn take(&mut self, rest: &str) -> Option<Result<usize, Refusal>> {
        // The longest label first: one value may be the start of another (`bias`, `bias-gelu`).
        let mut best: Option<(usize, usize, Value)> = None;
        for (index, axis) in self.declaration.axes.iter().enumerate() {
            for value in &axis.values {
                let Some(label) = axis_label(axis, value) else { continue };
                let fits = rest
                    .strip_prefix(label.as_str())
                    .is_some_and(|after| after.is_empty() || after.starts_with('-'));
                if fits && best.as_ref().is_none_or(|(length, ..)| *length < label.len()) {
                    best = Some((label.len(), index, value.clone()));
                }
            }
        }
        if let Some((length, index, value)) = best {
            self.axes[index] = Some(value);
            return Some(Ok(length));
        }
        let part = rest.split('-').next().unwrap_or(rest);
        let split = part.find(|c: char| c.is_ascii_digit())?;
        // A name may contain digits, but it does not end in one.
        let split = part.rfind(|c: char| !c.is_ascii_digit()).map_or(split, |last| last + 1);
        let (name, digits) = part.split_at(split);
        let index = self.declaration.sizes.iter().position(|size| size.name == name)?;
        let Ok(number) = digits.parse::<i64>() else {
            return Some(Err(Refusal::new(format!("`{part}`: the size does not fit 64 bits"))));
        };
        self.sizes[index] = Some(number);
        Some(Ok(part.len()))
    }

    fn finish(self) -> Result<DeclaredProblem, Refusal> {
        let mut sizes = Vec::new();
        for (size, value) in self.declaration.sizes.iter().zip(&self.sizes) {
            let Some(value) = value.or(size.default) else {
                let hint = Some(self.declaration.example());
                return Err(Refusal::new(format!("the size {} is missing", size.name)).hint(hint));
            };
            if let Some(refusal) = size.refusal(value) {
                return Err(Refusal::new(refusal));
            }
            sizes.push((size.name.clone(), value));
        }
        let axes = self.declaration.axes.iter().zip(self.axes);
        let axes =
            axes.map(|(axis, value)| (axis.name.clone(), value.unwrap_or_else(|| axis.values[0].clone())));
        let problem = DeclaredProblem { sizes, axes: axes.collect() };
        self.declaration.check_bytes(&problem)?;
        Ok(problem)
    }
}
