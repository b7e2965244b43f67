//! What other programs say to the bench.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use crate::error::LabError;

/// What a program answers to `input`, without the end of the line.
pub(super) fn said(mut command: Command, input: &str) -> Result<String, LabError> {
    let who = command.get_program().to_string_lossy().into_owned();
    let failed = |said: String| LabError::Unexpected {
        who: who.clone(),
        said,
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever does not read it has an error to tell.
        _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
