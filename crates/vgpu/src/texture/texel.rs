//! The values of a texel.

use super::{Channel, Read, Texture};
use crate::num::codec;

impl Texture {
    /// The value of a channel from its bytes, as a float. 32-bit integers keep their value, not their bits.
    fn float(&self, bytes: &[u8]) -> f64 {
        let integer = f64::from(self.integer(bytes));
        match (self.channel, self.read) {
            (Channel::F32, _) => f64::from(f32::from_le_bytes(word(bytes))),
            (Channel::F16, _) => f64::from(codec::f16_to_f32(u32::from_le_bytes(word(bytes)))),
            (Channel::U8, Read::NormalisedFloat) => integer / 255.0,
            (Channel::U16, Read::NormalisedFloat) => integer / 65535.0,
            // Both of the most negative integers are -1.
            (Channel::I8, Read::NormalisedFloat) => (integer / 127.0).max(-1.0),
            (Channel::I16, Read::NormalisedFloat) => (integer / 32767.0).max(-1.0),
            _ => integer,
        }
    }

    /// The integer of a channel, extended to 32 bits.
    fn integer(&self, bytes: &[u8]) -> i32 {
        let word = i32::from_le_bytes(word(bytes));
        match self.channel {
            Channel::I8 => i32::from(word as i8),
            Channel::I16 => i32::from(word as i16),
            _ => word,
        }
    }

    /// The channels of a texel as floats. Channels that the texture lacks are 0, and the last one is 1.
    pub(crate) fn floats(&self, texel: &[u8]) -> [f64; 4] {
        self.channels_of(texel, [0.0, 0.0, 0.0, 1.0], Self::float)
    }

    /// The channels of a texel as integers. Channels that the texture lacks are 0, and the last one is 1.
    pub(crate) fn integers(&self, texel: &[u8]) -> [u32; 4] {
        self.channels_of(texel, [0, 0, 0, 1], |texture, bytes| texture.integer(bytes) as u32)
    }

    fn channels_of<T: Copy>(&self, texel: &[u8], missing: [T; 4], read: fn(&Self, &[u8]) -> T) -> [T; 4] {
        let mut values = missing;
        for (value, bytes) in values.iter_mut().zip(texel.chunks_exact(self.channel.bytes() as usize)) {
            *value = read(self, bytes);
        }
        values
    }
}

/// Up to four bytes as a little-endian word.
fn word(bytes: &[u8]) -> [u8; 4] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}
