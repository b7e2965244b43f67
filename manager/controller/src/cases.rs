//! How many cases a property is tried with.

use proptest::prelude::ProptestConfig;

/// So many, or as many as `PROPTEST_CASES` asks for.
pub fn usually(cases: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if is_asked { config.cases } else { cases },
        ..config
    }
}
