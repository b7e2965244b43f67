//! What each fault cost each client.

use std::{fmt, time::Duration};

use crate::client::Via;

/// A row for each fault and client.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<(String, Via, Duration, Duration)>,
}

impl Table {
    /// Adds what a fault cost: the longest silence of the watch and of requests.
    pub fn add(&mut self, fault: &str, gaps: &[(Via, Duration, Duration)]) {
        let rows = gaps
            .iter()
            .map(|(via, watch, request)| (fault.to_owned(), *via, *watch, *request));
        self.rows.extend(rows);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: &Duration| format!("{} ms", span.as_millis());
        writeln!(
            f,
            "\n{:<34}{:<26}{:>12}{:>12}",
            "FAULT", "CLIENT", "WATCH", "REQUESTS"
        )?;
        for (fault, via, watch, request) in &self.rows {
            let (watch, request) = (ms(watch), ms(request));
            writeln!(
                f,
                "{fault:<34}{:<26}{watch:>12}{request:>12}",
                via.to_string()
            )?;
        }
        Ok(())
    }
}
