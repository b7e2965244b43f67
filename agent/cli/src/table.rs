//! Columns of text without lines, as network tools print them.

use crate::style::clean;

/// A table; cells of others are escaped.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Row>,
    columns: usize,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<String>),
    // Stands below the row before it, outside the columns.
    Note(String),
}

impl Table {
    /// A table with these column titles.
    #[must_use]
    pub fn new(titles: &[&str]) -> Self {
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        Self {
            columns: titles.len(),
            rows: vec![Row::Cells(titles)],
        }
    }

    /// Adds a row; an empty cell is shown as `-`.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells = cells
            .into_iter()
            .take(self.columns)
            .map(|cell| match cell.as_ref() {
                "" => "-".to_owned(),
                text => clean(text).into_owned(),
            })
            .collect();
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line below the last row.
    pub fn note(&mut self, text: String) {
        self.rows.push(Row::Note(text));
    }

    /// The text, each line ended.
    #[must_use]
    pub fn render(&self) -> String {
        let mut widths = vec![0; self.columns];
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.chars().count());
                }
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let line = match row {
                Row::Note(note) => note.clone(),
                Row::Cells(cells) => cells
                    .iter()
                    .zip(&widths)
                    .map(|(cell, width)| format!("{cell:<width$}"))
                    .collect::<Vec<_>>()
                    .join("  "),
            };
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_draws() {
        let mut table = Table::new(&["NAME", "STATE", "X"]);
        table.row(["api", "Active", ""]);
        table.note("  note".to_owned());
        table.row(["a-long-name", "\x1b[31m", "y"]);
        assert_eq!(
            table.render(),
            "NAME         STATE       X\n\
             api          Active      -\n  \
             note\n\
             a-long-name  \\u{1b}[31m  y\n"
        );
    }
}
