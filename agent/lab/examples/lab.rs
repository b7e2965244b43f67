//! The lab without the rest of the command line.
use clap::Parser;

#[derive(Parser)]
enum Cli {
    #[command(subcommand)]
    Lab(kedge_agent_lab::LabCommand),
    #[command(subcommand)]
    LabRole(kedge_agent_lab::roles::LabRole),
}

fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    Ok(match Cli::parse() {
        Cli::Lab(command) => kedge_agent_lab::run(command, kedge_agent_lab::Output::Table)?.into(),
        Cli::LabRole(role) => {
            kedge_agent_lab::roles::run(role)?;
            std::process::ExitCode::SUCCESS
        }
    })
}
