//! `global_defs`: what instances inherit, and what has no equivalent.

use super::{extras, of_kind, tree::Statement};
use crate::migrate::{later::Later, report::Report};

/// What instances inherit.
#[derive(Debug, Default)]
pub(super) struct Globals {
    /// `vrrp_version`.
    pub(super) version: Option<u8>,
    /// `v3_checksum_as_v2`.
    pub(super) old_checksum: bool,
    /// `default_interface`.
    pub(super) interface: Option<String>,
    /// Why hosts cannot be switched one after the other: their members would not hear each other.
    pub(super) apart: Option<&'static str>,
}

impl Globals {
    /// Reads every `global_defs` there is.
    pub(super) fn read(top: &[Statement], report: &mut Report) -> Self {
        let mut globals = Self::default();
        for statement in of_kind(top, "global_defs").flat_map(|block| &block.block) {
            globals.statement(statement, report);
        }
        globals.apart = of_kind(top, "vrrp_instance").find_map(|one| globals.apart(one));
        globals
    }

    fn apart(&self, instance: &Statement) -> Option<&'static str> {
        let one = |keyword: &str| instance.block.iter().find(|one| one.keyword() == keyword);
        let version = one("version").and_then(|one| one.word(1).parse().ok());
        if one("unicast_peer").is_some() && Later::UnicastPeers.key().is_none() {
            Some("members by unicast cannot be joined")
        } else if version.or(self.version) != Some(3) && Later::Version.key().is_none() {
            Some(
                "members of version 2 cannot be joined (or set `vrrp_version 3` in every one first)",
            )
        } else if one("auth_hmac").is_some() && Later::Auth.key().is_none() {
            Some("members with auth_hmac cannot be joined")
        } else {
            None
        }
    }

    fn statement(&mut self, statement: &Statement, report: &mut Report) {
        let place = &statement.place;
        let what = format!("global_defs: {}", statement.shown(0));
        match statement.keyword() {
            "vrrp_version" => {
                self.version = statement.word(1).parse().ok();
                let what = format!("{what} {}", statement.shown(1));
                match self.version {
                    // Each instance tells of its own version.
                    Some(2 | 3) => report.taken(place, what, ""),
                    _ => report.missing(place, what, "the version is 2 or 3"),
                }
            }
            "v3_checksum_as_v2" => {
                self.old_checksum = extras::is_on(statement.word(1));
                report.taken(place, what, "vips.*.checksum");
            }
            "default_interface" => {
                self.interface = Some(statement.word(1).to_owned());
                report.taken(place, what, "vips.*.interface");
            }
            "vrrp_mcast_group4" if statement.word(1) == "224.0.0.18" => {
                report.taken(place, what, "");
            }
            "vrrp_mcast_group6" if statement.word(1) == "ff02::12" => {
                report.taken(place, what, "");
            }
            keyword => match extras::global(keyword) {
                Some(extras::Extra::Own(how)) => report.different(place, what, "", how),
                Some(extras::Extra::Missing(consequence)) => {
                    report.missing(place, what, consequence);
                }
                None => report.missing(place, what, extras::UNKNOWN),
            },
        }
    }
}
