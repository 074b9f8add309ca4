//! The launches that `sanitize` makes: from the flags, and from the `// warpsmith:` lines of the file.

use std::path::Path;

use clap::Parser as _;
use gpu::accelerator::Geometry;
use launch::{Argument, Call, Role, SourceParameter, source_parameters};
use sanitize::launches::{Launch, Launches};
use text::count;

use crate::cli::{HeaderFlags, LaunchOptions, SANITIZE_BUDGET, SanitizeOptions};
use crate::error::CommandError;

/// The flags in the file's `// warpsmith:` comments.
pub fn header(text: &str, file: &Path) -> Result<HeaderFlags, CommandError> {
    let failed = |reason: &str| {
        CommandError::usage(format!("{}: in the `// warpsmith:` lines: {reason}", file.display()))
    };
    // Other lines declare the op of the file, for `check` and `bench`.
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("// warpsmith:"));
    let lines: Vec<&str> = lines.filter(|line| line.trim_start().starts_with("--")).collect();
    let words = shlex::split(&lines.join(" ")).ok_or_else(|| failed("a quotation mark is not closed"))?;
    let mut flags = HeaderFlags::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        failed(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    // Files that the file names lie beside it.
    let folder = file.parent().unwrap_or(Path::new(""));
    flags.launch.arg = with_files(flags.launch.arg, folder)?;
    flags.launch.variable = with_files(flags.launch.variable, folder)?;
    flags.suppressions = flags.suppressions.map(|rules| folder.join(rules));
    for (_, expected) in &mut flags.expect {
        *expected = folder.join(&*expected).display().to_string();
    }
    Ok(flags)
}

/// The other flags of the command line, completed with those of the file.
pub fn with_header(options: &SanitizeOptions, header: &HeaderFlags) -> SanitizeOptions {
    let given = options.clone();
    SanitizeOptions {
        print: [given.print, header.print.clone()].concat(),
        expect: [given.expect, header.expect.clone()].concat(),
        rtol: given.rtol.or(header.rtol),
        atol: given.atol.or(header.atol),
        counters: given.counters || header.counters,
        fidelity: given.fidelity || header.fidelity,
        unchecked: given.unchecked || header.unchecked,
        strict: given.strict || header.strict,
        suppressions: given.suppressions.or_else(|| header.suppressions.clone()),
        budget: Some(given.budget)
            .filter(|it| *it != SANITIZE_BUDGET)
            .or(header.budget)
            .unwrap_or(given.budget),
        jobs: Some(given.jobs).filter(|it| *it != 0).or(header.jobs).unwrap_or(0),
        ..given
    }
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
        arg: with_replaced(header.arg, with_files(flags.arg.clone(), Path::new(""))?),
        variable: [header.variable, with_files(flags.variable.clone(), Path::new(""))?].concat(),
        arch: flags.arch.clone().or(header.arch),
        define: [header.define, flags.define.clone()].concat(),
        include: [flags.include.clone(), header.include].concat(),
        std: flags.std.clone().or(header.std),
    })
}

/// The arguments of the file, of which those on the command line replace the ones with their names. If one of them has no
/// such name, the arguments on the command line are all.
fn with_replaced(mut header: Vec<Argument>, flags: Vec<Argument>) -> Vec<Argument> {
    let position = |flag: &Argument| header.iter().position(|it| it.name.is_some() && it.name == flag.name);
    let Some(places) = flags.iter().map(position).collect::<Option<Vec<usize>>>() else { return flags };
    for (place, flag) in places.into_iter().zip(flags) {
        header[place] = flag;
    }
    header
}

/// Refuses arguments that do not fit the kernels as the source declares them.
pub fn refuse_misfits(launches: &Launches, kernels: &[String], source: &str) -> Result<(), CommandError> {
    for (launch, kernel) in launches.launches.iter().zip(kernels) {
        let name = sanitize::readable(kernel);
        let Some(parameters) = source_parameters(source, &name) else { continue };
        let written = || {
            let all = parameters.iter().map(|it| format!("{} {}", it.text, it.name));
            format!("the kernel is {name}({})", all.collect::<Vec<_>>().join(", "))
        };
        let (given, wanted) = (launch.arguments.len(), parameters.len());
        if given != wanted {
            let verb = if given == 1 { "is" } else { "are" };
            let message = format!(
                "`{name}` has {}, but {} {verb} given",
                count(wanted, "parameter"),
                count(given, "argument")
            );
            return Err(CommandError::usage(message).hint(written()));
        }
        for (number, (parameter, &index)) in (1..).zip(parameters.iter().zip(&launch.arguments)) {
            let argument = &launches.arguments[index];
            let dtype = match &argument.role {
                Role::Input { dtype, .. }
                | Role::InOut { dtype, .. }
                | Role::Out { dtype, .. }
                | Role::Scratch { dtype, .. } => {
                    parameter.element.map(|element| (dtype, element, dtype.fits_pointer_to(element)))
                }
                Role::Scalar { dtype, .. } => parameter.value.map(|value| (dtype, value, dtype.fits(value))),
                _ => None,
            };
            if let Some((dtype, wanted, false)) = dtype {
                let label =
                    argument.name.as_ref().map_or_else(|| format!("{number}"), |name| format!("`{name}`"));
                let SourceParameter { name, text, .. } = parameter;
                let message = format!(
                    "argument {label} has the type {}, but the parameter `{name}` is {text}",
                    dtype.name()
                );
                return Err(CommandError::usage(message).hint(format!("give it the type {}", wanted.name())));
            }
        }
    }
    Ok(())
}

/// The launches that the options describe.
pub fn from_options(
    options: &LaunchOptions,
    signature: &dyn Fn() -> Option<String>,
) -> Result<Launches, CommandError> {
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
        let launch = from_call(&mut launches, call)?;
        launches.launches.push(launch);
    }
    Ok(launches)
}

fn from_call(launches: &mut Launches, call: &Call) -> Result<Launch, CommandError> {
    let mut arguments = Vec::new();
    for text in &call.arguments {
        let named = |argument: &Argument| argument.name.as_ref() == Some(text);
        let index = if let Some(index) = launches.arguments.iter().position(named) {
            index
        } else {
            let argument = text.parse::<Argument>().map_err(|error| {
                CommandError::usage(format!("--launch of `{}`: {error}", call.kernel))
                    .hint("name a buffer of --arg, or write an argument as in --arg")
            })?;
            launches.arguments.extend(with_files(vec![argument], Path::new(""))?);
            launches.arguments.len() - 1
        };
        arguments.push(index);
    }
    let geometry =
        Geometry { grid: call.grid.0, block: call.block.0, cluster: [1; 3], shared_bytes: call.shared };
    Ok(Launch { kernel: Some(call.kernel.clone()), geometry, arguments })
}

/// The error for a missing flag.
fn missing(flag: &str, signature: &dyn Fn() -> Option<String>) -> CommandError {
    let signature = signature().map_or(String::new(), |text| format!("\n{text}"));
    CommandError::usage(format!("{flag} is missing")).hint(format!(
        "describe the launch by flags, or in the file after `// warpsmith:`: --grid 4 --block 256 --arg x=f32[1000]=normal(1) \
         ..., or as in CUDA: --launch 'KERNEL<<<4, 256>>>(x=f32[1000]=normal(1), y=out,f32[1000], 1000)'{signature}"
    ))
}
