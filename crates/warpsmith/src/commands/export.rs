//! `export`: writes an op as a solution of another project's benchmark.

use std::fs;
use std::path::PathBuf;

use op::OpProblems as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{ExportOptions, Global};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops::AnyOp;
use crate::printer::Printer;

#[derive(JsonSchema, Serialize)]
pub struct Document {
    problem: String,
    files: Vec<PathBuf>,
}

/// Writes the files. Nothing that exists is overwritten.
pub fn run(options: &ExportOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    let op = AnyOp::of_command(global, &[], &catalog)?;
    let problems = op.problems(&options.problem)?;
    let [problem] = problems.as_slice() else {
        return Err(CommandError::usage(format!("`{}` names several problems; name one", options.problem)));
    };
    let exported = op.export(options.evaluator, problem)?;
    let paths: Vec<PathBuf> = exported.iter().map(|(file, _)| options.out.join(file)).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(CommandError::usage(format!("{} exists", path.display()))
            .hint("name another folder with --out, or remove the file"));
    }
    for (path, (_, text)) in paths.iter().zip(&exported) {
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
        written
            .map_err(|error| CommandError::missing(format!("cannot write {}: {error}", path.display())))?;
    }
    if printer.is_json() {
        printer.json("export", &Document { problem: problem.to_string(), files: paths });
        return Ok(Exit::Success);
    }
    for path in paths {
        printer.data(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Success)
}
