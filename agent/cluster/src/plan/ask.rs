//! What is asked of the manager for one exposure.

use crate::snapshot::ManagerRefusal;

/// What is asked.
#[derive(Debug)]
pub struct Ask<S> {
    /// Whether it is to be told: the manager has it otherwise or not at all, and did not refuse it.
    pub is_new: bool,
    /// What stands in the whole set; nothing where all that was ever asked for is refused.
    pub spec: Option<S>,
}

/// Asks for what is wanted, unless that was refused: what was taken before is asked for until another
/// thing is taken.
pub fn ask<S: PartialEq>(
    refused: Option<&ManagerRefusal<S>>,
    known: Option<S>,
    wanted: S,
) -> Ask<S> {
    let is_refused = refused.is_some_and(|refused| refused.spec == wanted);
    Ask {
        is_new: !is_refused && known.as_ref() != Some(&wanted),
        spec: if is_refused { known } else { Some(wanted) },
    }
}
