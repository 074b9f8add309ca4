//! Devices to borrow.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::client::DeviceProcess;
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable,
};

/// Starts a device's process.
type Start = dyn Fn() -> Result<DeviceProcess, AcceleratorError> + Send + Sync;

/// Processes that have the device, started as they are needed and kept for the next as long as nothing broke them.
pub struct DevicePool {
    /// At a time.
    most: usize,
    start: Box<Start>,
    pub(super) shelf: Mutex<Shelf>,
    returned: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) idle: Vec<DeviceProcess>,
    lent: usize,
    /// Whether somebody has, or waits to have, the device alone.
    pub(super) alone: bool,
}

/// Whether others may have the device at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    Shared,
    Alone,
}

impl fmt::Debug for DevicePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePool({:?})", self.shelf)
    }
}

impl DevicePool {
    pub fn new(
        most: usize,
        start: impl Fn() -> Result<DeviceProcess, AcceleratorError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (shelf, returned) = (Mutex::default(), Condvar::new());
        Arc::new(DevicePool { most: most.max(1), start: Box::new(start), shelf, returned })
    }

    /// A device as one that was just opened. Waits while all are lent, or until nobody else has one.
    pub fn lend(self: &Arc<Self>, lease: Lease) -> Result<LentDevice, AcceleratorError> {
        let (idle, mut lent) = self.reserve(lease);
        for mut process in idle {
            // What became of it while nobody used it is nobody's fault.
            if process.open().is_ok() {
                lent.process = Some(process);
                return Ok(lent);
            }
        }
        let opened = (self.start)().and_then(|mut process| process.open().map(|()| process));
        match opened {
            Ok(process) => {
                lent.process = Some(process);
                Ok(lent)
            }
            // There may be GPUs that take one process only.
            Err(_) if lease == Lease::Shared && self.most > 1 => {
                drop(lent);
                self.lend(Lease::Alone)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts one more as lent: from here on it is given back whatever happens. With it come idle processes: one, or,
    /// for who is to be alone, all.
    fn reserve(self: &Arc<Self>, lease: Lease) -> (Vec<DeviceProcess>, LentDevice) {
        let shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |shelf: &mut Shelf| shelf.alone || shelf.lent >= self.most;
        let mut shelf = self.returned.wait_while(shelf, busy).unwrap_or_else(PoisonError::into_inner);
        let idle = match lease {
            Lease::Shared => shelf.idle.pop().into_iter().collect(),
            Lease::Alone => {
                // Nobody else gets one from now on; those that are out come back.
                shelf.alone = true;
                let others = |shelf: &mut Shelf| shelf.lent > 0;
                shelf = self.returned.wait_while(shelf, others).unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut shelf.idle)
            }
        };
        shelf.lent += 1;
        (idle, LentDevice { process: None, lease, pool: Arc::clone(self) })
    }
}

/// A device of a [`DevicePool`], given back when this goes.
#[derive(Debug)]
pub struct LentDevice {
    process: Option<DeviceProcess>,
    lease: Lease,
    pool: Arc<DevicePool>,
}

impl Drop for LentDevice {
    fn drop(&mut self) {
        // One that is not is ended here, before another may be lent in its place.
        let sound = self.process.take().filter(DeviceProcess::is_sound);
        let mut shelf = self.pool.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.idle.extend(sound);
        shelf.lent -= 1;
        if self.lease == Lease::Alone {
            shelf.alone = false;
        }
        // Who waits may wait for different things.
        self.pool.returned.notify_all();
    }
}

impl LentDevice {
    fn process(&mut self) -> Result<&mut DeviceProcess, AcceleratorError> {
        self.process.as_mut().ok_or_else(|| AcceleratorError::Lost("it was given back".to_owned()))
    }
}

impl Accelerator for LentDevice {
    fn describe(&self) -> String {
        self.process.as_ref().map(Accelerator::describe).unwrap_or_default()
    }

    fn allocate(&mut self, label: &str, bytes: u64) -> Result<Buffer, AcceleratorError> {
        self.process()?.allocate(label, bytes)
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), AcceleratorError> {
        self.process()?.free(buffer)
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), AcceleratorError> {
        self.process()?.write(buffer, bytes)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, AcceleratorError> {
        self.process()?.read(buffer)
    }

    fn fill(&mut self, buffer: Buffer, word: u32) -> Result<(), AcceleratorError> {
        self.process()?.fill(buffer, word)
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<Variable>, AcceleratorError> {
        self.process()?.variables(module)
    }

    fn encode_tensor_map(&mut self, map: &vgpu::TensorMap) -> Result<Vec<u8>, AcceleratorError> {
        self.process()?.encode_tensor_map(map)
    }

    fn set_world(&mut self, seed: u64) -> Result<(), AcceleratorError> {
        self.process()?.set_world(seed)
    }

    fn load(&mut self, image: Image<'_>) -> Result<ModuleId, AcceleratorError> {
        self.process()?.load(image)
    }

    fn launch(
        &mut self,
        module: ModuleId,
        kernel: &str,
        geometry: Geometry,
        parameters: &[Vec<u8>],
    ) -> Result<Launched, AcceleratorError> {
        self.process()?.launch(module, kernel, geometry, parameters)
    }
}
