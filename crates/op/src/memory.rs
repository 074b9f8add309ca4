//! A run's buffers on a device: filled, guarded on both sides where the device does not guard them itself, and given
//! back at the end.

use gpu::accelerator::{Accelerator, AcceleratorError, Buffer};
use serde::Serialize;

/// What guard bands hold. Not zero, not ones, not the poison: no kernel writes it by chance for long.
const PATTERN: u8 = 0xb9;

/// A write outside every buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trespass {
    /// The nearest buffer.
    pub buffer: &'static str,
    /// The first byte that changed, counted from the buffer's start: negative before it, or from its end on.
    pub offset: i64,
    /// How many bytes of the band changed.
    pub bytes: usize,
}

/// A buffer with its bands.
#[derive(Debug)]
struct Guarded {
    name: &'static str,
    whole: Buffer,
    inner: Buffer,
}

/// The buffers of one run.
#[derive(Debug)]
pub(crate) struct Memory {
    band: u64,
    buffers: Vec<Guarded>,
}

impl Memory {
    /// `band`: bytes of guard on either side of every buffer.
    pub fn new(band: u64) -> Self {
        Memory { band, buffers: Vec::new() }
    }

    /// A buffer that holds `contents`.
    pub fn place(
        &mut self,
        device: &mut dyn Accelerator,
        name: &'static str,
        contents: &[u8],
    ) -> Result<Buffer, AcceleratorError> {
        let inner = self.reserve(device, name, contents.len() as u64)?;
        device.write(inner, contents)?;
        Ok(inner)
    }

    /// A buffer whose contents do not matter.
    pub fn reserve(
        &mut self,
        device: &mut dyn Accelerator,
        name: &'static str,
        bytes: u64,
    ) -> Result<Buffer, AcceleratorError> {
        let whole = device.allocate(name, bytes + 2 * self.band)?;
        let inner = Buffer { address: whole.address + self.band, bytes };
        // Noted before anything else can fail, so that it is given back.
        self.buffers.push(Guarded { name, whole, inner });
        if self.band > 0 {
            let band = vec![PATTERN; self.band as usize];
            for side in self.bands(whole, inner) {
                device.write(side, &band)?;
            }
        }
        Ok(inner)
    }

    fn bands(&self, whole: Buffer, inner: Buffer) -> [Buffer; 2] {
        [whole.address, inner.address + inner.bytes].map(|address| Buffer { address, bytes: self.band })
    }

    /// Looks for writes into the bands.
    pub fn trespasses(&self, device: &mut dyn Accelerator) -> Result<Vec<Trespass>, AcceleratorError> {
        let mut found = Vec::new();
        if self.band == 0 {
            return Ok(found);
        }
        for guarded in &self.buffers {
            for side in self.bands(guarded.whole, guarded.inner) {
                let band = device.read(side)?;
                if let Some(first) = band.iter().position(|&byte| byte != PATTERN) {
                    found.push(Trespass {
                        buffer: guarded.name,
                        offset: (side.address + first as u64)
                            .wrapping_sub(guarded.inner.address)
                            .cast_signed(),
                        bytes: band.iter().filter(|&&byte| byte != PATTERN).count(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Gives every buffer back.
    pub fn release(self, device: &mut dyn Accelerator) {
        for guarded in self.buffers {
            // A device that refuses is broken by what went before, and that is what will be reported.
            let _ = device.free(guarded.whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use chips::Chip;
    use gpu::accelerator::VirtualDevice;

    use super::*;

    #[test]
    fn a_write_beside_a_buffer_is_seen_from_either_side() {
        let mut device = VirtualDevice::new(Chip::by_name("h200").expect("in the table"));
        let mut memory = Memory::new(64);
        let buffer = memory.place(&mut device, "q", &[7; 10]).expect("room");
        memory.reserve(&mut device, "o", 5).expect("room");
        assert_eq!(memory.trespasses(&mut device), Ok(Vec::new()));
        assert_eq!(device.read(buffer), Ok(vec![7; 10]));
        let beside = |offset: i64| Buffer { address: buffer.address.wrapping_add_signed(offset), bytes: 2 };
        device.write(beside(10), &[0, 0]).expect("inside the allocation");
        device.write(beside(-3), &[0, 0]).expect("inside the allocation");
        let trespass = |offset| Trespass { buffer: "q", offset, bytes: 2 };
        assert_eq!(memory.trespasses(&mut device), Ok(vec![trespass(-3), trespass(10)]));
        memory.release(&mut device);
        assert!(device.read(buffer).is_err());
    }
}
