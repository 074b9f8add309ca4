//! Prints the notices of every kernel of PTX files: `cargo run -p warpsmith-vgpu --example notices -- FILE...`

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path)?;
        let names = text.lines().filter_map(|line| line.split_once(".entry ").map(|(_, rest)| rest));
        for name in names.filter_map(|rest| rest.split(['(', ' ']).next()) {
            let notices = warpsmith_vgpu::notices_in_ptx(&text, name);
            println!("{path}: {name}: {} notices", notices.len());
            for notice in notices {
                println!("  {}: {notice}", notice.name());
            }
        }
    }
    Ok(())
}
