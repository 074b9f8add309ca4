//! Types, shapes and sizes of the arguments of a problem.

use family::{EvalError, Value};
use launch::Dtype;
use op::{Refusal, Work};

use crate::declaration::{Argument, Declaration, ElementType, ScalarValue, dtype};
use crate::problem::DeclaredProblem;

/// Largest total size of all arguments in bytes: the memory of the largest GPUs.
const MOST_BYTES: u64 = 256 << 30;

/// The error of an expression that cannot be evaluated for a problem.
pub(crate) fn refused(error: &EvalError) -> Refusal {
    Refusal::new(format!("op.toml: {error}"))
}

impl Declaration {
    /// The element type of an argument in a problem.
    pub fn dtype(&self, element: ElementType, problem: &DeclaredProblem) -> Dtype {
        match element {
            ElementType::Fixed(dtype) => dtype,
            ElementType::Axis(index) => {
                // The reader has checked that every value of the axis is a type.
                dtype(&problem.axes[index].1.to_string()).unwrap_or(Dtype::F32)
            }
            ElementType::Mapped(index, types) => {
                let value = &problem.axes[index].1;
                let position = self.axes[index].values.iter().position(|known| known == value);
                // The reader has checked that every value of the axis has a type.
                position.and_then(|position| types[position]).unwrap_or(Dtype::F32)
            }
        }
    }

    /// The extents of a tensor in a problem.
    pub fn shape(&self, argument: &Argument, problem: &DeclaredProblem) -> Result<Vec<usize>, Refusal> {
        let scope = problem.scope();
        let extent = |expression: &family::Expression| {
            let extent = expression.size(&scope).map_err(|error| refused(&error))?;
            if extent == 0 {
                let (name, text) = (&argument.name, expression.text());
                return Err(Refusal::new(format!(
                    "the argument {name} is empty: `{text}` is 0 for {problem}"
                )));
            }
            Ok(extent as usize)
        };
        argument.shape.iter().map(extent).collect()
    }

    /// Size of a tensor in bytes.
    pub fn bytes(&self, argument: &Argument, problem: &DeclaredProblem) -> Result<u64, Refusal> {
        let elements = self.shape(argument, problem)?;
        let too_large = || Refusal::new(format!("the argument {} of {problem} is too large", argument.name));
        let elements = elements.into_iter().try_fold(1_u64, |all, extent| all.checked_mul(extent as u64));
        let bytes =
            elements.and_then(|all| all.checked_mul(self.dtype(argument.dtype, problem).bytes() as u64));
        bytes.filter(|bytes| *bytes <= MOST_BYTES).ok_or_else(too_large)
    }

    /// Refuses a problem whose shapes cannot be computed or whose tensors are too large.
    pub fn check_bytes(&self, problem: &DeclaredProblem) -> Result<(), Refusal> {
        let mut total = 0_u64;
        for argument in self.arguments.iter().filter(|argument| !argument.shape.is_empty()) {
            total += self.bytes(argument, problem)?;
        }
        if total > MOST_BYTES {
            return Err(Refusal::new(format!(
                "the arguments of {problem} have {total} bytes; at most {MOST_BYTES} are allowed"
            )));
        }
        for argument in &self.arguments {
            if let ScalarValue::Expression(expression) = &argument.value {
                expression.integer(&problem.scope()).map_err(|error| refused(&error))?;
            }
        }
        self.work.flops.size(&problem.scope()).map_err(|error| refused(&error))?;
        if let Some(bytes) = &self.work.bytes {
            bytes.size(&problem.scope()).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// The work of a problem. [`Declaration::check_bytes`] has evaluated the same expressions.
    pub fn work(&self, problem: &DeclaredProblem) -> Work {
        let scope = problem.scope();
        let flops = self.work.flops.size(&scope).unwrap_or(1) as f64;
        let traffic = |argument: &Argument| {
            let times = u64::from(argument.kind.is_read()) + u64::from(argument.kind.is_written());
            times * self.bytes(argument, problem).unwrap_or(0)
        };
        let tensors = || self.arguments.iter().filter(|argument| !argument.shape.is_empty());
        let bytes = self.work.bytes.as_ref().and_then(|bytes| bytes.size(&scope).ok());
        let bytes = bytes.unwrap_or_else(|| tensors().map(traffic).sum());
        Work { flops, bytes }
    }

    /// The value of a scalar as a number.
    pub fn scalar(&self, argument: &Argument, problem: &DeclaredProblem) -> f64 {
        match &argument.value {
            ScalarValue::Number(number) => *number,
            ScalarValue::Expression(expression) => {
                expression.integer(&problem.scope()).map_or(0.0, |value| value as f64)
            }
        }
    }

    /// The length of the longest sum.
    pub fn reduction(&self, problem: &DeclaredProblem) -> f64 {
        let length = self.reduction.as_ref().and_then(|length| length.size(&problem.scope()).ok());
        length.unwrap_or(1).max(1) as f64
    }

    /// The value of an axis or a size with this name.
    pub fn value(&self, name: &str, problem: &DeclaredProblem) -> Option<Value> {
        problem.size(name).map(Value::Int).or_else(|| problem.axis(name).cloned())
    }
}
