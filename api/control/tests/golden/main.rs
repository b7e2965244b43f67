//! The wire, letter by letter: every type as it stands in `tests/golden/*.json`, both ways.
//!
//! A file that must change is a change of the wire: fields are only ever added. Write the files
//! anew with `KEDGE_UPDATE_GOLDEN=1 cargo test -p kedge-control --test golden`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

mod bgp;
mod desired;
mod enrolment;
mod exposures;
mod fleet;
mod roles;

use std::{fmt::Debug, fs, path::PathBuf};

use kedge_control::Document;
use kedge_core::{Code, Fix, Problem};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The value is what the file says, and the file is what the value says.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, value: &T) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    let written = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("KEDGE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(written, kept, "{name}.json");
    assert_eq!(
        &serde_json::from_str::<T>(&kept).unwrap(),
        value,
        "{name}.json"
    );
    // Unknown fields are how a newer version speaks: what a person or a host reads tolerates them.
    let mut more: Value = serde_json::from_str(&kept).unwrap();
    if let (Some(object), false) = (more.as_object_mut(), name.ends_with("request")) {
        object.insert("addedLater".to_owned(), Value::Bool(true));
        assert_eq!(
            &serde_json::from_value::<T>(more).unwrap(),
            value,
            "{name}.json"
        );
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn problems() {
    golden(
        "problem",
        &Document::new(
            Problem::new(
                Code::VipVridInUse,
                "VRID 252 is used by another router on eth0",
            )
            .object("vips/api")
            .evidence("advert from 00:1b:17:aa:20:01 (10.20.14.1)")
            .consequence("the VIP is not claimed on this host")
            .fix(
                Fix::text("choose another VRID on every host of this group")
                    .command("kedge config set vips.api.vrid=188 && kedge reload"),
            ),
        ),
    );
}
