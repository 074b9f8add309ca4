//! Devices to borrow.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::client::DeviceProcess;
use crate::accelerator::{Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId};

/// Starts a device's process.
type Start = dyn Fn() -> Result<DeviceProcess, AcceleratorError> + Send + Sync;

/// Processes that have the device, started as they are needed and kept for the next as long as nothing broke them.
pub struct DevicePool {
    /// At a time.
    most: usize,
    start: Box<Start>,
    shelf: Mutex<Shelf>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Shelf {
    idle: Vec<DeviceProcess>,
    lent: usize,
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

    /// A device as one that was just opened. Waits while all are lent.
    pub fn lend(self: &Arc<Self>) -> Result<LentDevice, AcceleratorError> {
        let shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let all_lent = |shelf: &mut Shelf| shelf.lent >= self.most;
        let mut shelf = self.returned.wait_while(shelf, all_lent).unwrap_or_else(PoisonError::into_inner);
        shelf.lent += 1;
        let idle = shelf.idle.pop();
        drop(shelf);
        // From here on it is counted as lent, and given back whatever happens.
        let mut lent = LentDevice { process: idle, pool: Arc::clone(self) };
        let process = match &mut lent.process {
            Some(process) => process,
            none => none.insert((self.start)()?),
        };
        process.open()?;
        Ok(lent)
    }
}

/// A device of a [`DevicePool`], given back when this goes.
#[derive(Debug)]
pub struct LentDevice {
    process: Option<DeviceProcess>,
    pool: Arc<DevicePool>,
}

impl Drop for LentDevice {
    fn drop(&mut self) {
        // One that is not is ended here, before another may be lent in its place.
        let sound = self.process.take().filter(DeviceProcess::is_sound);
        let mut shelf = self.pool.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.idle.extend(sound);
        shelf.lent -= 1;
        self.pool.returned.notify_one();
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
