//! Running a role in the foreground.
