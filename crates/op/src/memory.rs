//! A run's buffers on a device: filled, guarded on both sides where the device does not guard them itself, and given
//! back at the end.

use std::ops::Range;

use gpu::accelerator::{Accelerator, AcceleratorError, Buffer};
use serde::Serialize;

/// What guard bands hold. Not zero, not ones, not the poison: no kernel writes it by chance for long.
const PATTERN: u8 = 0xb9;
const PATTERN_WORD: u32 = u32::from_ne_bytes([PATTERN; 4]);

/// A write outside every buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StrayWrite {
    /// The nearest buffer.
    pub buffer: &'static str,
    /// The first byte that changed, counted from the buffer's start: negative before it, or from its end on.
    pub offset: i64,
    /// How many bytes of the band changed.
    pub bytes: usize,
}

/// Up to this much of memory is one allocation, written and read as one: small problems take longer to be handed over
/// than to be computed. Larger ones, and all that is worth timing is larger, have their buffers apart, as programs do.
const TOGETHER: u64 = 1 << 20;
/// What allocations are aligned to, at least.
const ALIGNMENT: u64 = 256;
/// What the driver maps memory in. The part of the last piece that an allocation leaves over can be written without a
/// fault, so guarded allocations fill whole pieces. What is left over is the far band of the last buffer.
const MAPPED: u64 = 2 << 20;

/// A buffer to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferItem<'a> {
    pub name: &'static str,
    pub contents: Contents<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents<'a> {
    These(&'a [u8]),
    /// That many bytes, whose contents do not matter.
    Any(u64),
}

impl Contents<'_> {
    fn bytes(self) -> u64 {
        match self {
            Contents::These(bytes) => bytes.len() as u64,
            Contents::Any(bytes) => bytes,
        }
    }
}

/// A buffer with its bands.
#[derive(Debug)]
struct GuardedBuffer {
    name: &'static str,
    before: Buffer,
    inner: Buffer,
    after: Buffer,
    /// What is left over of the allocation behind them. It is large, so it is looked at once and not after every launch.
    far: Buffer,
}

impl GuardedBuffer {
    /// From `address` on, with bands of so many bytes before and after it.
    fn new(name: &'static str, address: u64, (before, after): (u64, u64), bytes: u64) -> Self {
        let before = Buffer { address, bytes: before };
        let inner = Buffer { address: end(before), bytes };
        let after = Buffer { address: end(inner), bytes: after };
        GuardedBuffer { name, before, inner, after, far: Buffer { address: end(after), bytes: 0 } }
    }
}

impl GuardedBuffer {
    /// The write into one of its bands, which holds these bytes now.
    fn trespass(&self, band: Buffer, bytes: &[u8]) -> Option<StrayWrite> {
        let first = bytes.iter().position(|&byte| byte != PATTERN)?;
        Some(StrayWrite {
            buffer: self.name,
            offset: (band.address + first as u64).wrapping_sub(self.inner.address).cast_signed(),
            bytes: bytes.iter().filter(|&&byte| byte != PATTERN).count(),
        })
    }
}

/// Where buffers are put.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement {
    /// Bytes of guard on either side of every buffer; 0 where the device guards them itself.
    pub band: u64,
    /// Bytes every buffer starts later than it would: other addresses for the same buffers. A multiple of 256.
    pub shift: u64,
}

fn end(buffer: Buffer) -> u64 {
    buffer.address + buffer.bytes
}

/// The buffers of one run.
#[derive(Debug)]
pub(crate) struct Memory {
    allocations: Vec<Buffer>,
    buffers: Vec<GuardedBuffer>,
    /// Where all buffers are in the one allocation there is: the part of it that they take, with their bands.
    together: Option<Buffer>,
}

impl Memory {
    /// Places buffers on a device.
    pub fn new(
        device: &mut dyn Accelerator,
        placement: Placement,
        items: &[BufferItem<'_>],
    ) -> Result<Self, AcceleratorError> {
        let Placement { band, shift } = placement;
        let room = |item: &BufferItem<'_>| (item.contents.bytes() + 2 * band).next_multiple_of(ALIGNMENT);
        let total: u64 = shift + items.iter().map(room).sum::<u64>();
        // Without bands the device itself tells buffers apart, so they must be.
        let mut memory = Memory { allocations: Vec::new(), buffers: Vec::new(), together: None };
        let placed = if band > 0 && total <= TOGETHER {
            memory.place_together(device, placement, items, total)
        } else {
            items.iter().try_for_each(|item| memory.place_apart(device, placement, item))
        };
        match placed {
            Ok(()) => Ok(memory),
            Err(error) => {
                memory.release(device);
                Err(error)
            }
        }
    }

    fn place_together(
        &mut self,
        device: &mut dyn Accelerator,
        Placement { band, shift }: Placement,
        items: &[BufferItem<'_>],
        total: u64,
    ) -> Result<(), AcceleratorError> {
        let allocation = device.allocate("buffers", total.next_multiple_of(MAPPED))?;
        self.allocations.push(allocation);
        let whole = Buffer { bytes: total, ..allocation };
        self.together = Some(whole);
        let mut image = vec![PATTERN; total as usize];
        let mut address = whole.address;
        for (index, BufferItem { name, contents }) in items.iter().enumerate() {
            let first = if index == 0 { shift } else { 0 };
            let mut guarded = GuardedBuffer::new(name, address, (band + first, band), contents.bytes());
            if let Contents::These(bytes) = contents {
                image[within(whole, guarded.inner)].copy_from_slice(bytes);
            }
            // Up to the next buffer.
            address = end(guarded.after).next_multiple_of(ALIGNMENT);
            guarded.after.bytes = address - guarded.after.address;
            if index + 1 == items.len() {
                guarded.far = Buffer { address, bytes: end(allocation) - address };
                device.fill(guarded.far, PATTERN_WORD)?;
            }
            self.buffers.push(guarded);
        }
        device.write(whole, &image)
    }

    fn place_apart(
        &mut self,
        device: &mut dyn Accelerator,
        Placement { band, shift }: Placement,
        item: &BufferItem<'_>,
    ) -> Result<(), AcceleratorError> {
        let bytes = item.contents.bytes();
        let (before, total) = match band {
            0 => (0, bytes),
            _ => (band + shift, (bytes + 2 * band + shift).next_multiple_of(MAPPED)),
        };
        let whole = device.allocate(item.name, total)?;
        // Noted before anything else can fail, so that it is given back.
        self.allocations.push(whole);
        let mut guarded = GuardedBuffer::new(item.name, whole.address, (before, band), bytes);
        if band > 0 {
            guarded.far.bytes = end(whole) - guarded.far.address;
            device.fill(guarded.before, PATTERN_WORD)?;
            let behind = Buffer { bytes: band + guarded.far.bytes, ..guarded.after };
            device.fill(behind, PATTERN_WORD)?;
        }
        if let Contents::These(bytes) = item.contents {
            device.write(guarded.inner, bytes)?;
        }
        self.buffers.push(guarded);
        Ok(())
    }

    /// The buffers, in the items' order.
    pub fn buffers(&self) -> Vec<Buffer> {
        self.buffers.iter().map(|guarded| guarded.inner).collect()
    }

    /// Reads what buffers hold now.
    pub fn look(&self, device: &mut dyn Accelerator) -> Result<MemorySnapshot, AcceleratorError> {
        Ok(MemorySnapshot { whole: self.together.map(|whole| Ok((whole, device.read(whole)?))).transpose()? })
    }

    /// Looks for writes into the bands beside the buffers.
    pub fn trespasses(
        &self,
        device: &mut dyn Accelerator,
        view: &MemorySnapshot,
    ) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let mut found = Vec::new();
        for guarded in &self.buffers {
            for side in [guarded.before, guarded.after].into_iter().filter(|side| side.bytes > 0) {
                found.extend(guarded.trespass(side, &view.read(device, side)?));
            }
        }
        Ok(found)
    }

    /// Looks for writes into what is left over of the allocations.
    pub fn far_trespasses(&self, device: &mut dyn Accelerator) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let mut found = Vec::new();
        for guarded in self.buffers.iter().filter(|guarded| guarded.far.bytes > 0) {
            found.extend(guarded.trespass(guarded.far, &device.read(guarded.far)?));
        }
        Ok(found)
    }

    /// Gives every buffer back.
    pub fn release(self, device: &mut dyn Accelerator) {
        for allocation in self.allocations {
            // A device that refuses is broken by what went before, and that is what will be reported.
            let _ = device.free(allocation);
        }
    }
}

/// The bytes of a buffer in those of another that holds it.
fn within(whole: Buffer, part: Buffer) -> Range<usize> {
    let start = (part.address - whole.address) as usize;
    start..start + part.bytes as usize
}

/// Memory as it was at one moment, where it is small enough to be read as one, and the device's where it is not.
#[derive(Debug)]
pub(crate) struct MemorySnapshot {
    whole: Option<(Buffer, Vec<u8>)>,
}

impl MemorySnapshot {
    pub fn read(&self, device: &mut dyn Accelerator, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        match &self.whole {
            Some((whole, bytes)) => Ok(bytes[within(*whole, buffer)].to_vec()),
            None => device.read(buffer),
        }
    }

    /// Whether a buffer holds these bytes.
    pub fn holds(
        &self,
        device: &mut dyn Accelerator,
        buffer: Buffer,
        bytes: &[u8],
    ) -> Result<bool, AcceleratorError> {
        match &self.whole {
            Some((whole, all)) => Ok(all[within(*whole, buffer)] == *bytes),
            None => device.holds(buffer, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use chips::Chip;
    use gpu::accelerator::VirtualDevice;

    use super::*;

    fn placed(device: &mut VirtualDevice, band: u64, large: u64) -> Memory {
        let item = |name, contents| BufferItem { name, contents };
        let items = [
            item("q", Contents::These(&[7; 10])),
            item("o", Contents::Any(5)),
            item("large", Contents::Any(large)),
        ];
        Memory::new(device, Placement { band, shift: 0 }, &items).expect("room")
    }

    #[test]
    fn a_write_beside_a_buffer_is_seen_from_either_side() {
        // Together, and apart.
        for large in [100, TOGETHER] {
            let mut device = VirtualDevice::new(Chip::by_name("h200").expect("in the table"));
            let memory = placed(&mut device, 64, large);
            assert_eq!(memory.together.is_some(), large < TOGETHER);
            let [q, o, last] = memory.buffers()[..] else { panic!("three buffers") };
            let look = |device: &mut VirtualDevice| {
                let view = memory.look(device).expect("readable");
                (view.read(device, q), memory.trespasses(device, &view))
            };
            assert_eq!(look(&mut device), (Ok(vec![7; 10]), Ok(Vec::new())));
            let mut write = |buffer: Buffer, offset: i64| {
                let beside = Buffer { address: buffer.address.wrapping_add_signed(offset), bytes: 2 };
                device.write(beside, &[0, 0]).expect("inside the allocation");
            };
            write(q, 10);
            write(q, -3);
            write(o, 67);
            let trespass = |buffer, offset| StrayWrite { buffer, offset, bytes: 2 };
            let expected = vec![trespass("q", -3), trespass("q", 10), trespass("o", 67)];
            assert_eq!(look(&mut device).1, Ok(expected));
            assert_eq!(memory.far_trespasses(&mut device), Ok(Vec::new()));
            let beyond = Buffer { address: last.address + last.bytes + 4096, bytes: 2 };
            device.write(beyond, &[0, 0]).expect("inside the allocation");
            let expected = StrayWrite { buffer: "large", offset: last.bytes as i64 + 4096, bytes: 2 };
            assert_eq!(memory.far_trespasses(&mut device), Ok(vec![expected]));
            memory.release(&mut device);
            assert!(device.read(q).is_err());
        }
    }

    #[test]
    fn without_bands_every_buffer_is_an_allocation() {
        let mut device = VirtualDevice::new(Chip::by_name("h200").expect("in the table"));
        let memory = placed(&mut device, 0, 100);
        assert_eq!(memory.allocations, memory.buffers());
    }
}
