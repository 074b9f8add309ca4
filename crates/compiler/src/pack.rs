//! A pack: compiled kernels in one file, for programs that run where there is no compiler.
//!
//! The file has a line that names the format, a line of JSON with the key and the size of each cubin, and then the
//! cubins.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Request;
use super::compiler::request_hash;

const FORMAT: &[u8] = b"warpsmith pack 1\n";

/// Compiled kernels, found by what they were compiled from.
#[derive(Clone)]
pub struct Pack {
    bytes: std::borrow::Cow<'static, [u8]>,
    cubins: HashMap<String, Range<usize>>,
}

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pack({} kernels, {} bytes)", self.cubins.len(), self.bytes.len())
    }
}

/// The bytes are not a pack; contains the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a pack of kernels: {0}")]
pub struct PackError(String);

#[derive(Serialize, Deserialize)]
struct Member {
    key: String,
    bytes: usize,
}

impl Pack {
    /// The key of a kernel in a pack: a hash of its source, options and target, without the compiler's version.
    pub fn key(request: &Request) -> String {
        request_hash(request, "", true)
    }

    /// The bytes of a pack with these cubins, each with its key.
    pub fn bytes(cubins: &[(String, Vec<u8>)]) -> Vec<u8> {
        let member = |(key, cubin): &(String, Vec<u8>)| Member { key: key.clone(), bytes: cubin.len() };
        let members: Vec<Member> = cubins.iter().map(member).collect();
        // Strings and numbers always have a JSON form.
        let header = serde_json::to_vec(&members).unwrap_or_default();
        let contents = cubins.iter().flat_map(|(_, cubin)| cubin.iter().copied());
        FORMAT.iter().copied().chain(header).chain(*b"\n").chain(contents).collect()
    }

    /// Reads a pack.
    pub fn read(bytes: impl Into<std::borrow::Cow<'static, [u8]>>) -> Result<Self, PackError> {
        let bytes = bytes.into();
        let wrong = |reason: &str| PackError(reason.to_owned());
        let rest =
            bytes.strip_prefix(FORMAT).ok_or_else(|| wrong("its first line is not `warpsmith pack 1`"))?;
        let end =
            rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| wrong("it ends in its header"))?;
        let members: Vec<Member> = serde_json::from_slice(&rest[..end])
            .map_err(|error| PackError(format!("its header: {error}")))?;
        let mut at = FORMAT.len() + end + 1;
        let mut cubins = HashMap::new();
        for Member { key, bytes: length } in members {
            let next = at.checked_add(length).filter(|next| *next <= bytes.len());
            let next = next.ok_or_else(|| wrong("it is shorter than its header says"))?;
            cubins.insert(key, at..next);
            at = next;
        }
        if at != bytes.len() {
            return Err(wrong("it is longer than its header says"));
        }
        Ok(Pack { bytes, cubins })
    }

    /// The machine code with this key.
    pub fn cubin(&self, key: &str) -> Option<&[u8]> {
        self.cubins.get(key).map(|range| &self.bytes[range.clone()])
    }

    /// Number of kernels.
    pub fn len(&self) -> usize {
        self.cubins.len()
    }

    /// Whether the pack has no kernel.
    pub fn is_empty(&self) -> bool {
        self.cubins.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_has_its_cubins_and_a_damaged_one_is_refused() {
        let bytes = Pack::bytes(&[("a".to_owned(), vec![1, 2, 3]), ("b".to_owned(), vec![10])]);
        let pack = Pack::read(bytes.clone()).expect("a pack");
        assert_eq!(
            (pack.cubin("a"), pack.cubin("b"), pack.cubin("c")),
            (Some(&[1, 2, 3][..]), Some(&[10][..]), None)
        );
        assert_eq!(pack.len(), 2);
        for length in 0..bytes.len() {
            assert!(Pack::read(bytes[..length].to_vec()).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(
            Pack::read(longer).unwrap_err().to_string(),
            "this is not a pack of kernels: it is longer than its header says"
        );
    }
}
