//! What goes over the channel. Bytes are the message's attachment, at most one.

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
    /// Not answered either. The bytes are attached.
    Write(Buffer),
    /// Nor is this.
    Fill(Buffer, u32),
    Read(Buffer),
    Variables(ModuleId),
    /// Not answered.
    World(u64),
    EncodeTensorMap(vgpu::TensorMap),
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
    /// The bytes are attached.
    Read,
    Variables(Vec<Variable>),
    Loaded(ModuleId),
    Done,
    Failed(AcceleratorError),
}
