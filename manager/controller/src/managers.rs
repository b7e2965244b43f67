//! The field managers: each owns one layer of an object and nobody else writes it.

/// Endpoints: what was decided of a LoadBalancer, and the fill of a blank endpoint.
pub const ENDPOINT: &str = "kedge-endpoint";
/// The endpoint of a Cluster that follows its target: the one value of somebody else's that is
/// replaced, where it is the one we published before.
pub const FOLLOW: &str = "kedge-follow";
/// Where kubeconfig Secrets lead.
pub const ACCESS: &str = "kedge-access";
/// What was last asked for with a LoadBalancer, to know it after the asker is gone.
pub const GIVEN: &str = "kedge-given";
/// Overlay addresses.
pub const OVERLAY: &str = "kedge-overlay";
/// The generation of the desired state of hosts and gateways.
pub const CONFIG: &str = "kedge-config";
/// The addresses our provider gives to claims. Only what a plan says to drop is dropped.
pub const IPAM: &str = "kedge-ipam";
/// Identities.
pub const ENROL: &str = "kedge-enrol";
/// A person's word that a key may enrol, given at a manager.
pub const APPROVE: &str = "kedge-approve";
/// Enrolment tokens.
pub const TOKEN: &str = "kedge-token";
/// The certificate authority.
pub const CA: &str = "kedge-ca";
/// What tenants' clusters offer at the gateways. A plan only drops it, for hosts that are out.
pub const EXPOSED: &str = "kedge-exposures";
/// Ports and addresses that were chosen for what tenants' clusters offer.
pub const PORTS: &str = "kedge-ports";
/// Records for external-dns.
pub const DNS: &str = "kedge-dns";
/// Certificates for cert-manager.
pub const ISSUED: &str = "kedge-issued";
/// Keys of banned hosts, in their tenant's list.
pub const DENIED: &str = "kedge-denied";
/// The copy of that list.
pub const BANNED: &str = "kedge-banned";

/// The managers whose layers a plan decides; the others belong to the agent API.
pub const PLANNED: [&str; 10] = [
    ENDPOINT, FOLLOW, GIVEN, OVERLAY, CONFIG, PORTS, DENIED, BANNED, DNS, ISSUED,
];
/// Labels, annotations and finalizers on objects of anybody.
pub const MARKS: &str = "kedge-marks";
/// Every status.
pub const STATUS: &str = "kedge-manager";

/// The managers whose fields in an object of an API server are a layer.
pub const LAYERED: [&str; 15] = [
    ENDPOINT, FOLLOW, OVERLAY, CONFIG, IPAM, ENROL, APPROVE, TOKEN, CA, DENIED, BANNED, EXPOSED,
    PORTS, DNS, ISSUED,
];

/// The managers whose layers say nothing without another's: they make no object and keep none.
pub const BESIDE: [&str; 5] = [OVERLAY, CONFIG, PORTS, DENIED, APPROVE];
