//! What goes over the channel. Bytes are the message's attachment, at most one.

use serde::{Deserialize, Serialize};

use crate::accelerator::{AcceleratorError, Buffer, Geometry, ModuleId, Variable};

/// BLAKE3 of bytes, which takes less time than sending them.
pub(super) type Digest = [u8; 32];

pub(super) fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// What is asked of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum DeviceRequest {
    /// The device as one that was just opened: what was loaded and allocated before is gone.
    Open,
    Allocate {
        label: String,
        bytes: u64,
    },
    /// Not answered: what is wrong with it, the next answer says.
    Free(Buffer),
    /// Not answered either. The bytes are attached.
    Write(Buffer),
    /// Nor is this.
    Fill(Buffer, u32),
    Read(Buffer),
    /// Whether a buffer's contents have this digest.
    Holds(Buffer, Digest),
    Variables(ModuleId),
    /// Not answered.
    World(u64),
    /// Machine code is attached.
    LoadCubin,
    /// Text is attached.
    LoadPtx,
    Launch {
        module: ModuleId,
        kernel: String,
        geometry: Geometry,
        parameters: Vec<Vec<u8>>,
    },
}

impl DeviceRequest {
    pub fn is_answered(&self) -> bool {
        !matches!(
            self,
            DeviceRequest::Free(_)
                | DeviceRequest::Write(_)
                | DeviceRequest::Fill(..)
                | DeviceRequest::World(_)
        )
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum DeviceReply {
    Opened {
        description: String,
    },
    Allocated(Buffer),
    /// The bytes are attached.
    Read,
    Holds(bool),
    Variables(Vec<Variable>),
    Loaded(ModuleId),
    Done,
    Failed(AcceleratorError),
}
