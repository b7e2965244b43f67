//! A command line that cannot be understood. The words are clap's, the code and the shape are
//! ours: whoever asked for data gets the same [`Problem`] as for everything else.

use std::ffi::OsString;

use clap::ValueEnum as _;
use kedge_control::Document;
use kedge_core::{Code, Fix, Problem};

use crate::{args::Format, exit::Exit, show};

/// Tells what clap has to say: help, the version, or what is wrong with `arguments`.
pub(crate) fn tell(error: &clap::Error, arguments: impl Iterator<Item = OsString>) -> Exit {
    if error.exit_code() == 0 {
        // Help and the version are no errors and go to stdout; clap knows which is which.
        let _ = error.print();
        return Exit::Ok;
    }
    let document = match format(arguments) {
        Some(format @ (Format::Json | Format::Yaml | Format::Jsonl)) => {
            serde_json::to_value(Document::new(problem(error)))
                .ok()
                .and_then(|document| show::data(&document, format).ok())
        }
        _ => None,
    };
    match document {
        Some(text) => out!("{text}"),
        None => {
            let _ = error.print();
            // Help that was shown because nothing was asked for is no mistake to look up.
            if error.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                say!("{0}, more: kedge explain {0}", Code::SysUsage);
            }
        }
    }
    Exit::Usage
}

fn problem(error: &clap::Error) -> Problem {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what = lines.next().unwrap_or("the command is not complete");
    let what = what.strip_prefix("error: ").unwrap_or(what).to_owned();
    let mut problem = Problem::new(Code::SysUsage, what).consequence("nothing was done");
    for line in lines.filter(|line| !line.starts_with("For more information")) {
        problem = problem.evidence(line);
    }
    problem.fix(Fix::text("compare with the help of the command").command("kedge --help"))
}

/// The format that was asked for, as far as that can be told from a line with a mistake in it.
fn format(arguments: impl Iterator<Item = OsString>) -> Option<Format> {
    let mut found = None;
    let mut value_follows = false;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let value = if value_follows {
            Some(&*argument)
        } else {
            argument
                .strip_prefix("--output=")
                .or_else(|| argument.strip_prefix("-o="))
                .or_else(|| argument.strip_prefix("-o").filter(|rest| !rest.is_empty()))
        };
        value_follows = matches!(&*argument, "-o" | "--output");
        found = value
            .and_then(|value| Format::from_str(value, false).ok())
            .or(found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_found_however_it_is_written() {
        let of = |line: &str| format(line.split(' ').map(OsString::from));
        assert_eq!(of("-o json staus"), Some(Format::Json));
        assert_eq!(of("staus -oyaml"), Some(Format::Yaml));
        assert_eq!(of("staus --output=jsonl"), Some(Format::Jsonl));
        assert_eq!(of("staus --output name"), Some(Format::Name));
        assert_eq!(of("status -o xml"), None);
        assert_eq!(of("status -o"), None);
    }
}
