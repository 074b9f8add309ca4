//! Copies and fills, in one, two and three dimensions.

use execlog::HostKind;

use crate::State;
use crate::errors::{Outcome, Status};
use crate::guest::{self, Plain};
use crate::memory::Spot;
use crate::order::Use;
use crate::streams::Key;

/// Where an address lies, as the program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Host,
    Device,
    /// The program does not say it, and the address decides.
    Unified,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub address: u64,
    pub side: Side,
    /// Distance of rows and of slices in bytes.
    pub pitch: u64,
    pub slice: u64,
}

/// A copy of a box of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub to: End,
    pub from: End,
    /// Bytes of a row, rows of a slice, slices.
    pub extent: [u64; 3],
}

/// A fill of rows with an element of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub address: u64,
    pub pitch: u64,
    pub value: u32,
    pub element: u64,
    /// Elements of a row, and rows.
    pub width: u64,
    pub height: u64,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy2D {
    from_x: u64,
    from_y: u64,
    from_type: u32,
    _padding: u32,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_pitch: u64,
    to_x: u64,
    to_y: u64,
    to_type: u32,
    _padding2: u32,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_pitch: u64,
    width: u64,
    height: u64,
}
// SAFETY: numbers only.
unsafe impl Plain for Copy2D {}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3D {
    pub from_x: u64,
    pub from_y: u64,
    pub from_z: u64,
    pub from_lod: u64,
    pub from_type: u32,
    _padding: u32,
    pub from_host: u64,
    pub from_device: u64,
    pub from_array: u64,
    _reserved: u64,
    pub from_pitch: u64,
    pub from_height: u64,
    pub to_x: u64,
    pub to_y: u64,
    pub to_z: u64,
    pub to_lod: u64,
    pub to_type: u32,
    _padding2: u32,
    pub to_host: u64,
    pub to_device: u64,
    pub to_array: u64,
    _reserved2: u64,
    pub to_pitch: u64,
    pub to_height: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}
// SAFETY: numbers only.
unsafe impl Plain for Copy3D {}

/// One end of a copy that `CUDA_MEMCPY3D` describes. `pitch` is the distance of rows in bytes; 0 if they follow one
/// another.
fn end(
    kind: u32,
    (host, device, array): (u64, u64, u64),
    start: [u64; 3],
    pitch: u64,
    height: u64,
    width: u64,
) -> Result<End, Status> {
    let dense = if pitch == 0 { width } else { pitch };
    let (address, side, pitch, height) = match kind {
        1 => (host, Side::Host, dense, height),
        2 => (device, Side::Device, dense, height),
        4 => (device, Side::Unified, dense, height),
        3 => {
            let (address, pitch, height) = crate::arrays::layout(array)?;
            (address, Side::Device, pitch, height)
        }
        _ => return Err(Status::INVALID_VALUE),
    };
    let slice = pitch.checked_mul(height).ok_or(Status::INVALID_VALUE)?;
    let [x, y, z] = start;
    let offset = z
        .checked_mul(slice)
        .and_then(|it| it.checked_add(y.checked_mul(pitch)?))
        .and_then(|it| it.checked_add(x));
    let address = offset.and_then(|it| address.checked_add(it)).ok_or(Status::INVALID_VALUE)?;
    Ok(End { address, side, pitch, slice })
}

impl Copy {
    /// A copy of bytes that follow one another.
    pub fn bytes(to: (u64, Side), from: (u64, Side), bytes: u64) -> Copy {
        let end = |(address, side)| End { address, side, pitch: bytes, slice: bytes };
        Copy { to: end(to), from: end(from), extent: [bytes, 1, 1] }
    }

    pub fn from_2d(it: &Copy2D) -> Result<Copy, Status> {
        let to = end(
            it.to_type,
            (it.to_host, it.to_device, it.to_array),
            [it.to_x, it.to_y, 0],
            it.to_pitch,
            it.height,
            it.width,
        )?;
        let from = end(
            it.from_type,
            (it.from_host, it.from_device, it.from_array),
            [it.from_x, it.from_y, 0],
            it.from_pitch,
            it.height,
            it.width,
        )?;
        Copy { to, from, extent: [it.width, it.height, 1] }.validated()
    }

    pub fn from_3d(it: &Copy3D) -> Result<Copy, Status> {
        let height = |given: u64| if given == 0 { it.height } else { given };
        let start = [it.to_x, it.to_y, it.to_z];
        let to = end(
            it.to_type,
            (it.to_host, it.to_device, it.to_array),
            start,
            it.to_pitch,
            height(it.to_height),
            it.width,
        )?;
        let start = [it.from_x, it.from_y, it.from_z];
        let from = end(
            it.from_type,
            (it.from_host, it.from_device, it.from_array),
            start,
            it.from_pitch,
            height(it.from_height),
            it.width,
        )?;
        Copy { to, from, extent: [it.width, it.height, it.depth] }.validated()
    }

    fn validated(self) -> Result<Copy, Status> {
        let [width, height, depth] = self.extent;
        let overlaps =
            |end: &End| height > 1 && end.pitch < width || depth > 1 && end.slice < end.pitch * height;
        if overlaps(&self.to) || overlaps(&self.from) { Err(Status::INVALID_VALUE) } else { Ok(self) }
    }

    fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// Bytes from the first to the last one at an end.
    fn span(&self, end: &End) -> Option<u64> {
        let [width, height, depth] = self.extent;
        let slices = (depth - 1).checked_mul(end.slice)?;
        slices.checked_add((height - 1).checked_mul(end.pitch)?)?.checked_add(width)
    }

    /// Makes one row of all rows, if they follow one another.
    fn dense(self) -> Copy {
        let [width, height, depth] = self.extent;
        let is_dense =
            |end: &End| (height == 1 || end.pitch == width) && (depth == 1 || end.slice == width * height);
        if is_dense(&self.to) && is_dense(&self.from) && (height > 1 || depth > 1) {
            Copy::bytes(
                (self.to.address, self.to.side),
                (self.from.address, self.from.side),
                width * height * depth,
            )
        } else {
            self
        }
    }
}

/// Where an end of a copy lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Device,
    Host,
}

impl State {
    /// Checks one end of a copy or fill.
    fn locate(&mut self, end: &End, span: u64, is_target: bool) -> Result<Where, Status> {
        let role = if is_target { "target" } else { "source" };
        end.address.checked_add(span).ok_or(Status::INVALID_VALUE)?;
        match self.spot(end.address) {
            Spot::Device(start, bytes, label) => {
                let is_visible =
                    self.allocation(end.address).is_some_and(crate::memory::Allocation::is_host_visible);
                if end.side == Side::Host && !is_visible {
                    let message = format!(
                        "the {role} is said to be memory of the host, but it is {label} of the device"
                    );
                    self.report(HostKind::WrongDirection, message);
                    return Err(Status::INVALID_VALUE);
                }
                let rest = bytes - (end.address - start).min(bytes);
                if span > rest {
                    let message = format!(
                        "the {role} needs {span} bytes, but {label} ({bytes} bytes) has {rest} from there to its end"
                    );
                    self.report_copy(HostKind::CopyTooLarge, message, end.address);
                    return Err(Status::INVALID_VALUE);
                }
                Ok(Where::Device)
            }
            Spot::Freed(start, freed) => {
                let message = format!(
                    "the {role} is {} bytes into {} ({} bytes), which was freed",
                    end.address - start,
                    freed.label,
                    freed.bytes
                );
                let related = vec![
                    ("it was freed here".to_owned(), freed.site),
                    ("it was allocated here".to_owned(), freed.allocated),
                ];
                self.report_with(HostKind::UseAfterFree, message, related);
                Err(Status::INVALID_VALUE)
            }
            Spot::Nothing => {
                let message = format!(
                    "the {role} {:#x} is an address of the device where nothing is allocated",
                    end.address
                );
                self.report(HostKind::CopyTooLarge, message);
                Err(Status::INVALID_VALUE)
            }
            Spot::Host if end.side == Side::Device => {
                let message = format!(
                    "the {role} is said to be memory of the device, but {:#x} is memory of the host",
                    end.address
                );
                self.report(HostKind::WrongDirection, message);
                Err(Status::INVALID_VALUE)
            }
            Spot::Host => Ok(Where::Host),
        }
    }

    fn report_copy(&mut self, kind: HostKind, message: String, address: u64) {
        let related = match self.allocation(address) {
            Some(it) => vec![("it was allocated here".to_owned(), it.site.clone())],
            None => Vec::new(),
        };
        self.report_with(kind, message, related);
    }

    /// Runs a copy and checks its accesses.
    pub fn copy(&mut self, stream: Key, copy: &Copy) -> Outcome {
        if copy.is_empty() {
            return Ok(());
        }
        let copy = copy.dense();
        let (Some(to_span), Some(from_span)) = (copy.span(&copy.to), copy.span(&copy.from)) else {
            return Err(Status::INVALID_VALUE);
        };
        let to = self.locate(&copy.to, to_span, true)?;
        let from = self.locate(&copy.from, from_span, false)?;
        let [width, height, depth] = copy.extent;
        let rows = |end: End| {
            (0..depth)
                .flat_map(move |z| (0..height).map(move |y| end.address + z * end.slice + y * end.pitch))
        };
        let mut uses = Vec::new();
        for (place, end, writes) in [(from, copy.from, false), (to, copy.to, true)] {
            if place == Where::Device {
                uses.extend(rows(end).take(MOST_ROWS).map(|at| Use::new(at, width, writes)));
            }
        }
        self.begin_operation(stream, &uses);
        for (to_row, from_row) in rows(copy.to).zip(rows(copy.from)) {
            self.copy_row((to_row, to), (from_row, from), width)?;
        }
        Ok(())
    }

    fn copy_row(
        &mut self,
        (to, to_where): (u64, Where),
        (from, from_where): (u64, Where),
        bytes: u64,
    ) -> Outcome {
        let mut buffer = vec![0u8; (bytes as usize).min(PIECE)];
        // If the target overlaps the end of the source, the last piece is copied first, because an earlier piece would
        // overwrite it.
        let backwards = to > from && to < from + bytes;
        let pieces = bytes.div_ceil(PIECE as u64);
        for number in 0..pieces {
            let number = if backwards { pieces - 1 - number } else { number };
            let at = number * PIECE as u64;
            let buffer = &mut buffer[..(bytes - at).min(PIECE as u64) as usize];
            match from_where {
                Where::Device => {
                    let source = vgpu::Buffer(from + at);
                    self.memory.read(source, buffer).map_err(|_| Status::INVALID_VALUE)?;
                }
                Where::Host => guest::read_bytes(from + at, buffer).map_err(|done| {
                    self.report_host_range("source", "read", from, at + done as u64, bytes)
                })?,
            }
            match to_where {
                Where::Device => {
                    self.memory.write(vgpu::Buffer(to + at), buffer).map_err(|_| Status::INVALID_VALUE)?;
                }
                Where::Host => guest::write_bytes(to + at, buffer).map_err(|done| {
                    self.report_host_range("target", "written", to, at + done as u64, bytes)
                })?,
            }
        }
        Ok(())
    }

    fn report_host_range(&mut self, role: &str, what: &str, address: u64, done: u64, bytes: u64) -> Status {
        let message =
            format!("only {done} of {bytes} bytes of the {role} at {address:#x} can be {what} by the host");
        self.report(HostKind::CopyTooLarge, message);
        Status::INVALID_VALUE
    }

    /// Runs a fill and checks its accesses.
    pub fn fill(&mut self, stream: Key, fill: &Fill) -> Outcome {
        let Some(width) = fill.width.checked_mul(fill.element) else { return Err(Status::INVALID_VALUE) };
        if width == 0 || fill.height == 0 {
            return Ok(());
        }
        if !fill.address.is_multiple_of(fill.element) || fill.height > 1 && fill.pitch < width {
            return Err(Status::INVALID_VALUE);
        }
        let span = (fill.height - 1).checked_mul(fill.pitch).and_then(|it| it.checked_add(width));
        let end = End { address: fill.address, side: Side::Device, pitch: fill.pitch, slice: 0 };
        self.locate(&end, span.ok_or(Status::INVALID_VALUE)?, true)?;
        let (rows, width, pitch) =
            if fill.pitch == width { (1, width * fill.height, 0) } else { (fill.height, width, fill.pitch) };
        let starts = (0..rows).map(|row| fill.address + row * pitch);
        let uses: Vec<Use> = starts.clone().take(MOST_ROWS).map(|at| Use::new(at, width, true)).collect();
        self.begin_operation(stream, &uses);
        let element = &fill.value.to_le_bytes()[..fill.element as usize];
        let is_bytes = element.iter().all(|byte| *byte == element[0]);
        let piece = if is_bytes { Vec::new() } else { element.repeat(PIECE / fill.element as usize) };
        for start in starts {
            if is_bytes {
                self.memory
                    .fill(vgpu::Buffer(start), element[0], width)
                    .map_err(|_| Status::INVALID_VALUE)?;
                continue;
            }
            for at in (0..width).step_by(PIECE) {
                let bytes = (width - at).min(PIECE as u64) as usize;
                let target = vgpu::Buffer(start + at);
                self.memory.write(target, &piece[..bytes]).map_err(|_| Status::INVALID_VALUE)?;
            }
        }
        Ok(())
    }
}

/// The most rows of a copy whose accesses are checked.
const MOST_ROWS: usize = 256;
/// Bytes that are copied at a time, so that they stay in the cache.
const PIECE: usize = 256 << 10;
