//! `toolchain`: shows which compiler is used, and installs or removes Warpsmith's own copy.

use std::path::{Path, PathBuf};

use compiler::toolchain::{self, PlaceVerdict, SearchEnvironment, Survey};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, ToolchainAction, ToolchainOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{BAD, FAINT, GOOD, Printer, STRONG, styled};
use crate::progress::Installation;

#[derive(JsonSchema, Serialize)]
pub struct Document<'a> {
    version: Option<&'a str>,
    #[serde(flatten)]
    survey: &'a Survey,
    cache: &'a Path,
}

#[derive(JsonSchema, Serialize)]
pub struct Installed {
    root: PathBuf,
    newly: bool,
    wheels: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub struct Cleaned {
    removed: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct Requirements {
    wheels: Vec<String>,
}

/// Shows, installs or removes a compiler.
pub fn run(options: &ToolchainOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    match options.action.unwrap_or(ToolchainAction::Show) {
        ToolchainAction::Show => show(global, printer),
        ToolchainAction::Install => install(printer),
        ToolchainAction::Clean => clean(printer),
        ToolchainAction::Requirements => {
            if printer.is_json() {
                let wheels = toolchain::requirements().lines().map(str::to_owned).collect();
                printer.json("toolchain-requirements", &Requirements { wheels });
            } else {
                printer.verbatim_data(toolchain::requirements().trim_end());
            }
            Ok(Exit::Success)
        }
    }
}

fn show(global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let surroundings = SearchEnvironment::from_environment(global.cuda.as_deref());
    let survey = toolchain::survey(&surroundings);
    // The library itself reports the version: a file with the right name may be unusable.
    let version = survey.chosen.clone().map(|chosen| compiler::Compiler::new(chosen, &surroundings.cache));
    let version = version.transpose()?.map(|compiler| compiler.identity().to_owned());
    if printer.is_json() {
        printer.json(
            "toolchain",
            &Document { version: version.as_deref(), survey: &survey, cache: &surroundings.cache },
        );
    } else {
        printer.data(&text(&survey, version.as_deref()));
    }
    if let Some((place, reason)) = survey.named_refusal() {
        let message = format!("no usable CUDA compiler in {}: {reason}", place.display());
        return Err(CommandError::missing(message)
            .hint("name another toolkit with --cuda or WARPSMITH_CUDA, or name none"));
    }
    if survey.chosen.is_none() {
        return Err(CommandError::missing("no CUDA compiler found").hint("run `warpsmith toolchain install`"));
    }
    Ok(Exit::Success)
}

fn text(survey: &Survey, version: Option<&str>) -> String {
    let mut lines = Vec::new();
    if let (Some(chosen), Some(version)) = (&survey.chosen, version) {
        lines.push(format!("{} {version}", styled(STRONG, "NVRTC")));
        lines.push(format!("  library   {}", chosen.nvrtc.display()));
        for (index, folder) in chosen.includes.iter().enumerate() {
            let label = if index == 0 { "headers" } else { "" };
            lines.push(format!("  {label:<9} {}", folder.display()));
        }
        lines.push(String::new());
    }
    lines.push(styled(STRONG, "Places searched, in order"));
    for looked in &survey.looked {
        let place = looked.place.as_ref().map_or("-".to_owned(), |place| place.display().to_string());
        let origin = looked.origin.to_string();
        let verdict = match &looked.verdict {
            PlaceVerdict::Chosen => styled(GOOD, "chosen"),
            PlaceVerdict::NotNeeded => styled(FAINT, "usable, not needed"),
            PlaceVerdict::Absent => styled(FAINT, "none"),
            PlaceVerdict::Unfit { reason } => format!("{}: {reason}", styled(BAD, "unusable")),
        };
        lines.push(format!("  {origin:<24} {place}  {verdict}"));
    }
    lines.join("\n")
}

fn install(printer: &Printer) -> Result<Exit, CommandError> {
    let cache = files::cache_dir();
    let before = toolchain::installed_root(&cache).is_some();
    let mut display = Installation::new(printer);
    let root = toolchain::install(&cache, &mut |progress| display.show(progress))
        .map_err(compiler::toolchain::ToolchainError::from)?;
    let wheels =
        toolchain::pinned_wheels().iter().map(|wheel| format!("{} {}", wheel.package, wheel.version));
    let installed = Installed { root, newly: !before, wheels: wheels.collect() };
    if printer.is_json() {
        printer.json("toolchain-install", &installed);
    } else {
        let verb = if installed.newly { "installed" } else { "already installed:" };
        printer.data(&format!("{verb} {} in {}", installed.wheels.join(", "), installed.root.display()));
    }
    Ok(Exit::Success)
}

fn clean(printer: &Printer) -> Result<Exit, CommandError> {
    let cache = files::cache_dir();
    let removed = toolchain::clean(&cache).map_err(compiler::toolchain::ToolchainError::from)?;
    if printer.is_json() {
        printer.json("toolchain-clean", &Cleaned { removed });
    } else {
        printer.data(if removed { "removed the installed CUDA compiler" } else { "nothing was installed" });
    }
    Ok(Exit::Success)
}
