//! The compile request of a candidate.

use std::collections::HashSet;

use chips::Target;
use compiler::{Request, Source, included_names, prepare_nvcc_source, standard_headers};

use crate::candidate::{Candidate, SettingError};
use crate::header;
use crate::manifest::Family;

impl Family {
    /// The compile request of the candidate: the family's source with its headers and the generated header.
    pub fn request(&self, candidate: &Candidate, target: Target) -> Result<Request, SettingError> {
        self.check_target(candidate, target)?;
        let generated = header::generate(self, candidate, &self.layout(candidate)?);
        let mut headers = self.headers.clone();
        // NVRTC has no standard headers. Only those that are named are given, so that other builds keep their hash.
        let texts = self.headers.iter().map(|(_, text)| text).chain([&self.source.1]);
        let named: HashSet<&str> = texts.flat_map(|text| included_names(text)).collect();
        let is_own = |name: &str| self.headers.iter().any(|(known, _)| known == name);
        let standard = standard_headers().into_iter();
        headers.extend(standard.filter(|(name, _)| named.contains(name.as_str()) && !is_own(name)));
        headers.push((header::NAME.to_owned(), generated));
        let (name, text) = self.source.clone();
        let mut request = Request {
            source: Source { name, text, headers, ..Source::default() },
            target,
            options: Vec::new(),
        };
        // A single file was often written for nvcc, and `sanitize` compiles it as such.
        if self.is_single_file {
            prepare_nvcc_source(&mut request);
        }
        Ok(request)
    }
}
