//! Keywords without a key of their own: what Kedge does instead, or what is lost.

/// What becomes of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// Kedge does it in its own way, and this is how.
    Own(&'static str),
    /// Kedge does not do it, and this is what follows.
    Missing(&'static str),
}

/// A word keepalived does not have either, or that is newer than this Kedge.
pub(super) const UNKNOWN: &str = "not a word Kedge knows of keepalived: nothing was done about it";

/// Whether a flag with an optional word is on.
pub(super) fn is_on(word: &str) -> bool {
    !matches!(word, "off" | "false" | "no")
}

/// What follows from a block that stands by itself.
pub(super) fn top_level(keyword: &str) -> Option<&'static str> {
    find(&TOP_LEVEL, keyword).map(|extra| match extra {
        Extra::Own(text) | Extra::Missing(text) => text,
    })
}

/// A keyword of `global_defs`.
pub(super) fn global(keyword: &str) -> Option<Extra> {
    find(&GLOBAL, keyword).or_else(|| instance(keyword.strip_prefix("vrrp_").unwrap_or(keyword)))
}

/// A keyword of an instance.
pub(super) fn instance(keyword: &str) -> Option<Extra> {
    find(&INSTANCE, keyword)
}

/// Keywords with spaces between them, and what becomes of each.
type Table = [(&'static str, Extra)];

fn find(table: &Table, keyword: &str) -> Option<Extra> {
    table
        .iter()
        .find(|(keywords, _)| keywords.split_whitespace().any(|one| one == keyword))
        .map(|(_, extra)| *extra)
}

const TOP_LEVEL: [(&str, Extra); 9] = [
    (
        "virtual_server virtual_server_group",
        Extra::Missing(
            "Kedge does not balance with IPVS: the address moves, but nothing spreads connections over \
             real servers. Keep a balancer on every host, or use LoadBalancers of the manager",
        ),
    ),
    (
        "static_ipaddress static_routes static_rules",
        Extra::Missing(
            "not configured by Kedge: put them into the host's own network configuration (networkd, \
             NetworkManager, netplan)",
        ),
    ),
    (
        "track_group",
        Extra::Missing("static addresses are not watched by Kedge"),
    ),
    (
        "garp_group",
        Extra::Own("Kedge spaces its own announcements, at least 1 ms apart"),
    ),
    (
        "linkbeat_interfaces linkbeat_use_polling",
        Extra::Missing("Kedge goes by the kernel's link state and does not poll"),
    ),
    (
        "interface_up_down_delays",
        Extra::Missing("a link that goes down counts at once"),
    ),
    (
        "net_namespace net_namespace_ipvs namespace_with_ipsets",
        Extra::Missing(
            "the agent works where it was started: start it with `ip netns exec NAME kedge agent`",
        ),
    ),
    (
        "instance use_pid_dir child_wait_time",
        Extra::Own("nothing follows: the agent is one process without pid files"),
    ),
    (
        "ssl SSL",
        Extra::Missing("belongs to the checks of virtual servers"),
    ),
];

const ANNOUNCED: Extra = Extra::Own(
    "Kedge announces five times within 100 ms, then after 0.5, 1 and 5 s and every minute, and answers \
     whoever claims the address; this cannot be set",
);
const SCRIPT_NOT_RUN: Extra = Extra::Missing(
    "Kedge runs no scripts when a VIP moves: follow the journal (KEDGE_VIP, from, to, because) or `kedge vip show NAME \
     -o json` instead",
);
const MAIL_NOT_SENT: Extra =
    Extra::Missing("no mail is sent: alert on the journal or on what `kedge status` ends with");

const GLOBAL: [(&str, Extra); 13] = [
    (
        "router_id process_names process_name vrrp_process_name checker_process_name \
         lvs_process_name bfd_process_name data_use_instance config_save_dir \
         tmp_config_directory use_symlink_paths umask random_seed json_version \
         iproute_usr_dir iproute_etc_dir state_dump_file stats_dump_file json_dump_file",
        Extra::Own("nothing follows for the VIPs: it names keepalived's own processes and files"),
    ),
    (
        "notification_email notification_email_from smtp_server smtp_helo_name \
         smtp_connect_timeout smtp_alert smtp_alert_vrrp smtp_alert_checker \
         no_email_faults no_checker_emails",
        MAIL_NOT_SENT,
    ),
    (
        "script_user enable_script_security set_supplementary_groups",
        Extra::Own(
            "nothing to set: Kedge runs scripts as nobody unless `user` says otherwise, and as root only \
             what nobody else can change",
        ),
    ),
    (
        "startup_script shutdown_script startup_script_timeout shutdown_script_timeout",
        Extra::Missing("not run: put it into ExecStartPre= or ExecStopPost= of the agent's unit"),
    ),
    (
        "notify_fifo notify_fifo_script vrrp_notify_fifo vrrp_notify_fifo_script \
         vrrp_notify_priority_changes fifo_write_vrrp_states_on_reload",
        SCRIPT_NOT_RUN,
    ),
    (
        "vrrp_rt_priority vrrp_priority vrrp_no_swap vrrp_cpu_affinity vrrp_rlimit_rttime \
         vrrp_rlimit_rtime max_auto_priority min_auto_priority_delay bfd_priority \
         bfd_no_swap bfd_rt_priority bfd_cpu_affinity bfd_rlimit_rttime bfd_rlimit_rtime",
        Extra::Own("the agent asks for real-time scheduling by itself where it may"),
    ),
    (
        "vrrp_iptables vrrp_ipsets nftables nftables_priority nftables_counters \
         nftables_ifindex disable_local_igmp",
        Extra::Missing(
            "Kedge writes no firewall rules: packets to the address are always accepted",
        ),
    ),
    (
        "snmp_socket enable_snmp_vrrp enable_snmp_keepalived enable_snmp_checker \
         enable_snmp_rfc enable_snmp_rfcv2 enable_snmp_rfcv3 enable_traps enable_dbus \
         dbus_service_name dbus_no_interface_name",
        Extra::Missing("neither SNMP nor D-Bus: ask `kedge status -o json` or the control socket"),
    ),
    (
        "vrrp_min_garp vrrp_garp_interval vrrp_gna_interval vrrp_vmac_garp_intvl",
        ANNOUNCED,
    ),
    (
        "lvs_sync_daemon lvs_timeouts lvs_flush lvs_flush_on_stop lvs_flush_onstop \
         lvs_notify_fifo lvs_notify_fifo_script checker_log_all_failures checker_priority \
         checker_no_swap checker_rt_priority checker_cpu_affinity checker_rlimit_rttime \
         checker_rlimit_rtime nftables_ipvs nftables_ipvs_priority \
         nftables_ipvs_start_fwmark rs_init_notifies snmp_vs_stats_update_interval \
         snmp_rs_stats_update_interval lvs_netlink_cmd_rcv_bufs \
         lvs_netlink_cmd_rcv_bufs_force lvs_netlink_monitor_rcv_bufs \
         lvs_netlink_monitor_rcv_bufs_force",
        Extra::Missing("belongs to IPVS, which Kedge does not use"),
    ),
    (
        "dynamic_interfaces vrrp_netlink_cmd_rcv_bufs vrrp_netlink_cmd_rcv_bufs_force \
         vrrp_netlink_monitor_rcv_bufs vrrp_netlink_monitor_rcv_bufs_force \
         process_monitor_rcv_bufs process_monitor_rcv_bufs_force vrrp_rx_bufs_policy \
         vrrp_rx_bufs_multiplier reload_check_config reload_time_file reload_repeat \
         reload_file include_check log_unknown_vrids",
        Extra::Own(
            "nothing follows: interfaces may come and go, a bad configuration never replaces a good \
             one, and a foreign VRID is told (KEDGE-VIP-0007)",
        ),
    ),
    (
        "vrrp_startup_delay vrrp_delay_after_boot",
        Extra::Missing("the agent takes part as soon as it was started: delay its unit instead"),
    ),
    (
        "vrrp_mcast_group4 vrrp_mcast_group6 vmac_prefix vmac_addr_prefix",
        Extra::Missing(
            "Kedge sends to the standard group, 224.0.0.18: members with another one are not heard",
        ),
    ),
];

const INSTANCE: [(&str, Extra); 18] = [
    (
        "garp_master_delay garp_master_repeat garp_master_refresh \
         garp_master_refresh_repeat garp_lower_prio_delay garp_lower_prio_repeat \
         garp_extra_if vmac_garp_intvl",
        ANNOUNCED,
    ),
    (
        "notify notify_master notify_backup notify_fault notify_stop notify_deleted \
         notify_master_rx_lower_pri notify_priority_changes",
        SCRIPT_NOT_RUN,
    ),
    ("smtp_alert", MAIL_NOT_SENT),
    (
        "no_accept",
        Extra::Missing("packets to the address are always accepted by whoever holds it"),
    ),
    (
        "strict_mode strict",
        Extra::Own(
            "Kedge keeps to RFC 9568 without it, but accepts packets to the address at any priority",
        ),
    ),
    (
        "dont_track_primary",
        Extra::Missing("a VIP always leaves an interface that has no link"),
    ),
    (
        "vmac_xmit_base",
        Extra::Own("advertisements leave from the interface's own MAC address without it, too"),
    ),
    (
        "use_vmac_addr",
        Extra::Missing("it is for addresses on other interfaces, which Kedge does not hold"),
    ),
    (
        "use_ipvlan",
        Extra::Missing("the address is put on the interface itself, not on an ipvlan"),
    ),
    (
        "mcast_src_ip",
        Extra::Missing(
            "advertisements come from the interface's own address in the VIP's prefix: between equal \
             priorities that address decides",
        ),
    ),
    (
        "mcast_dst_ip",
        Extra::Missing(
            "Kedge sends to the standard group, 224.0.0.18: members with another one are not heard",
        ),
    ),
    (
        "higher_prio_send_advert lower_prio_no_advert",
        Extra::Own(
            "Kedge answers a lower Active at once, and speaks once more when it yields to a higher one; \
             neither can be set",
        ),
    ),
    (
        "virtual_routes virtual_rules",
        Extra::Missing(
            "routes and rules do not move with the address: configure them on every host, or keep \
             keepalived for this instance",
        ),
    ),
    (
        "vrf",
        Extra::Missing("name the interface in the VRF with `interface`"),
    ),
    (
        "skip_check_adv_addr kernel_rx_buf_size debug promote_secondaries track_src_ip \
         unicast_fault_no_peer timer_expired_backup thread_timer_expired native_ipv6 \
         check_unicast_src",
        Extra::Own(
            "nothing to set: Kedge checks every advertisement, and its addresses are /32 and do not \
             depend on each other",
        ),
    ),
    (
        "linkbeat_use_polling",
        Extra::Missing("Kedge goes by the kernel's link state and does not poll"),
    ),
    (
        "old_unicast_checksum owner_ignore_adverts",
        Extra::Missing("Kedge does not have this way of keepalived's"),
    ),
    (
        "lvs_sync_daemon_interface",
        Extra::Missing("belongs to IPVS, which Kedge does not use"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_stands_twice() {
        for table in [&TOP_LEVEL[..], &GLOBAL[..], &INSTANCE[..]] {
            let mut seen = std::collections::BTreeSet::new();
            for keyword in table
                .iter()
                .flat_map(|(keywords, _)| keywords.split_whitespace())
            {
                assert!(seen.insert(keyword), "{keyword}");
            }
        }
    }

    #[test]
    fn a_global_word_falls_back_to_the_instances() {
        assert_eq!(global("vrrp_garp_master_delay"), Some(ANNOUNCED));
        assert_eq!(global("vrrp_strict"), instance("strict"));
        assert_eq!(global("nonsense"), None);
    }
}
