//! The compile request of a candidate.

use chips::Target;
use compiler::{Request, Source};

use crate::candidate::{Candidate, SettingError};
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
        Ok(Request {
            source: Source { name, text, headers, ..Source::default() },
            target,
            options: Vec::new(),
        })
    }
}
