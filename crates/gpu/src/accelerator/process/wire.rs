//! What goes over the socket: a header of JSON and, behind it, bytes as they are.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::accelerator::{AcceleratorError, Buffer, Geometry, ModuleId, Variable};

/// What is asked of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// The device as one that was just opened: what was loaded and allocated before is gone.
    Open,
    Allocate {
        label: String,
        bytes: u64,
    },
    /// Not answered: what is wrong with it, the next answer says.
    Free(Buffer),
    /// Not answered either. The bytes come behind it.
    Write(Buffer),
    /// Nor is this.
    Fill(Buffer, u32),
    Read(Buffer),
    Variables(ModuleId),
    /// Not answered.
    World(u64),
    /// Machine code is behind it.
    LoadCubin,
    /// Text is behind it.
    LoadPtx,
    Launch {
        module: ModuleId,
        kernel: String,
        geometry: Geometry,
        parameters: Vec<Vec<u8>>,
    },
}

impl Ask {
    pub fn is_answered(&self) -> bool {
        !matches!(self, Ask::Free(_) | Ask::Write(_) | Ask::Fill(..) | Ask::World(_))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Say {
    Opened {
        description: String,
    },
    Allocated(Buffer),
    /// The bytes are behind it.
    Read,
    Variables(Vec<Variable>),
    Loaded(ModuleId),
    Done,
    Failed(AcceleratorError),
}

/// Lengths of the header and of what is behind it.
const PREFIX: usize = 16;

pub(super) fn send(to: &mut impl Write, header: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let lengths = [header.len() as u64, bytes.len() as u64];
    let mut start = lengths.map(u64::to_le_bytes).concat();
    start.extend(header);
    to.write_all(&start)?;
    to.write_all(bytes)
}

pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix)?;
    let (lengths, _) = prefix.as_chunks::<8>();
    let mut part = |length: &[u8; 8]| {
        let mut bytes = vec![0; u64::from_le_bytes(*length) as usize];
        from.read_exact(&mut bytes).map(|()| bytes)
    };
    let header = part(&lengths[0])?;
    let bytes = part(&lengths[1])?;
    Ok((serde_json::from_slice(&header)?, bytes))
}
