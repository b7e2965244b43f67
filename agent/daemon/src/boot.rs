//! What counts within one boot only.

/// Whether what was remembered under one boot id is of the boot with another. A host that cannot
/// tell its boot remembers nothing.
pub(crate) fn is_same(remembered: &str, now: &str) -> bool {
    remembered == now && !now.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_without_a_name_is_no_boot() {
        assert!(is_same("a", "a"));
        assert!(!is_same("a", "b"));
        assert!(!is_same("", ""));
    }
}
