//! Launches with typed arguments and buffers: from PTX text to findings in a few lines.

use std::marker::PhantomData;

use crate::exec::{Dim3, Launch, LaunchError, LaunchReport, Options};
use crate::mem::{Buffer, Device, MemoryError};
use crate::program::Module;

/// A number that kernels work on.
pub trait Number: Copy + private::Sealed {
    /// The type's name in PTX.
    const NAME: &'static str;
    /// Appends the bytes of the number.
    fn append(self, bytes: &mut Vec<u8>);
    /// The numbers in a sequence of bytes.
    fn read_all(bytes: &[u8]) -> Vec<Self>;
}

mod private {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty: $name:literal),*) => { $(
        impl private::Sealed for $number {}
        impl Number for $number {
            const NAME: &'static str = $name;
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
            fn read_all(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|&chunk| <$number>::from_le_bytes(chunk)).collect()
            }
        }
        impl Argument for $number {
            fn value(&self) -> ArgumentValue {
                let mut bytes = Vec::new();
                self.append(&mut bytes);
                ArgumentValue { bytes, kind: $name }
            }
        }
    )* };
}

numbers!(u8: "u8", i8: "s8", u16: "u16", i16: "s16", u32: "u32", i32: "s32", u64: "u64", i64: "s64", f32: "f32", f64: "f64");

/// A value that a kernel can get: a number, or a buffer as a pointer.
pub trait Argument {
    /// The bytes of the parameter, with a name of their type.
    fn value(&self) -> ArgumentValue;
}

/// An argument as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentValue {
    bytes: Vec<u8>,
    kind: &'static str,
}

impl Argument for Buffer {
    fn value(&self) -> ArgumentValue {
        ArgumentValue { bytes: self.0.to_le_bytes().to_vec(), kind: "pointer" }
    }
}

impl<T: Number> Argument for Array<T> {
    fn value(&self) -> ArgumentValue {
        self.buffer.value()
    }
}

/// A buffer of numbers of one type.
#[derive(Debug)]
pub struct Array<T> {
    /// The memory on the device.
    pub buffer: Buffer,
    length: usize,
    number: PhantomData<T>,
}

// Derived implementations would ask for `T: Clone`.
impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T> Array<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the array has no element.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Device {
    /// Allocates an array with these values. `label` names it in findings.
    pub fn upload<T: Number>(&mut self, label: &str, values: &[T]) -> Result<Array<T>, MemoryError> {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        for value in values {
            value.append(&mut bytes);
        }
        let array = self.uninitialised(label, values.len())?;
        self.write(array.buffer, &bytes)?;
        Ok(array)
    }

    /// Allocates an array whose elements are undefined until they are written.
    pub fn uninitialised<T: Number>(&mut self, label: &str, length: usize) -> Result<Array<T>, MemoryError> {
        let buffer = self.alloc((length * size_of::<T>()) as u64, label)?;
        Ok(Array { buffer, length, number: PhantomData })
    }

    /// The values of an array.
    pub fn download<T: Number>(&self, array: Array<T>) -> Result<Vec<T>, MemoryError> {
        let mut bytes = vec![0; array.length * size_of::<T>()];
        self.read(array.buffer, &mut bytes)?;
        Ok(T::read_all(&bytes))
    }
}

/// The extents of a grid or a block: a number, or up to three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents(Dim3);

impl From<u32> for Extents {
    fn from(x: u32) -> Self {
        Extents([x, 1, 1])
    }
}

impl From<[u32; 2]> for Extents {
    fn from([x, y]: [u32; 2]) -> Self {
        Extents([x, y, 1])
    }
}

impl From<[u32; 3]> for Extents {
    fn from(extents: [u32; 3]) -> Self {
        Extents(extents)
    }
}

/// A launch that is being described. [`Launch::of`] makes one.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `run`"]
pub struct LaunchBuilder<'a> {
    module: &'a Module,
    kernel: &'a str,
    grid: Dim3,
    block: Dim3,
    shared: u32,
    arguments: Vec<ArgumentValue>,
    options: Options,
}

impl<'a> Launch<'a> {
    /// Describes a launch of a module's kernel: one block of one thread, until the builder says otherwise.
    ///
    /// ```
    /// use warpsmith_vgpu::{Device, Launch, load};
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n
    /// # .visible .entry scale(.param .u64 x, .param .f32 factor, .param .u32 n) {
    /// # .reg .b64 %rd<4>; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .pred %p;
    /// # ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [factor]; ld.param.u32 %r1, [n];
    /// # mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r2, %r2, %r3, %r4;
    /// # setp.ge.u32 %p, %r2, %r1; @%p bra done;
    /// # cvta.to.global.u64 %rd1, %rd1; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
    /// # ld.global.f32 %f2, [%rd3]; mul.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3;
    /// # done: ret; }";
    /// let module = load(ptx)?;
    /// let mut device = Device::default();
    /// let x = device.upload("x", &[1.0_f32, 2.0, 3.0])?;
    /// let report = Launch::of(&module, "scale").grid(1).block(32).arg(x).arg(2.0_f32).arg(3_u32).run(&mut device)?;
    /// assert!(report.is_clean());
    /// assert_eq!(device.download(x)?, [2.0, 4.0, 6.0]);
    ///
    /// // One element too many: the finding names the array.
    /// let report = Launch::of(&module, "scale").grid(1).block(32).arg(x).arg(2.0_f32).arg(4_u32).run(&mut device)?;
    /// assert_eq!(report.findings[0].allocation.as_deref(), Some("x"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(module: &'a Module, kernel: &'a str) -> LaunchBuilder<'a> {
        let (arguments, options) = (Vec::new(), Options::default());
        LaunchBuilder { module, kernel, grid: [1; 3], block: [1; 3], shared: 0, arguments, options }
    }
}

impl LaunchBuilder<'_> {
    /// Sets the number of blocks.
    pub fn grid(mut self, blocks: impl Into<Extents>) -> Self {
        self.grid = blocks.into().0;
        self
    }

    /// Sets the number of threads of a block.
    pub fn block(mut self, threads: impl Into<Extents>) -> Self {
        self.block = threads.into().0;
        self
    }

    /// Sets the bytes of dynamic shared memory.
    pub fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    /// Adds the next argument.
    #[allow(clippy::needless_pass_by_value, reason = "numbers and arrays are written without `&`")]
    pub fn arg(mut self, argument: impl Argument) -> Self {
        self.arguments.push(argument.value());
        self
    }

    /// Adds the next argument, an array that the kernel must write completely.
    pub fn output<T: Number>(mut self, array: Array<T>) -> Self {
        self.options.outputs.push(array.buffer);
        self.arg(array)
    }

    /// Sets the options of the launch. Outputs that were named before are kept.
    pub fn options(mut self, options: Options) -> Self {
        let outputs = std::mem::take(&mut self.options.outputs);
        self.options = options;
        self.options.outputs.extend(outputs);
        self
    }

    /// Runs the kernel. Refuses arguments that do not fit its parameters.
    pub fn run(self, device: &mut Device) -> Result<LaunchReport, LaunchError> {
        let args = self.argument_block()?;
        let LaunchBuilder { module, kernel, grid, block, shared, options, .. } = self;
        device.launch(&Launch { module, kernel, grid, block, shared, args: &args }, &options)
    }

    /// The argument block: each argument at the offset of its parameter.
    fn argument_block(&self) -> Result<Vec<u8>, LaunchError> {
        // An unknown or refused kernel is reported by the launch.
        let Some(kernel) = self.module.kernel(self.kernel) else { return Ok(Vec::new()) };
        let (wanted, given) = (kernel.params.len(), self.arguments.len());
        if wanted != given {
            return Err(LaunchError::ArgumentCount { kernel: self.kernel.to_owned(), wanted, given });
        }
        let mut block = vec![0; kernel.param_bytes as usize];
        for (index, (argument, param)) in self.arguments.iter().zip(&kernel.params).enumerate() {
            let is_float = |kind: &str| kind.starts_with('f');
            // `b32` takes any four bytes; `f32` only a float, and `u32` everything else.
            let is_same_class =
                param.element.starts_with('b') || is_float(&param.element) == is_float(argument.kind);
            let start = param.offset as usize;
            let place = block.get_mut(start..start + param.bytes as usize);
            match place.filter(|place| place.len() == argument.bytes.len() && is_same_class) {
                Some(place) => place.copy_from_slice(&argument.bytes),
                None => {
                    return Err(LaunchError::ArgumentType {
                        index,
                        name: param.name.clone(),
                        wanted: param.to_string(),
                        given: argument.kind,
                    });
                }
            }
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u8 small, .param .f64 number)
{
    .reg .b64 %rd<3>;
    .reg .b16 %h;
    .reg .f64 %d<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u8 %h, [small];
    ld.param.f64 %d1, [number];
    cvt.rn.f64.u16 %d2, %h;
    add.f64 %d2, %d1, %d2;
    st.global.f64 [%rd1], %d2;
    ret;
}
";

    #[test]
    fn arguments_are_placed_at_their_offsets() {
        let module = load(PTX).unwrap();
        let mut device = Device::default();
        let out = device.uninitialised::<f64>("out", 1).unwrap();
        let report = Launch::of(&module, "k").output(out).arg(3_u8).arg(0.5_f64).run(&mut device).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(device.download(out).unwrap(), [3.5]);
        assert_eq!((out.len(), out.is_empty()), (1, false));
    }

    #[test]
    fn an_output_must_be_written_completely() {
        let module = load(PTX).unwrap();
        let mut device = Device::default();
        let out = device.uninitialised::<f64>("out", 2).unwrap();
        let report = Launch::of(&module, "k").output(out).arg(3_u8).arg(0.5_f64).run(&mut device).unwrap();
        assert!(!report.is_clean());
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused() {
        let module = load(PTX).unwrap();
        let mut device = Device::default();
        let out = device.uninitialised::<f64>("out", 1).unwrap();
        let launch = || Launch::of(&module, "k").arg(out);
        let error =
            |builder: LaunchBuilder<'_>, device: &mut Device| builder.run(device).unwrap_err().to_string();
        assert_eq!(error(launch(), &mut device), "kernel `k` has 3 parameters, 1 argument given");
        assert_eq!(
            error(launch().arg(3_u32).arg(0.5_f64), &mut device),
            "argument 1 is u32, but the parameter `small` is u8"
        );
        assert_eq!(
            error(launch().arg(3_u8).arg(5_u64), &mut device),
            "argument 2 is u64, but the parameter `number` is f64"
        );
        assert_eq!(error(Launch::of(&module, "none").arg(1_u8), &mut device), "module has no kernel `none`");
    }
}
