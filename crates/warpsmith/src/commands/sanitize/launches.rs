//! The launches that `sanitize` makes: from the flags, and from the `// warpsmith:` lines of the file.

use std::path::Path;

use clap::Parser as _;
use gpu::accelerator::{Accelerator, Geometry, ModuleId, VirtualDevice};
use gpu::launch::{Argument, Call, Placed, Role};
use vgpu::Kernel;

use super::kernel_name::readable;
use crate::cli::{HeaderFlags, LaunchOptions};
use crate::error::CommandError;

/// A launch before its kernel is known.
pub struct Launch {
    /// The kernel; `None` is the only one of the file.
    pub kernel: Option<String>,
    /// Grid, block and dynamic shared memory.
    pub geometry: Geometry,
    /// The arguments, as indices into the list of all arguments.
    arguments: Vec<usize>,
}

/// All launches and their arguments.
pub struct Launches {
    /// The launches in order.
    pub launches: Vec<Launch>,
    /// The arguments of all launches.
    arguments: Vec<Argument>,
}

/// The flags in the file's `// warpsmith:` comments.
pub fn header(text: &str, file: &Path) -> Result<LaunchOptions, CommandError> {
    let failed = |reason: &str| {
        CommandError::usage(format!("{}: in the `// warpsmith:` lines: {reason}", file.display()))
    };
    // Other lines declare the op of the file, for `check` and `bench`.
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:"));
    let lines: Vec<&str> = lines.filter(|line| line.trim_start().starts_with("--")).collect();
    let words = shlex::split(&lines.join(" ")).ok_or_else(|| failed("a quotation mark is not closed"))?;
    let mut launch = HeaderFlags::try_parse_from(words).map(|flags| flags.launch).map_err(|error| {
        let text = error.to_string();
        failed(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    // Files that the file names lie beside it.
    let folder = file.parent().unwrap_or(Path::new(""));
    launch.arg = with_files(launch.arg, folder)?;
    launch.variable = with_files(launch.variable, folder)?;
    Ok(launch)
}

/// Reads the files of the arguments.
fn with_files(arguments: Vec<Argument>, folder: &Path) -> Result<Vec<Argument>, CommandError> {
    let read = |argument: Argument| {
        argument.with_file(folder).map_err(|error| CommandError::usage(error.to_string()))
    };
    arguments.into_iter().map(read).collect()
}

/// The flags of the command line, completed with those of the file.
pub fn merged(flags: &LaunchOptions, header: LaunchOptions) -> Result<LaunchOptions, CommandError> {
    // A launch on the command line replaces every part of the file's launch.
    let has_calls = !flags.launch.is_empty();
    let has_parts = flags.kernel.is_some() || flags.grid.is_some() || flags.block.is_some();
    Ok(LaunchOptions {
        kernel: flags.kernel.clone().or(header.kernel).filter(|_| !has_calls),
        launch: if has_calls || has_parts { flags.launch.clone() } else { header.launch },
        grid: flags.grid.or(header.grid),
        block: flags.block.or(header.block),
        shared: flags.shared.or(header.shared),
        arg: if flags.arg.is_empty() { header.arg } else { with_files(flags.arg.clone(), Path::new(""))? },
        variable: [header.variable, with_files(flags.variable.clone(), Path::new(""))?].concat(),
        arch: flags.arch.clone().or(header.arch),
        define: [header.define, flags.define.clone()].concat(),
        include: [flags.include.clone(), header.include].concat(),
    })
}

impl Launches {
    /// The launches that the options describe.
    pub fn of(options: &LaunchOptions, signature: &dyn Fn() -> Option<String>) -> Result<Self, CommandError> {
        let mut launches = Launches { launches: Vec::new(), arguments: options.arg.clone() };
        if options.launch.is_empty() {
            let geometry = Geometry {
                grid: options.grid.ok_or_else(|| missing("--grid", signature))?.0,
                block: options.block.ok_or_else(|| missing("--block", signature))?.0,
                cluster: [1; 3],
                shared_bytes: options.shared.unwrap_or(0),
            };
            let arguments = (0..launches.arguments.len()).collect();
            launches.launches.push(Launch { kernel: options.kernel.clone(), geometry, arguments });
        }
        for call in &options.launch {
            let launch = launches.of_call(call)?;
            launches.launches.push(launch);
        }
        Ok(launches)
    }

    fn of_call(&mut self, call: &Call) -> Result<Launch, CommandError> {
        let mut arguments = Vec::new();
        for text in &call.arguments {
            let named = |argument: &Argument| argument.name.as_ref() == Some(text);
            let index = if let Some(index) = self.arguments.iter().position(named) {
                index
            } else {
                let argument = text.parse::<Argument>().map_err(|error| {
                    CommandError::usage(format!("--launch of `{}`: {error}", call.kernel))
                        .hint("name a buffer of --arg, or write an argument as in --arg")
                })?;
                self.arguments.extend(with_files(vec![argument], Path::new(""))?);
                self.arguments.len() - 1
            };
            arguments.push(index);
        }
        let geometry =
            Geometry { grid: call.grid.0, block: call.block.0, cluster: [1; 3], shared_bytes: call.shared };
        Ok(Launch { kernel: Some(call.kernel.clone()), geometry, arguments })
    }

    /// The wanted kernels, one per launch.
    pub fn kernels(&self) -> Vec<Option<&str>> {
        self.launches.iter().map(|launch| launch.kernel.as_deref()).collect()
    }

    /// Checks the arguments against the kernels' parameters, and gives numbers their types. Afterwards no argument
    /// belongs to two launches with different types.
    pub fn fit(&mut self, kernels: &[&Kernel]) -> Result<(), CommandError> {
        for (launch, kernel) in self.launches.iter_mut().zip(kernels) {
            order_by_name(&mut launch.arguments, &self.arguments, kernel);
            if launch.arguments.len() != kernel.params.len() {
                let given = launch.arguments.len();
                return Err(CommandError::usage(format!(
                    "`{}` has {}, but {given} {} given",
                    readable(&kernel.name),
                    lab::words::count(kernel.params.len(), "parameter"),
                    if given == 1 { "argument is" } else { "arguments are" },
                ))
                .hint(signature(kernel)));
            }
            for (index, parameter) in launch.arguments.iter_mut().zip(&kernel.params) {
                if !matches!(self.arguments[*index].role, Role::Literal(_)) {
                    continue;
                }
                let typed = self.arguments[*index].clone().with_type_of(parameter);
                let typed =
                    typed.map_err(|error| CommandError::usage(error.to_string()).hint(signature(kernel)))?;
                self.arguments.push(typed);
                *index = self.arguments.len() - 1;
            }
        }
        // A number of --arg that no launch uses keeps no type, and needs none.
        Ok(())
    }

    /// Allocates and fills all buffers.
    pub fn place(&self, device: &mut VirtualDevice) -> Result<Placed, CommandError> {
        Placed::on(device, &self.arguments).map_err(|error| match error {
            gpu::accelerator::AcceleratorError::Arguments(_) => CommandError::usage(error.to_string()),
            other => CommandError::missing(other.to_string()),
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

/// The error for a missing flag.
fn missing(flag: &str, signature: &dyn Fn() -> Option<String>) -> CommandError {
    let signature = signature().map_or(String::new(), |text| format!("; {text}"));
    CommandError::usage(format!("{flag} is missing")).hint(format!(
        "give it as a flag, or in the file as `// warpsmith: --grid 4 --block 256 --arg ...`{signature}"
    ))
}

/// Sets the variables of `--variable`.
pub fn set_variables(
    variables: &[Argument],
    module: ModuleId,
    device: &mut VirtualDevice,
) -> Result<(), CommandError> {
    let failed = |error: gpu::accelerator::AcceleratorError| CommandError::missing(error.to_string());
    let all = [device.variables(module).map_err(failed)?, device.constants(module).map_err(failed)?].concat();
    for value in variables {
        let (Some(name), Some(bytes)) = (&value.name, value.contents()) else {
            return Err(CommandError::usage(format!(
                "--variable {value}: expected NAME=DTYPE[dims]=INIT or NAME=DTYPE=VALUE"
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
            return Err(CommandError::usage(format!("there is no variable `{name}`")).hint(hint));
        };
        if bytes.len() as u64 > variable.buffer.bytes {
            let size = variable.buffer.bytes;
            return Err(CommandError::usage(format!(
                "--variable {name} has {} bytes, but the variable has {size}",
                bytes.len()
            )));
        }
        let place = gpu::accelerator::Buffer { bytes: bytes.len() as u64, ..variable.buffer };
        device.write(place, &bytes).map_err(failed)?;
    }
    Ok(())
}
