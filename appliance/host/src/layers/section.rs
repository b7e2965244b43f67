//! Sections of a configuration file.

/// A section of a configuration file: every field is optional, so that a layer sets only what it
/// names, and an unknown key is an error. The caller's crate depends on `serde` and `schemars`.
#[macro_export]
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq,
            ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema,
        )]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }
    };
}
