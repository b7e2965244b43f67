//! What a VIP tracks: exactly one thing, and exactly one consequence.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use kedge_core::{Fix, Name, Problem, vip::Priority};
use kedge_host::layers::Auto;

use super::{range, rule};
use crate::config::{
    Attempts, Failure, ScriptConfig, ScriptSpan, TrackConfig, TrackFile, Tracked, UserName, VipFile,
};

/// Checks everything a VIP tracks; `key` is where the VIP stands.
pub(super) fn check(
    key: &str,
    file: &VipFile,
    problems: &mut Vec<Problem>,
) -> BTreeMap<Name, TrackConfig> {
    let mut tracks = BTreeMap::new();
    let key = format!("{key}.track");
    let owner = file.priority.and_then(Auto::value) == Some(Priority::OWNER);
    if owner && file.track.as_ref().is_some_and(|track| !track.is_empty()) {
        let what = "the owner of the address neither lowers its priority nor gives it away";
        let fix = "leave `track` out, or take a priority below 255";
        problems.push(rule(&key, what).fix(Fix::text(fix)));
        return tracks;
    }
    for (name, track) in file.track.iter().flatten() {
        let key = format!("{key}.{name}");
        let failure = failure(&key, track, problems);
        let what = what(&key, track, problems);
        if let (Some(what), Some(failure)) = (what, failure) {
            tracks.insert(name.clone(), TrackConfig { what, failure });
        }
    }
    tracks
}

fn failure(key: &str, track: &TrackFile, problems: &mut Vec<Problem>) -> Option<Failure> {
    match (track.weight, track.critical) {
        (Some(weight), None | Some(false)) => Some(Failure::Costs(weight.cost())),
        (None, Some(true)) => Some(Failure::Bars),
        (Some(_), Some(true)) => {
            let what = "weight and critical exclude each other: a host that must not hold the \
                        address has no priority";
            problems.push(rule(&format!("{key}.weight"), what).fix(Fix::text("keep one of them")));
            None
        }
        (None, None | Some(false)) => {
            let what = "nothing says what its failure means";
            let fix = "lower the priority by it (others must `preempt`), or give the address away \
                       with `critical: true`";
            problems.push(rule(key, what).fix(Fix::text(fix).command("weight: -20")));
            None
        }
    }
}

fn what(key: &str, track: &TrackFile, problems: &mut Vec<Problem>) -> Option<Tracked> {
    let interface = track.interface.as_ref();
    let process = track.process.as_ref();
    let kinds = [
        interface.map(|it| Tracked::Interface(it.as_str().to_owned())),
        process.map(|it| Tracked::Process(it.as_str().to_owned())),
        track.file.clone().map(Tracked::File),
        track
            .script
            .as_ref()
            .map(|words| Tracked::Script(script(track, words))),
        track.bfd.clone().map(Tracked::Bfd),
        track
            .unit
            .as_ref()
            .map(|it| Tracked::Unit(it.as_str().to_owned())),
    ];
    let mut kinds = kinds.into_iter().flatten();
    let (Some(what), None) = (kinds.next(), kinds.next()) else {
        let text = "a track is exactly one of interface, process, file, script, bfd and unit";
        problems
            .push(rule(key, text).fix(Fix::text("keep or name one").command("interface: eth1")));
        return None;
    };
    let only_scripts = [
        ("interval", track.interval.is_some()),
        ("timeout", track.timeout.is_some()),
        ("rise", track.rise.is_some()),
        ("fall", track.fall.is_some()),
        ("user", track.user.is_some()),
    ];
    let alien = only_scripts.into_iter().find(|(_, stands)| *stands);
    match (&what, alien) {
        (Tracked::Script(script), _) => {
            let words = std::iter::once(script.program.to_string_lossy().into_owned())
                .chain(script.arguments.iter().cloned());
            let key = format!("{key}.script");
            if !script.program.is_absolute() {
                let text = "a script begins with an absolute path; no shell looks for it";
                let fix = Fix::text("name the program").command("script: [/etc/kedge/check.sh]");
                problems.push(rule(&key, text).fix(fix));
                return None;
            }
            if words.into_iter().any(|word| word.contains('\0')) {
                problems.push(range(
                    &key,
                    "a word of a script has no byte zero".to_owned(),
                ));
                return None;
            }
        }
        (_, Some((alien, _))) => {
            let text = format!("{alien} goes with `script`");
            problems.push(rule(&format!("{key}.{alien}"), text).fix(Fix::text("leave it out")));
            return None;
        }
        (Tracked::File(file), None) if !file.is_absolute() => {
            let text = "a file is named by its absolute path";
            let fix = Fix::text("name it in full").command("file: /run/ready");
            problems.push(rule(&format!("{key}.file"), text).fix(fix));
            return None;
        }
        (
            Tracked::File(_)
            | Tracked::Interface(_)
            | Tracked::Process(_)
            | Tracked::Bfd(_)
            | Tracked::Unit(_),
            None,
        ) => {}
    }
    Some(what)
}

fn script(track: &TrackFile, words: &[String]) -> ScriptConfig {
    let mut words = words.iter().cloned();
    let span = |given: &Option<ScriptSpan>, default: Duration| {
        given.as_ref().map_or(default, ScriptSpan::duration)
    };
    ScriptConfig {
        program: words.next().map(PathBuf::from).unwrap_or_default(),
        arguments: words.collect(),
        user: track
            .user
            .clone()
            .unwrap_or_else(UserName::nobody)
            .to_string(),
        interval: span(&track.interval, INTERVAL),
        timeout: span(&track.timeout, TIMEOUT),
        rise: track.rise.map_or(RISE, Attempts::get),
        fall: track.fall.map_or(FALL, Attempts::get),
    }
}

pub(in crate::config) const INTERVAL: Duration = Duration::from_secs(1);
pub(in crate::config) const TIMEOUT: Duration = Duration::from_secs(1);
pub(in crate::config) const RISE: u32 = 2;
pub(in crate::config) const FALL: u32 = 3;
