//! Every command and flag, in one place.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit;

#[derive(Debug, Parser)]
#[command(name = "warpsmith", version, about, after_help = exit::TABLE, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Where kernels run, and so what they are compiled for
    #[arg(long, global = true, value_name = "auto|cuda[:N]|virtual[:GPU]", default_value = "auto")]
    pub device: String,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// A CUDA toolkit to use instead of the one that would be found
    #[arg(long, global = true, value_name = "DIR", env = "WARPSMITH_CUDA")]
    pub cuda: Option<PathBuf>,
    /// A folder of kernel families that are added to, or replace, the built-in ones
    #[arg(long, global = true, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this machine has and what it lacks, with remedies
    #[command(after_help = "Examples:\n  warpsmith doctor\n  warpsmith doctor --json")]
    Doctor,
    /// Show where the CUDA compiler comes from; install or remove Warpsmith's own
    #[command(after_help = "\
Examples:
  warpsmith toolchain             what was found, in the order it was looked for
  warpsmith toolchain install     fetch NVRTC and the CUDA headers from PyPI into the cache
  warpsmith toolchain clean       remove them again")]
    Toolchain(ToolchainOptions),
    /// List kernel families, or show one with its knobs, presets and capabilities
    #[command(after_help = "Examples:\n  warpsmith kernels\n  warpsmith kernels wmma")]
    Kernels(KernelsOptions),
    /// Compile kernels; show registers, shared memory, spills and occupancy
    #[command(after_help = "\
Examples:
  warpsmith build wmma --preset stage-c --arch sm_89
  warpsmith build wmma --set BLOCK_N=64 --axis dtype=e4m3 --device virtual:l4
  warpsmith build wmma --preset stage-c --emit out     write PTX, cubin and the generated header
  warpsmith build --all                                every preset for every target")]
    Build(BuildOptions),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  warpsmith completions bash > ~/.local/share/bash-completion/completions/warpsmith"
    )]
    Completions { shell: Shell },
    /// Write man pages into a folder
    #[command(after_help = "Example:\n  warpsmith man ~/.local/share/man/man1")]
    Man {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ToolchainOptions {
    #[command(subcommand)]
    pub action: Option<ToolchainAction>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ToolchainAction {
    /// Show what was chosen and why (the default)
    Show,
    /// Install the pinned compiler into the cache
    Install,
    /// Remove the installed compiler from the cache
    Clean,
}

#[derive(Debug, Args)]
pub struct KernelsOptions {
    /// Show this family in full
    pub family: Option<String>,
}

#[derive(Debug, Args)]
pub struct BuildOptions {
    /// The family to build; several with --all
    #[arg(required_unless_present = "all")]
    pub family: Option<String>,
    /// Every preset of the family, or of all families, for every target
    #[arg(long, conflicts_with_all = ["preset", "set"])]
    pub all: bool,
    /// A named setting of the knobs
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set a knob
    #[arg(long, value_name = "KNOB=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Set a compile-time property of the problem
    #[arg(long, value_name = "AXIS=VALUE", value_parser = assignment)]
    pub axis: Vec<(String, String)>,
    /// With --all: every value of every compile-time axis, not only the default one
    #[arg(long, requires = "all", conflicts_with = "axis")]
    pub every_axis: bool,
    /// Compile for this target instead of the device's
    #[arg(long, value_name = "sm_NN")]
    pub arch: Vec<String>,
    /// Write PTX, cubin and generated header into this folder
    #[arg(long, value_name = "DIR")]
    pub emit: Option<PathBuf>,
    /// Compilations at a time (default: one per core)
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
