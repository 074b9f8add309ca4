//! The cache of builds: one file per build, named by its hash, written whole or not at all.
//!
//! A file is a line that says what it is, a line of JSON, then the PTX and the cubin. The JSON carries a
//! checksum of the rest; an entry that does not fit its checksum counts as absent and is written anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Build;
use crate::paths;

/// Changed whenever the format or the meaning of an entry changes; old entries are then not found.
pub const FORMAT: &str = "warpsmith build 2";

#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Header {
    ptx_bytes: usize,
    cubin_bytes: usize,
    checksum: String,
    build: Build,
}

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Cache { folder }
    }

    fn file(&self, hash: &str) -> PathBuf {
        self.folder.join(&hash[..2]).join(hash)
    }

    /// The build of that hash, if it is there and whole.
    pub fn load(&self, hash: &str) -> Option<Build> {
        let bytes = fs::read(self.file(hash)).ok()?;
        parse(&bytes).filter(|build| build.hash == hash)
    }

    pub fn store(&self, build: &Build) -> Result<(), (PathBuf, io::Error)> {
        let path = self.file(&build.hash);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        let payload = [build.ptx.as_bytes(), &build.cubin].concat();
        let header = Header {
            ptx_bytes: build.ptx.len(),
            cubin_bytes: build.cubin.len(),
            checksum: blake3::hash(&payload).to_hex().to_string(),
            build: build.clone(),
        };
        let json = serde_json::to_string(&header).map_err(io::Error::from).map_err(at(&path))?;
        let bytes = [format!("{FORMAT}\n{json}\n").as_bytes(), &payload].concat();
        paths::write_atomically(&path, &bytes).map_err(at(&path))
    }
}

fn parse(bytes: &[u8]) -> Option<Build> {
    let rest = bytes.strip_prefix(FORMAT.as_bytes())?.strip_prefix(b"\n")?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let (json, payload) = (&rest[..end], &rest[end + 1..]);
    let header: Header = serde_json::from_slice(json).ok()?;
    let whole = payload.len() == header.ptx_bytes.checked_add(header.cubin_bytes)?;
    if !whole || blake3::hash(payload).to_hex().as_str() != header.checksum {
        return None;
    }
    let (ptx, cubin) = payload.split_at(header.ptx_bytes);
    Some(Build { ptx: String::from_utf8(ptx.to_vec()).ok()?, cubin: cubin.to_vec(), ..header.build })
}
