//! Embeds the error pages of `docs/errors/` into the crate.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let folder = Path::new(&root).join("../../docs/errors").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("KEDGE-"))
        .collect();
    names.sort();
    // One arm per page that exists; a code without one gets the empty page, which a test refuses.
    let mut source =
        "pub(super) fn page(code: super::Code) -> &'static str {\n    match code.to_string().as_str() {\n"
            .to_owned();
    for name in names {
        let code = name.trim_end_matches(".md");
        // The text itself: a path would make another crate of it in another folder.
        let page = fs::read_to_string(folder.join(&name))?;
        writeln!(source, "        {code:?} => {page:?},")?;
    }
    source.push_str("        _ => \"\",\n    }\n}\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("pages.rs"), source)?;
    Ok(())
}
