//! The reference, written by the program about itself: commands from clap, settings from the
//! schemas of the role files, metrics from their registry. `cargo xtask docs` puts it into `docs/reference/`.
//!
//! An example and not a command: it is for whoever builds Kedge, and need not be shipped.

mod commands;
mod defaults;
mod metrics;
mod settings;

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = env::args_os().nth(1).ok_or("usage: reference DIR")?.into();
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("cli.md"), commands::page(kedge_cli::command()))?;
    fs::write(folder.join("metrics-manager.md"), metrics::page()?)?;
    for (role, schema) in kedge_cli::schemas() {
        let defaults = defaults::Defaults::of(role);
        let role = role.as_str();
        let page = settings::page(role, schema.as_value(), &defaults);
        fs::write(folder.join(format!("config-{role}.md")), page)?;
        let mut text = serde_json::to_string_pretty(schema.as_value())?;
        text.push('\n');
        fs::write(folder.join(format!("{role}.schema.json")), text)?;
    }
    Ok(())
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
