//! Messages on the channel. The bytes of a buffer or module are the message's attachment; a message has at most one.

use serde::{Deserialize, Serialize};

use crate::accelerator::{AcceleratorError, Buffer, Geometry, ModuleId, Variable};

/// BLAKE3 of a buffer. Hashing takes less time than sending the bytes.
pub(super) type Digest = [u8; 32];

pub(super) fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// A request to the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum DeviceRequest {
    /// Opens the device again; earlier modules and buffers are freed.
    Open,
    Allocate {
        label: String,
        bytes: u64,
    },
    /// No reply; the next reply reports an error.
    Free(Buffer),
    /// No reply. The bytes are attached.
    Write(Buffer),
    /// No reply.
    Fill(Buffer, u32),
    Read(Buffer),
    /// Asks whether a buffer's contents have this digest.
    Holds(Buffer, Digest),
    Variables(ModuleId),
    /// No reply.
    World(u64),
    EncodeTensorMap(vgpu::TensorMap),
    /// The machine code is attached.
    LoadCubin,
    /// The PTX is attached.
    LoadPtx,
    Launch {
        module: ModuleId,
        kernel: String,
        geometry: Geometry,
        parameters: Vec<Vec<u8>>,
    },
}

impl DeviceRequest {
    /// Whether the server sends a reply.
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

/// The server's reply to a request.
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
