//! System calls for `netns`.
