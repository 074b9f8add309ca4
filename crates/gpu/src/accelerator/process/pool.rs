//! A pool of device processes that callers borrow and give back.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::client::DeviceProcess;
use crate::accelerator::{
    Accelerator, AcceleratorError, Buffer, Geometry, Image, Launched, ModuleId, Variable,
};

/// Starts the process of a device.
type Start = dyn Fn() -> Result<DeviceProcess, AcceleratorError> + Send + Sync;

/// Processes that have the device. They are started on demand and reused until one of them fails.
pub struct DevicePool {
    /// Largest number of devices lent at the same time.
    most: usize,
    start: Box<Start>,
    pub(super) state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct PoolState {
    pub(super) idle: Vec<DeviceProcess>,
    lent: usize,
    /// Whether a caller has, or waits for, the device alone.
    pub(super) alone: bool,
}

/// Whether other callers may use the device at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Other callers may use the device, too.
    Shared,
    /// No other caller uses the device.
    Alone,
}

impl fmt::Debug for DevicePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePool({:?})", self.state)
    }
}

impl DevicePool {
    /// Creates a pool that lends at most `most` devices at a time. `start` starts the process of a device.
    pub fn new(
        most: usize,
        start: impl Fn() -> Result<DeviceProcess, AcceleratorError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (state, returned) = (Mutex::default(), Condvar::new());
        Arc::new(DevicePool { most: most.max(1), start: Box::new(start), state, returned })
    }

    /// Lends a freshly opened device. Waits while all devices are lent; with [`Lease::Alone`], until no other is
    /// lent.
    pub fn lend(self: &Arc<Self>, lease: Lease) -> Result<PooledDevice, AcceleratorError> {
        let (idle, mut lent) = self.reserve(lease);
        for mut process in idle {
            // An idle process may have ended. That is not this caller's error: try the next one.
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
            // Some GPUs accept only one process at a time.
            Err(_) if lease == Lease::Shared && self.most > 1 => {
                drop(lent);
                self.lend(Lease::Alone)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts one more device as lent, so that it is given back in every case. Returns idle processes: one, or all of
    /// them for [`Lease::Alone`].
    fn reserve(self: &Arc<Self>, lease: Lease) -> (Vec<DeviceProcess>, PooledDevice) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |state: &mut PoolState| state.alone || state.lent >= self.most;
        let mut state = self.returned.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner);
        let idle = match lease {
            Lease::Shared => state.idle.pop().into_iter().collect(),
            Lease::Alone => {
                // From now on no other caller gets a device; wait until the lent ones are given back.
                state.alone = true;
                let others = |state: &mut PoolState| state.lent > 0;
                state = self.returned.wait_while(state, others).unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut state.idle)
            }
        };
        state.lent += 1;
        (idle, PooledDevice { process: None, lease, pool: Arc::clone(self) })
    }
}

/// A device of a [`DevicePool`]. Dropping it gives the device back.
#[derive(Debug)]
pub struct PooledDevice {
    process: Option<DeviceProcess>,
    lease: Lease,
    pool: Arc<DevicePool>,
}

impl Drop for PooledDevice {
    fn drop(&mut self) {
        // A failed process ends here, before another device is lent in its place.
        let usable = self.process.take().filter(DeviceProcess::is_sound);
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.idle.extend(usable);
        state.lent -= 1;
        if self.lease == Lease::Alone {
            state.alone = false;
        }
        // Waiting callers may wait for different conditions, so all are woken.
        self.pool.returned.notify_all();
    }
}

impl PooledDevice {
    fn process(&mut self) -> Result<&mut DeviceProcess, AcceleratorError> {
        self.process
            .as_mut()
            .ok_or_else(|| AcceleratorError::Lost("the device was given back to the pool".to_owned()))
    }
}

impl Accelerator for PooledDevice {
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

    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, AcceleratorError> {
        self.process()?.holds(buffer, bytes)
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
