//! Where text goes: data to stdout, everything else to stderr.

use std::{
    io::{self, Write as _},
    process,
};

/// Writes data to stdout. When nobody reads it any more (`kedge … | head`), the process ends
/// quietly.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => { $crate::output::write_out(&format!($($text)*)) };
}

/// Writes a line to stderr: what is not data.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write_err(&format!($($text)*)) };
}

/// Writes text to stdout; used by [`out!`](crate::out).
pub fn write_out(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        if error.kind() == io::ErrorKind::BrokenPipe {
            process::exit(0);
        }
        write_err(&format!("cannot write the output: {error}"));
        process::exit(1);
    }
}

/// Writes a line to stderr. Nobody is left to tell when that fails.
pub(crate) fn write_err(text: &str) {
    let mut line = text.trim_end().to_owned();
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
