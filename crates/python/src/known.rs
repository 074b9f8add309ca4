//! Known findings: a file of rules that one launch or many share.

use std::path::PathBuf;

use pyo3::prelude::*;
use sanitize::Suppressions;

use crate::UsageError;

/// The rules of a file, and what they matched.
#[pyclass(frozen, module = "warpsmith._native")]
#[derive(Debug)]
pub struct KnownFindings(pub Suppressions);

#[pymethods]
impl KnownFindings {
    #[new]
    fn new(file: PathBuf) -> PyResult<Self> {
        // Every launch gives its own sources.
        let rules = Suppressions::read(&file, |_| None);
        rules.map(KnownFindings).map_err(|error| UsageError::new_err(format!("suppressions: {error}")))
    }

    /// For every rule: how many findings it matched, and what it did in one sentence.
    fn uses(&self) -> Vec<(u64, String)> {
        self.0.uses().iter().map(|it| (it.matched, it.text())).collect()
    }
}
