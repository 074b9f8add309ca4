//! Runs a case on an accelerator.

use warpsmith_gpu::accelerator::{Accelerator, AcceleratorError, CudaDevice, Geometry, Image, VirtualDevice};

use crate::case::Case;
use crate::kernel::{Column, ENTRY};

const BLOCK: usize = 128;

pub fn virtual_gpu() -> VirtualDevice {
    let chip = chips::Chip::by_name("h200").expect("the table of chips has an H200");
    let mut device = VirtualDevice::new(chip);
    device.options.checks = vgpu::Checks::None;
    device
}

/// The CUDA GPU, or the reason why there is none.
pub fn cuda() -> Result<CudaDevice, AcceleratorError> {
    CudaDevice::open(0)
}

/// Runs a case and returns its results, one column each. Buffers are freed; modules stay loaded until the device is
/// dropped.
pub fn run(device: &mut dyn Accelerator, case: &Case) -> Result<Vec<Column>, AcceleratorError> {
    let mut buffers = Vec::new();
    for (index, &(width, length)) in case.outputs.iter().enumerate() {
        let bytes = length * width.bytes();
        let buffer = device.allocate(&format!("result {index}"), bytes as u64)?;
        device.write(buffer, &vec![0xee; bytes])?;
        buffers.push(buffer);
    }
    for (index, column) in case.inputs.iter().enumerate() {
        let bytes = column.bytes();
        let buffer = device.allocate(&format!("operand {index}"), bytes.len() as u64)?;
        device.write(buffer, &bytes)?;
        buffers.push(buffer);
    }
    let mut parameters: Vec<Vec<u8>> = buffers.iter().map(|buffer| buffer.parameter()).collect();
    parameters.push((case.count as u32).to_le_bytes().to_vec());
    let module = device.load(Image::Ptx(&case.ptx))?;
    let geometry = Geometry {
        grid: [case.threads.div_ceil(BLOCK) as u32, 1, 1],
        block: [BLOCK as u32, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
    };
    let launched = device.launch(module, ENTRY, geometry, &parameters)?;
    if let Some(report) = launched.report
        && !report.stats.completed
    {
        let reason = report
            .findings
            .first()
            .map_or_else(|| "the launch did not finish".to_owned(), |f| f.message.clone());
        return Err(AcceleratorError::Launch { kernel: case.name.clone(), reason });
    }
    let mut results = Vec::new();
    for (&(width, _), &buffer) in case.outputs.iter().zip(&buffers) {
        results.push(Column::from_bytes(width, &device.read(buffer)?));
    }
    for buffer in buffers {
        device.free(buffer)?;
    }
    Ok(results)
}
