//! A person's yes to what cannot be taken back.

use std::io::{self, BufRead as _, IsTerminal as _};

use kedge_core::{Code, Fix, Problem};

/// Whether somebody is there who can be asked.
pub fn can_be_asked() -> bool {
    io::stdin().is_terminal()
}

/// What whoever cannot be asked is told: the command says it as well.
pub fn unasked(command: &str) -> Problem {
    Problem::new(Code::SysUsage, "nobody can be asked whether it is meant")
        .consequence("nothing was changed")
        .fix(
            Fix::text("say so with --yes, or only look with --dry-run")
                .command(format!("{command} --yes")),
        )
}

/// Asks; who says no is told that nothing happened.
pub fn is_meant(question: &str) -> bool {
    say!("{question} Type yes:");
    let mut said = String::new();
    let read = io::stdin().lock().read_line(&mut said);
    let is_meant = read.is_ok() && said.trim() == "yes";
    if !is_meant {
        say!("Nothing was changed.");
    }
    is_meant
}
