//! nftables, through the `nft` program: fine for installing rules, never on the path of a
//! failover.
//!
//! `nft` runs in the namespace of the calling thread.

use std::{
    borrow::Cow,
    io::{self, Write},
    process::{Command, Stdio},
};

use kedge_core::{Code, Coded, Fix, Problem};
use nftables::{
    batch::Batch,
    expr::{Expression, Meta, MetaKey, NamedExpression},
    schema::{Chain, NfListObject, Rule, Table},
    stmt::{Match, Operator, Statement},
    types::{NfChainType, NfFamily, NfHook},
};

pub use nftables::schema::Nftables;
use serde::Deserialize;

/// Why a ruleset is not in force.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The text is no ruleset in nftables' JSON.
    #[error("the ruleset is no nftables JSON")]
    Json(#[source] serde_json::Error),
    /// `nft` cannot be started.
    #[error("cannot run nft")]
    Program(#[source] io::Error),
    /// `nft` refused the ruleset.
    #[error("nft refused the ruleset: {said}")]
    Refused {
        /// What it said.
        said: String,
    },
}

/// Applies a ruleset in one transaction: all of it or nothing.
///
/// # Errors
/// When `nft` is missing or refuses.
pub fn apply(ruleset: &Nftables<'_>) -> Result<(), NftError> {
    let text = serde_json::to_vec(ruleset).map_err(NftError::Json)?;
    // The crate's own helper lets `nft` write to our stderr and loses what it said.
    load(&["-j", "-f", "-"], &text)
}

/// Applies a ruleset in the language of `nft` in one transaction: all of it or nothing. For what
/// its JSON has no form for.
///
/// # Errors
/// As [`apply`].
pub fn apply_text(ruleset: &str) -> Result<(), NftError> {
    load(&["-f", "-"], ruleset.as_bytes())
}

/// The names of the tables of a family (`ip`, `netdev`, …).
///
/// # Errors
/// As [`apply`].
pub fn tables(family: &str) -> Result<Vec<String>, NftError> {
    let output = Command::new("nft")
        .args(["-j", "list", "tables", family])
        .output()
        .map_err(NftError::Program)?;
    if !output.status.success() {
        return Err(refused(&output.stderr));
    }
    let listed: Listed = serde_json::from_slice(&output.stdout).map_err(NftError::Json)?;
    let tables = listed.nftables.into_iter().filter_map(|it| it.table);
    Ok(tables.map(|table| table.name).collect())
}

/// What `nft -j list tables` says (`man libnftables-json`). The crate knows every object there is, which is
/// far more than hosts need of it.
#[derive(Deserialize)]
struct Listed {
    nftables: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    table: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn load(arguments: &[&str], text: &[u8]) -> Result<(), NftError> {
    let mut nft = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NftError::Program)?;
    // An `nft` that ended early is told by its exit below, not by the broken pipe.
    _ = nft.stdin.take().map(|mut stdin| stdin.write_all(text));
    let output = nft.wait_with_output().map_err(NftError::Program)?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(&output.stderr))
}

fn refused(said: &[u8]) -> NftError {
    let said = String::from_utf8_lossy(said);
    let said: String = said
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    NftError::Refused {
        said: said.trim().to_owned(),
    }
}

/// Applies a ruleset written as nftables' JSON (`man libnftables-json`).
///
/// # Errors
/// When it is no ruleset, and as [`apply`].
pub fn apply_json(text: &str) -> Result<(), NftError> {
    apply(&serde_json::from_str(text).map_err(NftError::Json)?)
}

/// Has everything that leaves by `link` take that link's address: what a home router does.
///
/// # Errors
/// As [`apply`].
pub fn masquerade(link: &str) -> Result<(), NftError> {
    let table = || Cow::Borrowed("kedge_nat");
    let chain = || Cow::Borrowed("postrouting");
    let leaves = Statement::Match(Match {
        left: Expression::Named(NamedExpression::Meta(Meta {
            key: MetaKey::Oifname,
        })),
        right: Expression::String(link.into()),
        op: Operator::EQ,
    });
    let mut batch = Batch::new();
    batch.add(NfListObject::Table(Table {
        family: NfFamily::IP,
        name: table(),
        handle: None,
    }));
    batch.add(NfListObject::Chain(Chain {
        family: NfFamily::IP,
        table: table(),
        name: chain(),
        _type: Some(NfChainType::NAT),
        hook: Some(NfHook::Postrouting),
        prio: Some(SOURCE_NAT),
        ..Chain::default()
    }));
    batch.add(NfListObject::Rule(Rule {
        family: NfFamily::IP,
        table: table(),
        chain: chain(),
        expr: Cow::Owned(vec![leaves, Statement::Masquerade(None)]),
        ..Rule::default()
    }));
    apply(&batch.to_nftables())
}

/// Whether `nft` can be run at all, and what it calls itself.
///
/// # Errors
/// When it cannot be started.
pub fn version() -> Result<String, NftError> {
    let output = Command::new("nft")
        .arg("--version")
        .output()
        .map_err(NftError::Program)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Coded for NftError {
    fn problem(&self) -> Problem {
        let consequence = "the network is not as asked for";
        match self {
            Self::Program(source) => Problem::new(Code::LabToolMissing, self.to_string())
                .caused_by(source)
                .consequence(consequence)
                .fix(Fix::text("install nftables").command("apt-get install nftables")),
            Self::Json(source) => Problem::new(Code::NetKernel, self.to_string())
                .caused_by(source)
                .consequence(consequence)
                .fix(Fix::text("see `man libnftables-json` for the form")),
            Self::Refused { .. } => Problem::new(Code::NetKernel, self.to_string())
                .consequence(consequence)
                .fix(Fix::text(
                    "see what nft said; the kernel needs nf_tables and its NAT",
                )),
        }
    }
}

/// `NF_IP_PRI_NAT_SRC`.
const SOURCE_NAT: i32 = 100;

#[cfg(test)]
mod tests;
