//! Test families: one correct kernel, and kernels that each fail in a different way.

use std::fs;
use std::path::Path;

/// Writes copies of the reference family, each with one change.
pub fn drill(folder: &Path) {
    // A test program that was copied to a machine with a GPU runs in a copy of the repository.
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention");
    let kernels = if built_in.is_dir() { built_in } else { "kernels/attention".into() };
    let write = |family: &str, file: &str, text: &str| {
        let folder = folder.join("attention").join(family);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    };
    for entry in fs::read_dir(kernels.join("common")).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        write("common", entry.file_name().to_str().unwrap(), &text);
    }
    let source = fs::read_to_string(kernels.join("reference/kernel.cu")).unwrap();
    let manifest = fs::read_to_string(kernels.join("reference/kernel.toml")).unwrap();
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "no `{from}`");
        text.replace(from, to)
    };
    let start = "    const int row = blockIdx.x,";
    let at_start = |line: &str| changed(&source, start, &format!("    {line}\n{start}"));
    let answer = "from_float(o[d], out * scale_out);";
    let a_megabyte =
        "[[shared]]\nname = \"everything\"\nelement = \"float\"\nshape = [\"262144\"]\n\n[[workspace]]";
    for (family, text) in [
        ("good", source.clone()),
        ("hangs", at_start("while (*static_cast<const volatile unsigned*>(args.q) != 0xffffffffu) {}")),
        ("sleeps", at_start("for (unsigned ns = 1;; ns = 5 * ns + 1) __nanosleep(ns % 256);")),
        ("strays", at_start("static_cast<volatile float*>(args.o)[1ll << 40] = 1.0f;")),
        ("traps", at_start("__trap();")),
        ("nan", changed(&source, answer, "from_float(o[d], __int_as_float(0x7fc00000));")),
        ("broken", at_start("this is no CUDA;")),
        ("huge", source.clone()),
    ] {
        write(family, "kernel.cu", &text);
        write(family, "kernel.toml", &manifest);
    }
    write("huge", "kernel.toml", &changed(&manifest, "[[workspace]]", a_megabyte));
}
