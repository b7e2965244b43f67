//! Signed advertisements.

use std::path::PathBuf;

use super::load;

#[test]
fn the_number_of_a_key_is_a_number_or_a_text() {
    for auth in [
        "{active_key: 1, keys: {1: /x}}",
        "{active_key: '1', keys: {'1': /x}}",
    ] {
        let yaml = format!("vips: {{api: {{addresses: [10.20.14.10], auth: {auth}}}}}");
        let vip = load(&yaml).unwrap().vips.into_values().next().unwrap();
        let auth = vip.auth.unwrap();
        assert_eq!(auth.active_key.get(), 1);
        assert_eq!(
            auth.keys.into_values().collect::<Vec<_>>(),
            [PathBuf::from("/x")]
        );
    }
}
