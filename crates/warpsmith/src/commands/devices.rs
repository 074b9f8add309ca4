//! `devices`: lists the GPUs of this machine and the virtual GPUs.

use chips::CHIPS;
use gpu::machine::{self, Driver};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, Printer, STRONG, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Document {
    /// The device that `--device` selects; `null` if this machine does not have it.
    selected: Option<String>,
    devices: Vec<DeviceDocument>,
}

#[derive(JsonSchema, Serialize)]
struct DeviceDocument {
    name: String,
    gpu: String,
    /// `measured` on a GPU, `modelled` on a virtual GPU.
    times: &'static str,
    target: Option<String>,
    sms: Option<u32>,
    memory_bytes: Option<u64>,
}

/// Lists all devices, with the name that `--device` takes.
pub fn run(global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let driver = machine::driver();
    let mut devices = cuda_devices(driver.as_ref().ok());
    devices.extend(CHIPS.iter().map(|chip| DeviceDocument {
        name: format!("virtual:{}", chip.id),
        gpu: chip.name.to_owned(),
        times: "modelled",
        target: Some(chip.target.to_string()),
        sms: Some(chip.sms),
        memory_bytes: Some(chip.memory.bytes),
    }));
    let selected = super::device(global).ok().map(|device| device.to_string());
    if printer.is_json() {
        printer.json("devices", &Document { selected, devices });
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["device", "GPU", "target", "SMs", "times"], &["SMs"]);
    for it in &devices {
        let sms = it.sms.map_or_else(String::new, |sms| sms.to_string());
        let target = it.target.clone().unwrap_or_default();
        table.row([it.name.clone(), it.gpu.clone(), target, sms, it.times.to_owned()]);
    }
    printer.data(&table.text());
    if let Err(reason) = &driver {
        let text =
            format!("\nThis machine has no NVIDIA driver ({reason}), so kernels run on a virtual GPU.");
        printer.data(&styled(FAINT, text));
    }
    if let Some(selected) = selected {
        printer.data(&format!("\n--device {} is {}.", global.device, styled(STRONG, selected)));
    }
    Ok(Exit::Success)
}

fn cuda_devices(driver: Option<&Driver>) -> Vec<DeviceDocument> {
    let gpus = driver.map_or(&[][..], |driver| &driver.gpus);
    let device = |(index, gpu): (usize, &machine::Gpu)| DeviceDocument {
        name: format!("cuda:{index}"),
        gpu: gpu.name.clone(),
        times: "measured",
        target: gpu.compute_capability.map(|(major, minor)| format!("sm_{major}{minor}")),
        sms: None,
        memory_bytes: gpu.memory_bytes,
    };
    gpus.iter().enumerate().map(device).collect()
}
