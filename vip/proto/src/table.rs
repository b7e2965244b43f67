//! Tables that say what a machine does: every state and every input, as text beside the test.

/// Compares a table with what was rendered now. `KEDGE_BLESS=1 cargo test -p kedge-vip-proto table`
/// writes it anew; the difference is then what a change means, and is reviewed like code.
pub(crate) fn agrees(path: &str, rendered: &str) {
    if std::env::var_os("KEDGE_BLESS").is_some() {
        std::fs::write(path, rendered).unwrap();
    }
    let table = std::fs::read_to_string(path).unwrap();
    for (line, (expected, found)) in table.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(found, expected, "{path}:{}", line + 1);
    }
    assert_eq!(rendered.lines().count(), table.lines().count());
}
