//! How results are written, and how a command ended.

use std::process::ExitCode;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How a command ended that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything held.
    Held,
    /// Something did not; the output says what.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Held => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
        }
    }
}
