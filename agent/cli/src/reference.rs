//! The reference, written by the program about itself: commands from clap, settings from the
//! schemas of the role files. `cargo xtask docs` puts it into `docs/reference/`.

mod commands;
mod settings;

use std::{fs, io, path::Path};

use schemars::Schema;

/// Writes every page below `folder`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, command: clap::Command, schemas: &[(&str, Schema)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("cli.md"), commands::page(command))?;
    for (role, schema) in schemas {
        let page = settings::page(role, schema.as_value());
        fs::write(folder.join(format!("config-{role}.md")), page)?;
        let mut text = serde_json::to_string_pretty(schema.as_value())?;
        text.push('\n');
        fs::write(folder.join(format!("{role}.schema.json")), text)?;
    }
    Ok(())
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
