//! Prints the notices of every kernel of PTX files: `notices FILE...`

pub fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn std::error::Error>> {
    for path in arguments {
        let text = std::fs::read_to_string(&path)?;
        let names = text.lines().filter_map(|line| line.split_once(".entry ").map(|(_, rest)| rest));
        for name in names.filter_map(|rest| rest.split(['(', ' ']).next()) {
            let notices = vgpu::notices_in_ptx(&text, name);
            println!("{path}: {name}: {} notices", notices.len());
            for notice in notices {
                println!("  {}: {notice}", notice.name());
            }
        }
    }
    Ok(())
}
