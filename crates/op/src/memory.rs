//! The buffers of a run on a device. They are filled, have guard bands on both sides if the device does not check
//! bounds itself, and are freed at the end.

use std::ops::Range;

use gpu::accelerator::{Accelerator, AcceleratorError, Buffer};
use serde::Serialize;

/// The contents of guard bands: neither zeros, ones nor poison, so that a kernel is unlikely to write the same by
/// chance.
const PATTERN: u8 = 0xb9;
const PATTERN_WORD: u32 = u32::from_ne_bytes([PATTERN; 4]);

/// A write outside every buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StrayWrite {
    /// The nearest buffer.
    pub buffer: String,
    /// Position of the first changed byte relative to the buffer's start: negative before the buffer, at least its size
    /// after it.
    pub offset: i64,
    /// How many bytes of the band changed.
    pub bytes: usize,
}

/// Up to this total size, all buffers share one allocation that is written and read at once: for small problems,
/// transfers take longer than the computation. Larger problems, which include everything worth timing, have separate
/// buffers, as programs usually do.
const MAX_TOGETHER_BYTES: u64 = 1 << 20;
/// The minimum alignment of allocations.
const ALIGNMENT: u64 = 256;
/// The granularity in which the driver maps memory. The unused end of the last piece can be written without a fault, so
/// guarded allocations fill whole pieces. The rest is the far band of the last buffer.
const MAPPING_BYTES: u64 = 2 << 20;

/// A buffer to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferItem<'a> {
    pub name: &'a str,
    pub contents: Contents<'a>,
}

/// The initial contents of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents<'a> {
    These(&'a [u8]),
    /// A word, repeated over this many bytes.
    Filled {
        word: u32,
        bytes: u64,
    },
    /// This many bytes with arbitrary contents.
    Any(u64),
}

impl Contents<'_> {
    fn bytes(self) -> u64 {
        match self {
            Contents::These(bytes) => bytes.len() as u64,
            Contents::Filled { bytes, .. } | Contents::Any(bytes) => bytes,
        }
    }
}

/// A buffer with its guard bands.
#[derive(Debug)]
struct GuardedBuffer {
    name: String,
    before: Buffer,
    inner: Buffer,
    after: Buffer,
    /// The rest of the allocation behind the bands. It is large, so it is checked once at the end, not after every
    /// launch.
    far: Buffer,
}

impl GuardedBuffer {
    /// Starts at `address`, with bands of the given sizes before and after the buffer.
    fn new(name: &str, address: u64, (before, after): (u64, u64), bytes: u64) -> Self {
        let before = Buffer { address, bytes: before };
        let inner = Buffer { address: end(before), bytes };
        let after = Buffer { address: end(inner), bytes: after };
        GuardedBuffer {
            name: name.to_owned(),
            before,
            inner,
            after,
            far: Buffer { address: end(after), bytes: 0 },
        }
    }
}

impl GuardedBuffer {
    /// Finds a write into one of its bands, given the bytes that the band holds now.
    fn stray_write(&self, band: Buffer, bytes: &[u8]) -> Option<StrayWrite> {
        let first = bytes.iter().position(|&byte| byte != PATTERN)?;
        Some(StrayWrite {
            buffer: self.name.clone(),
            offset: (band.address + first as u64).wrapping_sub(self.inner.address).cast_signed(),
            bytes: bytes.iter().filter(|&&byte| byte != PATTERN).count(),
        })
    }
}

/// Where buffers are placed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement {
    /// Size of the guard band on either side of every buffer. 0 if the device checks bounds itself.
    pub band: u64,
    /// Additional offset of every buffer, to test other addresses. A multiple of 256.
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
    /// If all buffers share one allocation: the part of it that they and their bands use.
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
        // Without bands the device checks bounds per allocation, so each buffer needs its own.
        let mut memory = Memory { allocations: Vec::new(), buffers: Vec::new(), together: None };
        let placed = if band > 0 && total <= MAX_TOGETHER_BYTES {
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
        let allocation = device.allocate("buffers", total.next_multiple_of(MAPPING_BYTES))?;
        self.allocations.push(allocation);
        let whole = Buffer { bytes: total, ..allocation };
        self.together = Some(whole);
        let mut image = vec![PATTERN; total as usize];
        let mut address = whole.address;
        for (index, BufferItem { name, contents }) in items.iter().enumerate() {
            let first = if index == 0 { shift } else { 0 };
            let mut guarded = GuardedBuffer::new(name, address, (band + first, band), contents.bytes());
            let place = &mut image[within(whole, guarded.inner)];
            match contents {
                Contents::These(bytes) => place.copy_from_slice(bytes),
                Contents::Filled { word, .. } => {
                    let word = word.to_le_bytes();
                    place.chunks_mut(4).for_each(|chunk| chunk.copy_from_slice(&word[..chunk.len()]));
                }
                Contents::Any(_) => {}
            }
            // The band extends to the next buffer.
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
            _ => (band + shift, (bytes + 2 * band + shift).next_multiple_of(MAPPING_BYTES)),
        };
        let whole = device.allocate(item.name, total)?;
        // Recorded before anything else can fail, so that it is freed.
        self.allocations.push(whole);
        let mut guarded = GuardedBuffer::new(item.name, whole.address, (before, band), bytes);
        if band > 0 {
            guarded.far.bytes = end(whole) - guarded.far.address;
            device.fill(guarded.before, PATTERN_WORD)?;
            let behind = Buffer { bytes: band + guarded.far.bytes, ..guarded.after };
            device.fill(behind, PATTERN_WORD)?;
        }
        match item.contents {
            Contents::These(bytes) => device.write(guarded.inner, bytes)?,
            Contents::Filled { word, .. } => device.fill(guarded.inner, word)?,
            Contents::Any(_) => {}
        }
        self.buffers.push(guarded);
        Ok(())
    }

    /// The buffers, in the order of the items.
    pub fn buffers(&self) -> Vec<Buffer> {
        self.buffers.iter().map(|guarded| guarded.inner).collect()
    }

    /// Reads the current contents of the buffers.
    pub fn snapshot(&self, device: &mut dyn Accelerator) -> Result<MemorySnapshot, AcceleratorError> {
        Ok(MemorySnapshot { whole: self.together.map(|whole| Ok((whole, device.read(whole)?))).transpose()? })
    }

    /// Finds writes into the bands next to the buffers.
    pub fn stray_writes(
        &self,
        device: &mut dyn Accelerator,
        view: &MemorySnapshot,
    ) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let mut found = Vec::new();
        for guarded in &self.buffers {
            for side in [guarded.before, guarded.after].into_iter().filter(|side| side.bytes > 0) {
                found.extend(guarded.stray_write(side, &view.read(device, side)?));
            }
        }
        Ok(found)
    }

    /// Finds writes into the rest of the allocations.
    pub fn far_stray_writes(
        &self,
        device: &mut dyn Accelerator,
    ) -> Result<Vec<StrayWrite>, AcceleratorError> {
        let mut found = Vec::new();
        for guarded in self.buffers.iter().filter(|guarded| guarded.far.bytes > 0) {
            found.extend(guarded.stray_write(guarded.far, &device.read(guarded.far)?));
        }
        Ok(found)
    }

    /// Frees every buffer.
    pub fn release(self, device: &mut dyn Accelerator) {
        for allocation in self.allocations {
            // If the device refuses, an earlier error broke it, and that error is reported.
            let _ = device.free(allocation);
        }
    }
}

/// The range of a buffer within another buffer that contains it.
fn within(whole: Buffer, part: Buffer) -> Range<usize> {
    let start = (part.address - whole.address) as usize;
    start..start + part.bytes as usize
}

/// The contents of the memory at one moment if it is small enough to be read at once; otherwise reads go to the device.
#[derive(Debug)]
pub(crate) struct MemorySnapshot {
    whole: Option<(Buffer, Vec<u8>)>,
}

impl MemorySnapshot {
    /// Reads a buffer.
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
    fn a_write_on_either_side_of_a_buffer_is_found() {
        // In one allocation, and in separate allocations.
        for large in [100, MAX_TOGETHER_BYTES] {
            let mut device = VirtualDevice::new(Chip::by_name("h200").expect("in the table"));
            let memory = placed(&mut device, 64, large);
            assert_eq!(memory.together.is_some(), large < MAX_TOGETHER_BYTES);
            let [q, o, last] = memory.buffers()[..] else { panic!("three buffers") };
            let inspect = |device: &mut VirtualDevice| {
                let view = memory.snapshot(device).expect("readable");
                (view.read(device, q), memory.stray_writes(device, &view))
            };
            assert_eq!(inspect(&mut device), (Ok(vec![7; 10]), Ok(Vec::new())));
            let mut write = |buffer: Buffer, offset: i64| {
                let beside = Buffer { address: buffer.address.wrapping_add_signed(offset), bytes: 2 };
                device.write(beside, &[0, 0]).expect("inside the allocation");
            };
            write(q, 10);
            write(q, -3);
            write(o, 67);
            let stray_write =
                |buffer: &str, offset| StrayWrite { buffer: String::from(buffer), offset, bytes: 2 };
            let expected = vec![stray_write("q", -3), stray_write("q", 10), stray_write("o", 67)];
            assert_eq!(inspect(&mut device).1, Ok(expected));
            assert_eq!(memory.far_stray_writes(&mut device), Ok(Vec::new()));
            let beyond = Buffer { address: last.address + last.bytes + 4096, bytes: 2 };
            device.write(beyond, &[0, 0]).expect("inside the allocation");
            let expected =
                StrayWrite { buffer: "large".to_owned(), offset: last.bytes as i64 + 4096, bytes: 2 };
            assert_eq!(memory.far_stray_writes(&mut device), Ok(vec![expected]));
            memory.release(&mut device);
            assert!(device.read(q).is_err());
        }
    }

    #[test]
    fn without_bands_every_buffer_has_its_own_allocation() {
        let mut device = VirtualDevice::new(Chip::by_name("h200").expect("in the table"));
        let memory = placed(&mut device, 0, 100);
        assert_eq!(memory.allocations, memory.buffers());
    }
}
