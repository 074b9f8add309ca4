//! The cases of `corpus/ptx` for tests: installs the compilers, runs `make.py`, and reads what it has written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One kernel with its launch, its arguments and the contents that numpy expects.
pub struct Case {
    pub name: String,
    pub ptx: PathBuf,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub arguments: Vec<Argument>,
}

/// One parameter of the kernel.
pub struct Argument {
    /// `value`, `read`, `write`, `update` or `scratch`.
    pub role: String,
    /// The type of its elements, such as `f32`.
    pub element: String,
    /// The scalar of a `value`.
    pub value: Option<Value>,
    /// Number of elements of a buffer.
    pub count: usize,
    /// The contents before the launch.
    pub file: Option<PathBuf>,
    /// The contents after the launch, and how far they may differ: relative and absolute.
    pub expected: Option<(PathBuf, f64, f64)>,
}

/// A virtual environment with the compilers. It is locked while this value exists.
pub struct Environment {
    /// The folder of the environment and of files that are made with it.
    pub root: PathBuf,
    /// The interpreter.
    pub python: PathBuf,
    _lock: File,
}

/// The compilers, or why they cannot be installed on this machine. They are large (1.9 GB on disk), so they are installed
/// once below cargo's folder for test files.
pub fn environment(target_tmp: &Path) -> Result<Environment, String> {
    let root = target_tmp.join("ptx-corpus");
    fs::create_dir_all(&root).map_err(|error| error.to_string())?;
    let lock = File::create(root.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let python = install(&root, &scripts().join("requirements.txt"))?;
    Ok(Environment { root, python, _lock: lock })
}

/// The folder of the kernels and of `make.py`.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/ptx")
}

/// All cases, or why they cannot be made on this machine.
pub fn all(target_tmp: &Path) -> Result<Vec<Case>, String> {
    let environment = environment(target_tmp)?;
    let out = make(&environment.root, &scripts(), &environment.python)?;
    let mut cases = Vec::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(&out).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "json")) {
        cases.push(Case::from_file(file));
    }
    Ok(cases)
}

/// Installs the wheels into a virtual environment. Returns its interpreter.
fn install(root: &Path, requirements: &Path) -> Result<PathBuf, String> {
    let venv = root.join("venv");
    let python = venv.join("bin/python");
    let wanted = fs::read(requirements).map_err(|error| error.to_string())?;
    // The copy of the list shows that the installation is complete and has these versions.
    let complete = venv.join("requirements.txt");
    if fs::read(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let _ = fs::remove_dir_all(&venv);
    let interpreter = std::env::var_os("WARPSMITH_PYTHON").unwrap_or_else(|| "python3".into());
    let mut create = Command::new(interpreter);
    run(create.args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "-r",
    ]);
    run(pip.arg(requirements))?;
    fs::write(&complete, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// Runs `make.py`, unless its output is newer than all scripts. Returns the folder of its output.
fn make(root: &Path, scripts: &Path, python: &Path) -> Result<PathBuf, String> {
    let out = root.join("cases");
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let newest = fs::read_dir(scripts)
        .map_err(|error| error.to_string())?
        .flatten()
        .filter_map(|entry| modified(&entry.path()))
        .max();
    if modified(&out.join("complete")) > newest {
        return Ok(out);
    }
    let _ = fs::remove_dir_all(&out);
    let mut script = Command::new(python);
    // Neither the sources nor the user's folders get caches.
    script.env("PYTHONDONTWRITEBYTECODE", "1").env("TRITON_CACHE_DIR", root.join("triton"));
    run(script.arg(scripts.join("make.py")).arg(&out))?;
    fs::write(out.join("complete"), "").map_err(|error| error.to_string())?;
    Ok(out)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    Err(format!("{command:?} failed: {}", lines[lines.len().saturating_sub(8)..].join("\n")))
}

impl Case {
    fn from_file(file: &Path) -> Case {
        let text = fs::read_to_string(file).expect("a readable case");
        let json: Value = serde_json::from_str(&text).expect("a case in JSON");
        let folder = file.parent().expect("a folder");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let extents = |value: &Value| std::array::from_fn(|i| value[i].as_u64().expect("an extent") as u32);
        let path = |value: &Value| value.as_str().map(|name| folder.join(name));
        let arguments = json["arguments"].as_array().expect("arguments").iter().map(|row| Argument {
            role: text(&row["role"]),
            element: text(&row["type"]),
            value: row.get("value").cloned(),
            count: row["count"].as_u64().unwrap_or(0) as usize,
            file: path(&row["file"]),
            expected: path(&row["expected"]).map(|file| {
                let bound = |name: &str| row[name].as_f64().expect("a tolerance");
                (file, bound("rtol"), bound("atol"))
            }),
        });
        Case {
            name: text(&json["name"]),
            ptx: folder.join(text(&json["ptx"])),
            kernel: text(&json["kernel"]),
            grid: extents(&json["grid"]),
            block: extents(&json["block"]),
            shared: json["shared"].as_u64().expect("bytes") as u32,
            arguments: arguments.collect(),
        }
    }
}

impl Argument {
    /// Bytes per element.
    pub fn size(&self) -> usize {
        self.element[1..].parse::<usize>().expect("a type ends in its bits") / 8
    }

    /// The bytes of a scalar, or of a buffer before the launch.
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.value, &self.file) {
            (Some(value), _) => self.encode(value),
            (None, Some(file)) => elements(file),
            (None, None) => vec![0; self.count * self.size()],
        }
    }

    fn encode(&self, value: &Value) -> Vec<u8> {
        match self.element.as_str() {
            "f32" => (value.as_f64().expect("a number") as f32).to_le_bytes().to_vec(),
            "f64" => value.as_f64().expect("a number").to_le_bytes().to_vec(),
            _ => {
                let bits =
                    value.as_i64().map_or_else(|| value.as_u64().expect("an integer"), i64::cast_unsigned);
                bits.to_le_bytes()[..self.size()].to_vec()
            }
        }
    }

    /// Compares the contents after the launch with the expected ones.
    pub fn compare(&self, got: &[u8]) -> Result<(), String> {
        let Some((file, rtol, atol)) = &self.expected else { return Ok(()) };
        let wanted = elements(file);
        if wanted.len() != got.len() {
            return Err(format!("{} bytes, expected {}", got.len(), wanted.len()));
        }
        let (got, wanted) = (self.decode(got), self.decode(&wanted));
        for (i, (g, w)) in got.iter().zip(&wanted).enumerate() {
            // A NaN fails.
            let is_close = (g - w).abs() <= atol + rtol * w.abs();
            if !is_close {
                return Err(format!("element {i} is {g}, expected {w} (rtol {rtol}, atol {atol})"));
            }
        }
        Ok(())
    }

    /// The values as `f64`. The integers of the cases fit.
    fn decode(&self, bytes: &[u8]) -> Vec<f64> {
        let values = bytes.chunks_exact(self.size());
        let bits = values.map(|v| v.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte)));
        let width = 8 * self.size() as u32;
        bits.map(|bits| match self.element.as_str() {
            "f16" => half(bits as u16),
            "f32" => f64::from(f32::from_bits(bits as u32)),
            "f64" => f64::from_bits(bits),
            name if name.starts_with('u') => bits as f64,
            _ => ((bits << (64 - width)).cast_signed() >> (64 - width)) as f64,
        })
        .collect()
    }
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    }
}

/// The elements of a `.npy` file of one dimension, without its header.
fn elements(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).expect("a readable array");
    assert!(bytes.starts_with(b"\x93NUMPY\x01"), "{} is not a .npy file of version 1", file.display());
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].to_vec()
}
