//! Builds the Python package: a wheel with the native module and the program, and a source distribution.
//!
//! The program starts itself as worker processes, so the wheel has the real program and not a function of the module.
//! maturin is installed into a virtual environment below `target`.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::pack;

/// The version of maturin that builds the package.
const MATURIN: &str = "maturin==1.16.0";

/// What the quickstart needs besides the wheel.
const QUICKSTART_NEEDS: [&str; 2] = ["numpy==2.4.6", "triton==3.9.0"];

/// `wheel [--kernels] [--try]`: builds the package, with `--kernels` also the attention kernels. With `--try` it also
/// installs the wheel and runs the quickstart.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut is_tried, mut has_kernels) = (false, false);
    for argument in arguments {
        match argument.as_str() {
            "--try" => is_tried = true,
            "--kernels" => has_kernels = true,
            _ => return Err("usage: wheel [--kernels] [--try]".into()),
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let wheels = target.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    check(Command::new(cargo).current_dir(root).args(["build", "--release", "--package", "warpsmith"]))?;
    let scripts = root.join("python/warpsmith.data/scripts");
    fs::create_dir_all(&scripts)?;
    fs::copy(target.join("release/warpsmith"), scripts.join("warpsmith"))?;

    let maturin = environment(&target.join("maturin"), &[MATURIN.as_ref()])?.with_file_name("maturin");
    let package = root.join("python");
    let pack = package.join("warpsmith/kernels.pack");
    if has_kernels {
        fs::write(&pack, pack::build(&pack::GPUS.map(str::to_owned))?.1)?;
    } else if pack.exists() {
        // Kernels of older sources would never be found.
        fs::remove_file(&pack)?;
    }
    let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
    for licence in licences {
        fs::copy(root.join(licence), package.join(licence))?;
    }
    let built = check(
        Command::new(&maturin).current_dir(&package).args(["build", "--release", "--out"]).arg(&wheels),
    )
    .and_then(|()| check(Command::new(&maturin).current_dir(&package).args(["sdist", "--out"]).arg(&wheels)));
    for licence in licences {
        fs::remove_file(package.join(licence))?;
    }
    built?;
    for file in fs::read_dir(&wheels)?.flatten() {
        println!("{} ({:.1} MB)", file.path().display(), file.metadata()?.len() as f64 / 1e6);
    }
    if is_tried { try_wheel(root, &target, &wheels) } else { Ok(()) }
}

/// Installs the wheel into a new virtual environment, and runs the quickstart and the program.
fn try_wheel(root: &Path, target: &Path, wheels: &Path) -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = fs::read_dir(wheels)?.flatten().map(|file| file.path()).collect();
    let wheel = files
        .iter()
        .find(|file| file.extension().is_some_and(|it| it == "whl"))
        .ok_or("no wheel was built")?;
    let began = Instant::now();
    let folder = target.join("wheel-try");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let needs = QUICKSTART_NEEDS.map(OsStr::new);
    let python = environment(&folder, &[&[wheel.as_os_str()], needs.as_slice()].concat())?;
    check(Command::new(&python).arg(root.join("python/examples/quickstart.py")))?;
    check(Command::new(python.with_file_name("warpsmith")).arg("--version"))?;
    println!("installed and tried in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// A virtual environment with these packages. Returns its interpreter.
fn environment(folder: &Path, packages: &[&OsStr]) -> Result<PathBuf, Box<dyn Error>> {
    let python = folder.join("bin/python");
    if !python.exists() {
        let interpreter =
            subprocess::python::interpreter().ok_or("there is no Python; install Python 3.10 or newer")?;
        check(Command::new(interpreter).args(["-m", "venv"]).arg(folder))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    check(Command::new(&python).args(pip).args(packages))?;
    Ok(python)
}

fn check(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command
        .status()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}
