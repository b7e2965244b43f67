//! What the variables and flags of kube-vip mean.

use super::manifest::Setting;

/// A setting that becomes part of a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Interface,
    Address,
    OldAddress,
    Port,
    ControlPlane,
    Services,
    HealthUrl,
    HealthCa,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Told where the VIP is made.
    Told,
    /// Kedge does the same without being told.
    Same,
    /// Kedge does it in its own way.
    Own(&'static str),
    /// Kedge does not do it.
    Missing(&'static str),
}

/// The variable a flag stands for.
pub(super) fn variable(flag: &str) -> Option<&'static str> {
    let known = FLAGS.iter().find(|(name, _)| *name == flag);
    known.map(|(_, variable)| *variable)
}

/// Whether a flag stands without a value.
pub(super) fn is_switch(flag: &str) -> bool {
    SWITCHES.split_whitespace().any(|one| one == flag)
}

/// Whether a variable gives kube-vip away.
pub(super) fn is_telling(variable: &str) -> bool {
    [
        "vip_interface",
        "vip_arp",
        "cp_enable",
        "svc_enable",
        "vip_leaderelection",
    ]
    .contains(&variable)
}

/// What a setting means for a VIP.
pub(super) fn meaning(setting: &Setting) -> Option<Meaning> {
    Some(match setting.variable.as_str() {
        "vip_interface" => Meaning::Interface,
        "address" => Meaning::Address,
        "vip_address" => Meaning::OldAddress,
        "port" => Meaning::Port,
        "cp_enable" => Meaning::ControlPlane,
        "svc_enable" => Meaning::Services,
        "control_plane_health_check_address" => Meaning::HealthUrl,
        "control_plane_health_check_ca_path" => Meaning::HealthCa,
        _ => return None,
    })
}

/// What becomes of a setting; `None` when kube-vip has no such word.
pub(super) fn fate(setting: &Setting) -> Option<Fate> {
    let name = setting.variable.as_str();
    match (name, setting.text()) {
        ("vip_cidr" | "vip_subnet", "32" | "/32" | "") => return Some(Fate::Same),
        ("vip_interface" | "address" | "vip_address", "") => return Some(Fate::Same),
        ("vip_interface" | "address" | "vip_address" | "port", _) => return Some(Fate::Told),
        _ => {}
    }
    let found = FATES
        .iter()
        .find(|(names, _)| names.split_whitespace().any(|one| one == name));
    let by_prefix = || {
        let found = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        found.map(|(_, fate)| *fate)
    };
    found.map(|(_, fate)| *fate).or_else(by_prefix)
}

const FATES: [(&str, Fate); 13] = [
    ("cp_enable vip_arp", Fate::Same),
    (
        "control_plane_health_check_address control_plane_health_check_ca_path",
        Fate::Told,
    ),
    (
        "vip_leaderelection vip_leasename vip_leaseduration vip_renewdeadline vip_retryperiod \
         vip_leaseannotations leaderElectionType etcdCACert etcdCert etcdKey etcdEndpoints \
         vip_startleader vip_singlenode cp_namespace namespace",
        Fate::Own(
            "VRRP elects on the LAN, without a lease: a host that dies is replaced after 3 × 100 ms and \
             the skew, with the API server up or down",
        ),
    ),
    (
        "vip_cidr vip_subnet",
        Fate::Own("the address is held as /32: the host has an address of its own in that network"),
    ),
    (
        "svc_enable svc_election svc_namespace svc_leasename vip_servicesinterface \
         disable_service_updates enable_endpoints enable_service_security lb_class_only \
         lb_class_name lb_class_legacy_handling per_service_election_on_demand debounce_time \
         loadbalancers",
        Fate::Missing(
            "Services of type LoadBalancer are not the agent's: with a manager and a gateway they are its \
             LoadBalancers (loadBalancerClass kedge.dev/edge); until then keep kube-vip for Services alone, \
             with cp_enable=false",
        ),
    ),
    (
        "lb_enable lb_port lb_fwdmethod backend_health_check_interval iptables_backend",
        Fate::Missing(
            "the holder of the address serves every request: connections are not spread over the API \
             servers of the other hosts",
        ),
    ),
    (
        "prometheus_server health_check_port",
        Fate::Missing(
            "the agent has no port for it: ask `kedge status -o json` or the control socket",
        ),
    ),
    (
        "vip_ddns dhcp_mode dhcp_backoff_attempts dns_mode vip_dnsmode",
        Fate::Missing("a VIP is an IP address: it comes from neither DNS nor DHCP"),
    ),
    (
        "vip_nodename instance_name vip_loglevel log k8s_config_file kubernetes_addr config_file \
         config-file configMap vip_configmap annotation enable_node_labeling",
        Fate::Own("nothing follows for the VIP: the agent does not ask Kubernetes"),
    ),
    (
        "cp_detect vip_arpRate vip_skipdad vip_interfaceloglobal vip_allow_interface_not_up \
         vip_loseleadership vip_loseleadership_timeout_seconds vip_preserve_on_leadership_loss",
        Fate::Own(
            "Kedge finds the interface, announces on its own schedule and lets go of an interface without \
             link; this cannot be set",
        ),
    ),
    (
        "vip_wireguard",
        Fate::Missing(
            "tunnels are the agent's own: see `tunnel` in its configuration and the manager",
        ),
    ),
    (
        "enable_upnp mirror_dest_interface",
        Fate::Missing("Kedge does nothing like it"),
    ),
    (
        "control_plane_health_check_period_seconds control_plane_health_check_timeout_seconds \
         control_plane_health_check_failure_threshold",
        Fate::Own("`health` has its own: 500 ms between probes, 3 failures in a row; see its keys"),
    ),
];

const PREFIXES: [(&str, Fate); 6] = [
    ("bgp_", BGP),
    ("mpbgp_", BGP),
    ("zebra_", BGP),
    (
        "egress_",
        Fate::Missing("Kedge does not change where traffic of Pods comes from"),
    ),
    ("vip_routing", ROUTES),
    ("vip_cleanrouting", ROUTES),
];

const BGP: Fate = Fate::Missing(
    "the agent does not speak BGP yet: the address is held on the LAN by VRRP, which needs a host with an \
     address in the same network. An address that only routes lead to stays with kube-vip",
);
const ROUTES: Fate = Fate::Missing("Kedge writes no routes for the address");

const FLAGS: [(&str, &str); 47] = [
    ("interface", "vip_interface"),
    ("serviceInterface", "vip_servicesinterface"),
    ("vip", "vip_address"),
    ("address", "address"),
    ("vipSubnet", "vip_subnet"),
    ("cidr", "vip_cidr"),
    ("nodeName", "vip_nodename"),
    ("port", "port"),
    ("arp", "vip_arp"),
    ("wireguard", "vip_wireguard"),
    ("table", "vip_routingtable"),
    ("ddns", "vip_ddns"),
    ("leaderElection", "vip_leaderelection"),
    ("leaseName", "vip_leasename"),
    ("leaseDuration", "vip_leaseduration"),
    ("leaseRenewDuration", "vip_renewdeadline"),
    ("leaseRetry", "vip_retryperiod"),
    ("enableLoadBalancer", "lb_enable"),
    ("lbPort", "lb_port"),
    ("lbForwardingMethod", "lb_fwdmethod"),
    ("bgp", "bgp_enable"),
    ("bgpRouterID", "bgp_routerid"),
    ("localAS", "bgp_as"),
    ("peerAddress", "bgp_peeraddress"),
    ("peerAS", "bgp_peeras"),
    ("peerPass", "bgp_peerpass"),
    ("multihop", "bgp_multihop"),
    ("bgppeers", "bgp_peers"),
    ("sourceIF", "bgp_sourceif"),
    ("sourceIP", "bgp_sourceip"),
    ("bgpHoldTimer", "bgp_hold_time"),
    ("bgpKeepAliveInterval", "bgp_keepalive_interval"),
    ("controlplane", "cp_enable"),
    ("autodetectcp", "cp_detect"),
    ("services", "svc_enable"),
    ("servicesElection", "svc_election"),
    ("servicesLeaseName", "svc_leasename"),
    ("lbClassOnly", "lb_class_only"),
    ("lbClassName", "lb_class_name"),
    ("onlyAllowTrafficServicePorts", "enable_service_security"),
    ("enableNodeLabeling", "enable_node_labeling"),
    ("dnsMode", "dns_mode"),
    ("dhcpMode", "dhcp_mode"),
    ("prometheusHTTPServer", "prometheus_server"),
    ("k8sConfigPath", "k8s_config_file"),
    (
        "controlPlaneHealthCheckAddress",
        "control_plane_health_check_address",
    ),
    (
        "controlPlaneHealthCheckCAPath",
        "control_plane_health_check_ca_path",
    ),
];

const SWITCHES: &str = "arp wireguard table ddns leaderElection enableLoadBalancer bgp multihop \
                        controlplane autodetectcp services servicesElection lbClassOnly \
                        onlyAllowTrafficServicePorts enableNodeLabeling allowInterfaceNotUp \
                        preserveVipOnLeadershipLoss loseLeadership zebra cleanRoutingTable \
                        lbClassNameLegacyHandling disableServiceUpdates enableEndpoints \
                        loInterfaceGlobalScope egressWithNftables perServiceElectionOnDemand \
                        bgpAttachIPToInterface inCluster taint";
