//! The compile request of a candidate.

use chips::Target;
use compiler::{Request, Source, add_nvcc_macros};

use crate::candidate::{Candidate, SettingError};
use crate::catalog::FILE_FAMILY;
use crate::header;
use crate::manifest::Family;

impl Family {
    /// The compile request of the candidate: the family's source with its headers and the generated header.
    pub fn request(&self, candidate: &Candidate, target: Target) -> Result<Request, SettingError> {
        self.check_target(candidate, target)?;
        let generated = header::generate(self, candidate, &self.layout(candidate)?);
        let mut headers = self.headers.clone();
        headers.push((header::NAME.to_owned(), generated));
        let (name, text) = self.source.clone();
        let mut request = Request {
            source: Source { name, text, headers, ..Source::default() },
            target,
            options: Vec::new(),
        };
        // A single file was often written for nvcc, and `sanitize` compiles it as such.
        if self.name == FILE_FAMILY {
            add_nvcc_macros(&mut request);
        }
        Ok(request)
    }
}
