//! Columns of text without lines, as every table of `kedge`.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// A table with these titles, of which some are above numbers.
pub(crate) fn columns(titles: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(titles.iter().map(|title| title.to_uppercase()));
    for index in numbers {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
