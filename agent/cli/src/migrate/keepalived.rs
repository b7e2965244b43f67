//! keepalived.conf. Every instance of VRRP becomes a VIP among foreign members.

mod addresses;
mod extras;
mod globals;
mod hmac;
mod include;
mod instance;
mod lines;
mod parameters;
mod priority;
mod timers;
mod tracking;
mod tree;
mod vmac;
mod words;

use std::{collections::BTreeMap, path::Path};

use kedge_core::Problem;

use self::{extras::Extra, globals::Globals, tracking::Tracked, tree::Statement};
use super::{
    draft::{self, Draft},
    later::Later,
    report::Report,
};

/// Reads a file with everything it includes. `config_id` says whose `@` lines count.
///
/// # Errors
///
/// The file cannot be read or is not closed as it should be.
pub(super) fn read(
    path: &Path,
    config_id: &str,
    report: &mut Report,
) -> Result<Vec<Draft>, Problem> {
    let read = lines::read(path, config_id, report)?;
    let top = tree::parse(&read.lines)?;
    let mut drafts = Vec::new();
    let mut names = BTreeMap::new();
    let globals = Globals::read(&top, report);
    let tracked = Tracked::read(&top);
    for (index, statement) in of_kind(&top, "vrrp_instance").enumerate() {
        draft::limit(index + 1, &statement.place)?;
        drafts.extend(instance::read(
            statement, &globals, &tracked, &mut names, report,
        ));
    }
    tracked.tell_unused(report);
    tell_the_rest(&top, report);
    if !drafts.is_empty() {
        steps(&globals, report);
    }
    let others = read.others.into_iter().filter(|host| host != config_id);
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        report.step(format!(
            "lines of other hosts (@{}) were left out, because this is `{config_id}`: run the same \
             command with --config-id for each of them",
            others.join(", @")
        ));
    }
    Ok(drafts)
}

fn of_kind<'a>(top: &'a [Statement], keyword: &'a str) -> impl Iterator<Item = &'a Statement> {
    top.iter().filter(move |one| one.keyword() == keyword)
}

/// What stands outside of instances. The same kind is told once, with its number.
fn tell_the_rest(top: &[Statement], report: &mut Report) {
    let mut kinds: BTreeMap<&str, (&Statement, usize)> = BTreeMap::new();
    for statement in top {
        let known = kinds.entry(statement.keyword());
        known.or_insert((statement, 0)).1 += match statement.keyword() {
            // These hold one thing a line.
            "static_ipaddress" | "static_routes" | "static_rules" => statement.block.len(),
            _ => 1,
        };
    }
    for (keyword, (first, count)) in kinds {
        if keyword == "vrrp_sync_group" && Later::SyncGroup.key().is_some() {
            of_kind(top, keyword).for_each(|group| tell_group(group, report));
            continue;
        }
        if OWN_WORDS.contains(&keyword) {
            continue;
        }
        let (place, shown) = (&first.place, first.shown(0));
        let what = match count {
            1 => shown.to_owned(),
            count => format!("{shown} ({count} of them)"),
        };
        match extras::top_level(keyword) {
            Some(consequence) => report.missing(place, what, consequence),
            None => report.missing(place, what, extras::UNKNOWN),
        }
    }
}

/// What a group has beside its members, which each tell of it themselves.
fn tell_group(group: &Statement, report: &mut Report) {
    for line in group.block.iter().filter(|line| line.keyword() != "group") {
        let what = format!("vrrp_sync_group {}: {}", group.shown(1), line.shown(0));
        let consequence = match extras::instance(line.keyword()) {
            Some(Extra::Own(how)) => {
                report.different(&line.place, what, "", how);
                continue;
            }
            Some(Extra::Missing(consequence)) => consequence,
            None if tracking::Kind::of_block(line.keyword()).is_some() => {
                "not taken over: add it to `track` of one of the members with `critical: true`, and \
                 all of them leave with it"
            }
            None => extras::UNKNOWN,
        };
        report.missing(&line.place, what, consequence);
    }
}

fn steps(globals: &Globals, report: &mut Report) {
    report.step(
        "stop keepalived on a host before its agent starts (systemctl disable --now keepalived): \
         both would speak for the same virtual router",
    );
    report.step(match globals.apart {
        Some(why) => format!("{why}: stop keepalived on every host before the first agent starts"),
        None => "hosts may be switched one after the other: the Backups first, the Active last"
            .to_owned(),
    });
    report.step(
        "keep the list of addresses the same on every host: keepalived up to 2.2.7 drops \
         advertisements with another list, and both sides hold the address",
    );
    report.step(
        "`checksum: auto` sends the form keepalived expects unless it has v3_checksum_as_v2, which \
         becomes `checksum: message`",
    );
    report.step(
        "keepalived takes an address back from a lower priority unless it has `nopreempt`; \
         `preempt: false` leaves it where it is, without the second move",
    );
    report.step(
        "once every host runs Kedge: leave version, members, priority, unhealthy_priority, \
         vrid and advert_interval out, for a failover of 0.3 s, and choose `health: auto` for an API server",
    );
}

/// What others here tell of.
const OWN_WORDS: [&str; 7] = [
    "global_defs",
    "vrrp_instance",
    "vrrp_script",
    "track_file",
    "vrrp_track_file",
    "vrrp_track_process",
    "bfd_instance",
];
