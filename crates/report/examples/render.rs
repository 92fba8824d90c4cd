//! Renders a report from its data: `cargo run --release -p flopsmith-report --example render < report.json > report.html`.

use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let report: flopsmith_report::RunReport = serde_json::from_str(&text)?;
    std::io::stdout().write_all(flopsmith_report::html(&report).as_bytes())?;
    Ok(())
}
