//! The page of commands.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::cell;

/// Every visible command with its help, as Markdown.
pub(super) fn page(mut command: Command) -> String {
    // Propagates global flags and full names, as parsing would.
    command.build();
    let mut page = "# Command line\n\nWritten by `kedge` itself.\n".to_owned();
    section(&command, "kedge", 2, &mut page);
    page
}

fn section(command: &Command, name: &str, depth: usize, page: &mut String) {
    let mut line = |text: String| {
        page.push_str(&text);
        page.push('\n');
    };
    line(format!("\n{} `{name}`\n", "#".repeat(depth.min(4))));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        line(format!("{about}\n"));
    }
    line(format!("```text\n{}\n```", usage(command, name)));
    let visible = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    // Global flags stand once, with the program itself.
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(visible)
        .filter(|arg| depth == 2 || !arg.is_global_set())
        .filter(|arg| depth == 2 || arg.get_id() != "version")
        .collect();
    if !own.is_empty() {
        line("\n| argument | meaning |\n|---|---|".to_owned());
        for arg in own {
            line(format!("| `{}` | {} |", cell(&spelling(arg)), meaning(arg)));
        }
    }
    if depth == 2
        && let Some(after) = command.get_after_help()
    {
        line(format!("\n```text\n{after}\n```"));
    }
    for child in command.get_subcommands() {
        if !child.is_hide_set() && child.get_name() != "help" {
            section(
                child,
                &format!("{name} {}", child.get_name()),
                depth + 1,
                page,
            );
        }
    }
}

fn usage(command: &Command, name: &str) -> String {
    let mut usage = name.to_owned();
    if command
        .get_subcommands()
        .any(|child| !child.is_hide_set() && child.get_name() != "help")
    {
        usage.push_str(" <COMMAND>");
    }
    if command
        .get_opts()
        .any(|arg| !arg.is_hide_set() && !arg.is_global_set())
    {
        usage.push_str(" [OPTIONS]");
    }
    for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
        let _ = write!(usage, " {}", spelling(arg));
    }
    usage
}

/// The argument as it is typed.
fn spelling(arg: &Arg) -> String {
    let value = arg
        .get_value_names()
        .and_then(<[_]>::first)
        .map(ToString::to_string);
    let takes_value = arg.get_action().takes_values();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => {
            let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
            return if arg.is_required_set() {
                value
            } else {
                format!("[{value}]")
            };
        }
    };
    match value {
        Some(value) if takes_value => format!("{name} {value}"),
        _ => name,
    }
}

fn meaning(arg: &Arg) -> String {
    let mut meaning = arg
        .get_help()
        .map(|help| cell(&help.to_string()))
        .unwrap_or_default();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|choice| !choice.is_hide_set())
        .map(|choice| format!("`{}`", choice.get_name()))
        .collect();
    let flag = !arg.get_action().takes_values();
    if !choices.is_empty() && !flag {
        let _ = write!(meaning, "; one of {}", choices.join(", "));
    }
    if !defaults.is_empty() && !flag {
        let _ = write!(meaning, "; default `{}`", defaults.join(" "));
    }
    meaning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_and_flags_stay_out_and_the_rest_is_there() {
        let program = Command::new("kedge")
            .about("A program")
            .arg(
                Arg::new("root")
                    .long("root")
                    .global(true)
                    .value_name("DIR")
                    .help("Where"),
            )
            .subcommand(
                Command::new("status").about("Show it").arg(
                    Arg::new("name")
                        .required(true)
                        .value_name("NAME")
                        .help("Which | one"),
                ),
            )
            .subcommand(Command::new("secret").hide(true));
        let page = page(program);
        assert!(page.contains("### `kedge status`\n\nShow it\n"), "{page}");
        assert!(page.contains("| `NAME` | Which \\| one |"), "{page}");
        assert!(page.contains("| `--root DIR` | Where |"), "{page}");
        assert!(!page.contains("secret"), "{page}");
        assert_eq!(page.matches("--root DIR").count(), 1, "{page}");
    }
}
