//! The arrays of an op: inputs with fixed contents, and expected outputs.

use op::Refusal;

use crate::declaration::{Argument, Declaration, Kind, ReferenceSource};
use crate::file_array::{FileArray, Numbers};
use crate::problem::DeclaredProblem;

/// Arrays that the command line names, read.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    pub inputs: Vec<(String, FileArray)>,
    pub expected: Vec<(String, FileArray)>,
}

impl Declaration {
    /// Whether the contents of an argument come from a file, so that the op has only one problem.
    pub fn has_files(&self) -> bool {
        self.arguments.iter().any(|argument| argument.contents.is_some() || argument.expected.is_some())
    }

    /// Whether all inputs come from files, so that the op has only one set of inputs.
    pub fn has_fixed_inputs(&self) -> bool {
        let mut inputs = self.inputs().peekable();
        inputs.peek().is_some() && inputs.all(|argument| argument.contents.is_some())
    }

    /// Replaces contents and expected outputs by those of the command line.
    pub fn set_arrays(&mut self, arrays: Arrays) -> Result<(), Refusal> {
        for (flag, is_expected, named) in
            [("--input", false, arrays.inputs), ("--expect", true, arrays.expected)]
        {
            if is_expected && !named.is_empty() {
                // The files replace the reference.
                self.reference = ReferenceSource::Files;
            }
            for (name, array) in named {
                let fits = |argument: &Argument| {
                    if is_expected { argument.kind.is_written() } else { argument.kind.is_read() }
                };
                let known: Vec<String> =
                    self.arguments.iter().filter(|it| fits(it)).map(|it| it.name.clone()).collect();
                let Some(argument) = self.arguments.iter_mut().find(|it| fits(it) && it.name == name) else {
                    let what = if is_expected { "output" } else { "input" };
                    return Err(Refusal::new(format!("{flag} {name}: the op has no {what} `{name}`"))
                        .hint(Some(format!("{what}s: {}", known.join(", ")))));
                };
                if is_expected {
                    argument.expected = Some(array);
                } else {
                    argument.contents = Some(array);
                }
            }
        }
        Ok(())
    }

    /// Refuses files that are no complete reference, or that fit no problem.
    pub fn check_arrays(&self) -> Result<(), Refusal> {
        if self.reference == ReferenceSource::Files {
            let missing = self.outputs().find(|output| output.expected.is_none());
            if let Some(output) = missing {
                let name = &output.name;
                return Err(Refusal::new(format!(
                    "there is no reference, and no file with the expected values of {name}"
                ))
                .hint(Some(format!(
                    "add `reference = \"file.py:function\"`, or name a file: --expect {name}={name}.npy"
                ))));
            }
            if let Some(input) = self.inputs().find(|input| input.contents.is_none()) {
                let name = &input.name;
                return Err(Refusal::new(format!(
                    "the expected outputs come from files, so {name} must come from a file, too"
                ))
                .hint(Some(format!("name its file: --input {name}={name}.npy"))));
            }
        }
        if self.has_files() { self.problem_of_files().map(drop) } else { Ok(()) }
    }

    /// The problem that the files fit: a size that is an extent by itself has the extent of the file.
    pub fn problem_of_files(&self) -> Result<DeclaredProblem, Refusal> {
        let mut fields = toml::Table::new();
        for argument in &self.arguments {
            for file in argument.contents.iter().chain(&argument.expected) {
                for (extent, &length) in argument.shape.iter().zip(file.dims()) {
                    let name = extent.text().trim();
                    if self.sizes.iter().any(|size| size.name == name) {
                        fields.entry(name).or_insert_with(|| {
                            toml::Value::Integer(i64::try_from(length).unwrap_or(i64::MAX))
                        });
                    }
                }
            }
        }
        let problem = self.problem_from_fields(&fields)?;
        self.check_files(&problem)?;
        Ok(problem)
    }

    /// Refuses a problem that the files do not fit.
    pub fn check_files(&self, problem: &DeclaredProblem) -> Result<(), Refusal> {
        for argument in self.arguments.iter().filter(|argument| argument.kind != Kind::Scalar) {
            let dtype = self.dtype(argument.dtype, problem);
            let dims = self.shape(argument, problem)?;
            if let Some(file) = &argument.contents {
                file.elements(&argument.name, dtype, &dims)?;
            }
            if let Some(file) = &argument.expected {
                file.numbers(&argument.name, dtype, &dims)?;
            }
        }
        Ok(())
    }

    /// The expected outputs, from the files.
    pub fn expected_values(&self, problem: &DeclaredProblem) -> Result<Vec<Numbers>, Refusal> {
        let values = self.outputs().map(|output| {
            let dtype = self.dtype(output.dtype, problem);
            let dims = self.shape(output, problem)?;
            let file = output.expected.as_ref();
            let file = file.ok_or_else(|| Refusal::new(format!("{} has no expected values", output.name)))?;
            file.numbers(&output.name, dtype, &dims)
        });
        values.collect()
    }
}
