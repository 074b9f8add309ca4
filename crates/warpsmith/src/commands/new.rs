//! `new`: writes a folder for an op of the user's own that already passes its checks.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, NewOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops;
use crate::printer::{FAINT, Printer, STRONG, styled};
use text::quote;

/// The files of the template. `NAME` stands for the op's name.
const TEMPLATE: [(&str, &str); 6] = [
    ("op.toml", include_str!("../../templates/op/op.toml")),
    ("reference.py", include_str!("../../templates/op/reference.py")),
    ("baselines.py", include_str!("../../templates/op/baselines.py")),
    ("suites/main.toml", include_str!("../../templates/op/suites/main.toml")),
    ("block/kernel.toml", include_str!("../../templates/op/block/kernel.toml")),
    ("block/kernel.cu", include_str!("../../templates/op/block/kernel.cu")),
];
/// The folder of the user's ops if `--kernels` names none.
const FOLDER: &str = "kernels";

#[derive(JsonSchema, Serialize)]
pub struct Document {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

/// Writes the folder. Nothing that exists is overwritten.
pub fn run(options: &NewOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let name = &options.name;
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_name || name == ops::DEFAULT {
        return Err(CommandError::usage(format!("`{name}` cannot be the name of an op"))
            .hint("use lower-case letters, digits and `_`, as in `rms_norm`"));
    }
    if ops::names(&family::Catalog::load(None)?).contains(name) {
        let message = format!("`{name}` is an op of Warpsmith; a folder of this name would replace it");
        return Err(CommandError::usage(message).hint(format!("choose another name, as in `my_{name}`")));
    }
    let kernels = global.kernels.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    let folder = kernels.join(name);
    if folder.exists() {
        return Err(CommandError::usage(format!("{} exists", folder.display()))
            .hint("choose another name, or remove the folder"));
    }
    let mut files = Vec::new();
    for (file, text) in TEMPLATE {
        let path = folder.join(file);
        write(&path, &text.replace("NAME", name))
            .map_err(|error| CommandError::missing(format!("cannot write {}: {error}", path.display())))?;
        files.push(path);
    }
    if printer.is_json() {
        printer.json("new", &Document { folder, files });
        return Ok(Exit::Success);
    }
    printer.data(&styled(STRONG, format!("wrote {}", folder.display())));
    for (file, about) in [
        ("op.toml", "what is computed: sizes, arguments, problems, tolerances"),
        ("reference.py", "the right answer, in numpy"),
        ("baselines.py", "what people use today, in PyTorch"),
        ("suites/main.toml", "the problems that are measured"),
        ("block/kernel.cu", "a kernel"),
        ("block/kernel.toml", "its knobs, presets and launch"),
    ] {
        printer.data(&format!("  {file:<18} {}", styled(FAINT, about)));
    }
    let kernels = quote::flag("--kernels", &kernels);
    printer.data("\nIt computes RMSNorm; change it to compute your op. Next:");
    for command in ["check", "bench", "evolve", "profile"] {
        printer.verbatim_data(&format!("  warpsmith {command} {name} {kernels}"));
    }
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    files::write_atomically(path, text.as_bytes())
}
