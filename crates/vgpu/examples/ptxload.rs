//! Loads PTX files and prints what stands against them: `cargo run --example ptxload -- FILE...`

fn main() {
    let mut bad = 0;
    for path in std::env::args().skip(1) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("{path}: cannot be read");
            bad += 1;
            continue;
        };
        if let Err(e) = warpsmith_vgpu::program::load(&text) {
            println!("{path}:\n{e}");
            bad += 1;
        }
    }
    println!("{bad} refused");
    std::process::exit(i32::from(bad > 0));
}
