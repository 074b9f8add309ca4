//! Textures: the description of a texture object, and how a fetch reads it.
//!
//! A [`Texture`] says what `cudaCreateTextureObject` is told: the element type, the extents, and how coordinates become
//! texels. The texels are in a buffer of the device, packed, with x innermost. `sample.rs` computes which texels a fetch
//! reads and with which weights; `exec/texture.rs` reads them.

pub(crate) mod sample;
#[cfg(test)]
mod tests;
mod texel;

/// The type of one channel of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// IEEE single precision.
    F32,
    /// IEEE half precision. A fetch returns it as `f32`.
    F16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
}

impl Channel {
    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Channel::I8 | Channel::U8 => 1,
            Channel::F16 | Channel::I16 | Channel::U16 => 2,
            Channel::F32 | Channel::I32 | Channel::U32 => 4,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Channel::F32 | Channel::F16)
    }
}

/// The dimensions of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One dimension.
    D1,
    /// Two dimensions.
    D2,
    /// Three dimensions.
    D3,
    /// Layers of one dimension each.
    Layered1,
    /// Layers of two dimensions each.
    Layered2,
}

impl Shape {
    /// Number of dimensions that have a coordinate, without the layer.
    pub(crate) fn rank(self) -> usize {
        match self {
            Shape::D1 | Shape::Layered1 => 1,
            Shape::D2 | Shape::Layered2 => 2,
            Shape::D3 => 3,
        }
    }

    pub(crate) fn is_layered(self) -> bool {
        matches!(self, Shape::Layered1 | Shape::Layered2)
    }

    /// The shape in words, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::D1 => "1D",
            Shape::D2 => "2D",
            Shape::D3 => "3D",
            Shape::Layered1 => "layered 1D",
            Shape::Layered2 => "layered 2D",
        }
    }
}

/// How a fetch combines texels (`cudaTextureFilterMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The texel that contains the coordinates.
    #[default]
    Point,
    /// The weighted mean of the nearest 2, 4 or 8 texels.
    Linear,
}

/// What a fetch outside the texture reads (`cudaTextureAddressMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// The nearest texel inside.
    #[default]
    Clamp,
    /// Zero.
    Border,
    /// The texture repeats. Needs normalised coordinates.
    Wrap,
    /// The texture repeats, every second time mirrored. Needs normalised coordinates.
    Mirror,
}

/// What a fetch of an integer returns (`cudaTextureReadMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Read {
    /// The integer.
    #[default]
    Element,
    /// A float from 0 to 1, or from -1 to 1 if the integers are signed.
    NormalisedFloat,
}

/// A texture object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// The dimensions.
    pub shape: Shape,
    /// Width, height and depth in texels. The extents of dimensions that the shape lacks are 1. The layers of a layered
    /// texture are the last extent.
    pub extents: [u32; 3],
    /// The type of a channel.
    pub channel: Channel,
    /// Number of channels: 1, 2 or 4.
    pub channels: u8,
    /// How texels are combined.
    pub filter: Filter,
    /// What is outside the texture, in every dimension.
    pub address: Address,
    /// What a fetch of an integer returns.
    pub read: Read,
    /// Whether coordinates run from 0 to 1.
    pub normalised: bool,
}

/// Why CUDA has no such texture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextureError {
    /// The number of channels is not 1, 2 or 4.
    #[error("a texture has 1, 2 or 4 channels, not {0}")]
    Channels(u8),
    /// An extent is 0 or larger than CUDA allows.
    #[error("a {shape} texture may have {limit}, and no extent may be 0")]
    Extents {
        /// The shape in words.
        shape: &'static str,
        /// The largest extents in words.
        limit: &'static str,
    },
    /// Linear filtering of values that are not floats.
    #[error(
        "linear filtering needs f32 or f16 elements, or integers of 8 or 16 bits that are read as floats"
    )]
    LinearIntegers,
    /// Elements that cannot be read as normalised floats.
    #[error("only integers of 8 and 16 bits can be read as normalised floats")]
    NormalisedRead,
    /// The address mode needs normalised coordinates.
    #[error("address modes wrap and mirror need normalised coordinates; without them CUDA uses clamp")]
    Unnormalised,
    /// The buffer does not have the size of the texels.
    #[error("the texture has {wanted} bytes, but its buffer has {given}")]
    Buffer {
        /// Bytes of all texels.
        wanted: u64,
        /// Bytes of the buffer.
        given: u64,
    },
    /// The buffer is not on the device.
    #[error(transparent)]
    Memory(#[from] crate::MemoryError),
}

impl Texture {
    /// A texture with CUDA's defaults: point filter, clamp, unnormalised coordinates, elements as they are.
    pub fn new(shape: Shape, extents: [u32; 3], channel: Channel, channels: u8) -> Texture {
        Texture {
            shape,
            extents,
            channel,
            channels,
            filter: Filter::default(),
            address: Address::default(),
            read: Read::default(),
            normalised: false,
        }
    }

    /// Bytes of one texel.
    pub fn texel_bytes(&self) -> u64 {
        self.channel.bytes() * u64::from(self.channels)
    }

    /// Bytes of all texels.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().fold(self.texel_bytes(), |bytes, extent| bytes.saturating_mul(u64::from(*extent)))
    }

    /// Whether a fetch returns floats.
    pub(crate) fn returns_floats(&self) -> bool {
        self.channel.is_float() || self.read == Read::NormalisedFloat
    }

    /// Checks the rules of `cudaCreateTextureObject`.
    pub fn validate(&self) -> Result<(), TextureError> {
        if !matches!(self.channels, 1 | 2 | 4) {
            return Err(TextureError::Channels(self.channels));
        }
        // The limits of compute capability 7.5 and later. A texture of one dimension may be in linear memory.
        let (most, limit) = match self.shape {
            Shape::D1 => ([1 << 28, 1, 1], "268435456 texels"),
            Shape::D2 => ([131_072, 65_536, 1], "131072 x 65536 texels"),
            Shape::D3 => ([16_384; 3], "16384 texels in each dimension"),
            Shape::Layered1 => ([32_768, 1, 2_048], "32768 texels in each of 2048 layers"),
            Shape::Layered2 => ([32_768, 32_768, 2_048], "32768 x 32768 texels in each of 2048 layers"),
        };
        if self.extents.iter().zip(most).any(|(extent, most)| !(1..=most).contains(extent)) {
            return Err(TextureError::Extents { shape: self.shape.name(), limit });
        }
        let narrow_integer = !self.channel.is_float() && self.channel.bytes() < 4;
        if self.read == Read::NormalisedFloat && !narrow_integer {
            return Err(TextureError::NormalisedRead);
        }
        if self.filter == Filter::Linear && !self.returns_floats() {
            return Err(TextureError::LinearIntegers);
        }
        if matches!(self.address, Address::Wrap | Address::Mirror) && !self.normalised {
            return Err(TextureError::Unnormalised);
        }
        Ok(())
    }
}
