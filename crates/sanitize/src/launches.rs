//! The launches to make: kernels with their grids, blocks and arguments.

use gpu::accelerator::{Accelerator, Geometry, ModuleId, VirtualDevice};
use launch::{Argument, Placed, Role};
use text::count;
use vgpu::Kernel;

use crate::{SanitizeError, readable};

/// A launch before its kernel is known.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel; `None` means the only one of the file.
    pub kernel: Option<String>,
    /// Grid, block and dynamic shared memory.
    pub geometry: Geometry,
    /// The arguments, as indices into the list of all arguments.
    pub arguments: Vec<usize>,
}

/// All launches and their arguments.
#[derive(Clone, Debug)]
pub struct Launches {
    /// The launches in order.
    pub launches: Vec<Launch>,
    /// The arguments of all launches.
    pub arguments: Vec<Argument>,
}

impl Launches {
    /// The wanted kernels, one per launch.
    pub fn kernels(&self) -> Vec<Option<&str>> {
        self.launches.iter().map(|launch| launch.kernel.as_deref()).collect()
    }

    /// Checks the arguments against the kernels' parameters, and gives numbers their types. A number that several
    /// launches use becomes an argument of its own for each, because its types may differ.
    pub fn fit(&mut self, kernels: &[&Kernel]) -> Result<(), SanitizeError> {
        for (launch, kernel) in self.launches.iter_mut().zip(kernels) {
            order_by_name(&mut launch.arguments, &self.arguments, kernel);
            if launch.arguments.len() != kernel.params.len() {
                let given = launch.arguments.len();
                return Err(SanitizeError::usage(format!(
                    "`{}` has {}, but {given} {} given",
                    readable(&kernel.name),
                    count(kernel.params.len(), "parameter"),
                    if given == 1 { "argument is" } else { "arguments are" },
                ))
                .with_hint(signature(kernel)));
            }
            for (index, parameter) in launch.arguments.iter_mut().zip(&kernel.params) {
                if !matches!(self.arguments[*index].role, Role::Literal(_)) {
                    continue;
                }
                let typed = self.arguments[*index].clone().with_type_of(parameter);
                let typed = typed
                    .map_err(|error| SanitizeError::usage(error.to_string()).with_hint(signature(kernel)))?;
                self.arguments.push(typed);
                *index = self.arguments.len() - 1;
            }
        }
        // A number of --arg that no launch uses keeps no type, and needs none.
        Ok(())
    }

    /// Allocates and fills all buffers.
    pub fn place(&self, device: &mut VirtualDevice) -> Result<Placed, SanitizeError> {
        Placed::on(device, &self.arguments).map_err(|error| match error {
            gpu::accelerator::AcceleratorError::Arguments(_) => SanitizeError::usage(error.to_string()),
            other => SanitizeError::unsupported(other.to_string()),
        })
    }
}

impl Launch {
    /// The parameters of the launch.
    pub fn parameters(&self, placed: &Placed) -> Vec<Vec<u8>> {
        self.arguments.iter().map(|&index| placed.parameters[index].clone()).collect()
    }
}

/// Sorts arguments by the kernel's parameters, if every argument has the name of a parameter.
fn order_by_name(arguments: &mut [usize], all: &[Argument], kernel: &Kernel) {
    let position = |index: &usize| {
        let name = all[*index].name.as_deref()?;
        kernel.params.iter().position(|parameter| parameter.name == name)
    };
    if arguments.iter().all(|index| position(index).is_some()) {
        arguments.sort_by_key(position);
    }
}

/// A description of a kernel's parameters.
pub fn signature(kernel: &Kernel) -> String {
    if kernel.params.is_empty() {
        return format!("`{}` has no parameters", readable(&kernel.name));
    }
    let parameters: Vec<String> =
        (1..).zip(&kernel.params).map(|(number, parameter)| format!("{number}: {parameter}")).collect();
    format!("the parameters of `{}` are {}", readable(&kernel.name), parameters.join(", "))
}

/// Sets variables of a module before the launch.
pub fn set_variables(
    variables: &[Argument],
    module: ModuleId,
    device: &mut VirtualDevice,
) -> Result<(), SanitizeError> {
    let failed = |error: gpu::accelerator::AcceleratorError| SanitizeError::unsupported(error.to_string());
    let all = [device.variables(module).map_err(failed)?, device.constants(module).map_err(failed)?].concat();
    for value in variables {
        let (Some(name), Some(bytes)) = (&value.name, value.contents()) else {
            return Err(SanitizeError::usage(format!(
                "variable {value}: expected NAME=DTYPE[dims]=INIT or NAME=DTYPE=VALUE"
            )));
        };
        let found = all.iter().find(|variable| variable.name == *name || readable(&variable.name) == *name);
        let Some(variable) = found else {
            let names: Vec<String> = all.iter().map(|variable| readable(&variable.name)).collect();
            let hint = if names.is_empty() {
                "the code has no variables; the compiler removes those that no kernel uses".to_owned()
            } else {
                format!("variables: {}", names.join(", "))
            };
            return Err(SanitizeError::usage(format!("there is no variable `{name}`")).with_hint(hint));
        };
        if bytes.len() as u64 > variable.buffer.bytes {
            let size = variable.buffer.bytes;
            return Err(SanitizeError::usage(format!(
                "variable {name} has {} bytes, but the variable has {size}",
                bytes.len()
            )));
        }
        let place = gpu::accelerator::Buffer { bytes: bytes.len() as u64, ..variable.buffer };
        device.write(place, &bytes).map_err(failed)?;
    }
    Ok(())
}
