//! The same file with every default written out, for `kedge config view`.

mod bgp;

use std::collections::BTreeMap;

use kedge_host::layers::Auto;

use super::{
    AgentFile, AuthModeFile, BfdSessionFile, ChecksumFile, HealthFile, MembersFile, ProbeFile,
    TrackFile, ViaFile, VipFile,
    check::{DEFAULT_OVERLAY, PEER_PORT, automatic_probe, track},
    values::{
        AdvertSpan, Attempts, BfdSpan, Delay, DetectMultiplier, Keepalive, MinTtl, ProbeSpan,
        ScriptSpan, UserName, Version, VrrpVersion,
    },
};

/// What the agent does where nobody said anything.
pub(super) fn filled(mut file: AgentFile) -> AgentFile {
    file.version.get_or_insert(Version::LATEST);
    for vip in file.vips.get_or_insert_with(BTreeMap::new).values_mut() {
        fill_vip(vip);
    }
    if let Some(links) = &mut file.peer_link {
        links.port.get_or_insert(PEER_PORT);
    }
    let tunnel = file.tunnel.get_or_insert_default();
    tunnel.listen_port.get_or_insert(0);
    tunnel.mtu.get_or_insert_default();
    tunnel.noise_core.get_or_insert_default();
    tunnel.data_plane.get_or_insert_default();
    tunnel.key_rotation.get_or_insert_default();
    tunnel.wg_socket.get_or_insert_default();
    tunnel.bench_mbps.get_or_insert_default();
    tunnel.offload.get_or_insert_default();
    tunnel.offload_send.get_or_insert_default();
    tunnel.offload_receive.get_or_insert_default();
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
    if let Some(failover) = &mut tunnel.failover {
        failover.prefixes.get_or_insert_default();
        failover.gateways.get_or_insert_default();
        failover.profile.get_or_insert_default();
        failover.targets.get_or_insert_default();
        failover.return_after.get_or_insert(Delay::RETURN);
    }
    tunnel.direct_path.get_or_insert_default();
    tunnel.direct_endpoints.get_or_insert_default();
    let bfd = file.bfd.get_or_insert_default();
    for session in bfd.sessions.get_or_insert_with(BTreeMap::new).values_mut() {
        fill_session(session);
    }
    if let Some(bgp) = &mut file.bgp {
        bgp::fill(bgp);
    }
    let report = file.report.get_or_insert_default();
    report.exclude.get_or_insert_default();
    report.exclude_interfaces.get_or_insert_default();
    file
}

fn fill_vip(vip: &mut VipFile) {
    let via = vip.via.get_or_insert_with(|| vec![ViaFile::Vrrp]);
    if via.contains(&ViaFile::Vrrp) {
        fill_vrrp(vip);
    }
    for track in vip.track.iter_mut().flatten().map(|(_, track)| track) {
        fill_track(track);
    }
    vip.excluded_addresses.get_or_insert_default();
    if let HealthFile::Probe(probe) = vip.health.get_or_insert(HealthFile::Auto) {
        fill_probe(probe);
    }
}

fn fill_vrrp(vip: &mut VipFile) {
    vip.vrid.get_or_insert(Auto::Auto);
    vip.priority.get_or_insert(Auto::Auto);
    vip.members.get_or_insert(MembersFile::Kedge);
    let profile = *vip.profile.get_or_insert_default();
    vip.advert_interval
        .get_or_insert(AdvertSpan::from(profile.interval()));
    vip.fence.get_or_insert(true);
    vip.accept.get_or_insert(true);
    vip.virtual_mac.get_or_insert(false);
    vip.preempt.get_or_insert(false);
    vip.preempt_delay.get_or_insert(Delay::NONE);
    vip.startup_delay.get_or_insert(Delay::LINK_UP);
    vip.link_up_delay.get_or_insert(Delay::LINK_UP);
    vip.version.get_or_insert(VrrpVersion::THREE);
    vip.unicast_peers.get_or_insert_default();
    vip.min_ttl.get_or_insert(MinTtl::ON_LINK);
    if let Some(auth) = &mut vip.auth {
        auth.mode.get_or_insert(AuthModeFile::Enforce);
    }
    vip.checksum.get_or_insert(ChecksumFile::Auto);
}

fn fill_session(session: &mut BfdSessionFile) {
    if *session.multihop.get_or_insert(false) {
        session.min_ttl.get_or_insert(MinTtl::MULTIHOP);
    }
    session.transmit_interval.get_or_insert(BfdSpan::TRANSMIT);
    session.receive_interval.get_or_insert(BfdSpan::RECEIVE);
    session
        .detect_multiplier
        .get_or_insert(DetectMultiplier::DEFAULT);
    session.passive.get_or_insert(false);
    session.shutdown.get_or_insert(false);
}

fn fill_track(track: &mut TrackFile) {
    if track.script.is_some() {
        track
            .interval
            .get_or_insert(ScriptSpan::from(track::INTERVAL));
        track
            .timeout
            .get_or_insert(ScriptSpan::from(track::TIMEOUT));
        track.user.get_or_insert_with(UserName::nobody);
        if track.rise.is_none() {
            track.rise = Attempts::try_from(i64::from(track::RISE)).ok();
        }
        if track.fall.is_none() {
            track.fall = Attempts::try_from(i64::from(track::FALL)).ok();
        }
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
