//! The same file with every default written out, for `kedge config view`.

use std::collections::BTreeMap;

use kedge_core::vip::AdvertInterval;
use kedge_host::layers::Auto;

use super::{
    AgentFile, AuthModeFile, ChecksumFile, HealthFile, MembersFile, ProbeFile, VipFile,
    check::{DEFAULT_OVERLAY, automatic_probe},
    values::{AdvertSpan, Attempts, Delay, Keepalive, MinTtl, ProbeSpan, Version, VrrpVersion},
};

/// What the agent does where nobody said anything.
pub(super) fn filled(mut file: AgentFile) -> AgentFile {
    file.version.get_or_insert(Version::LATEST);
    for vip in file.vips.get_or_insert_with(BTreeMap::new).values_mut() {
        fill_vip(vip);
    }
    let tunnel = file.tunnel.get_or_insert_default();
    tunnel.listen_port.get_or_insert(0);
    if tunnel.interface.is_none() {
        tunnel.interface = "kedge0".parse().ok();
    }
    tunnel.addresses.get_or_insert_default();
    tunnel
        .allowed
        .get_or_insert_with(|| DEFAULT_OVERLAY.to_vec());
    for peer in tunnel.peers.get_or_insert_with(BTreeMap::new).values_mut() {
        peer.keepalive.get_or_insert(Keepalive::OFF);
    }
    let report = file.report.get_or_insert_default();
    report.exclude.get_or_insert_default();
    report.exclude_interfaces.get_or_insert_default();
    file
}

fn fill_vip(vip: &mut VipFile) {
    vip.vrid.get_or_insert(Auto::Auto);
    vip.priority.get_or_insert(Auto::Auto);
    vip.members.get_or_insert(MembersFile::Kedge);
    vip.advert_interval
        .get_or_insert(AdvertSpan::from(AdvertInterval::DEFAULT));
    vip.preempt.get_or_insert(false);
    vip.preempt_delay.get_or_insert(Delay::NONE);
    vip.version.get_or_insert(VrrpVersion::THREE);
    vip.excluded_addresses.get_or_insert_default();
    vip.unicast_peers.get_or_insert_default();
    vip.min_ttl.get_or_insert(MinTtl::ON_LINK);
    if let Some(auth) = &mut vip.auth {
        auth.mode.get_or_insert(AuthModeFile::Enforce);
    }
    vip.checksum.get_or_insert(ChecksumFile::Auto);
    if let HealthFile::Probe(probe) = vip.health.get_or_insert(HealthFile::Auto) {
        fill_probe(probe);
    }
}

fn fill_probe(probe: &mut ProbeFile) {
    let defaults = automatic_probe();
    probe
        .interval
        .get_or_insert(ProbeSpan::from(defaults.interval));
    probe
        .timeout
        .get_or_insert(ProbeSpan::from(defaults.timeout));
    if probe.rise.is_none() {
        probe.rise = Attempts::try_from(i64::from(defaults.rise)).ok();
    }
    if probe.fall.is_none() {
        probe.fall = Attempts::try_from(i64::from(defaults.fall)).ok();
    }
}
