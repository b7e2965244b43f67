//! The gateway of a tenant's load balancers.

use kedge_crd::Tenant;

use super::{read::gateway_of, refusal::Refusal};
use crate::{plan::gateway::public_addresses, snapshot::Snapshot, store::Name};

/// The gateway that is to serve a tenant's load balancer, which may need an address of it.
///
/// # Errors
///
/// There is none that can.
pub fn gateway(snapshot: &Snapshot, tenant: &Tenant, needs_address: bool) -> Result<Name, Refusal> {
    let name = gateway_of(tenant).ok_or_else(|| Refusal::GatewayUnset {
        tenant: tenant.metadata.name.clone(),
    })?;
    let Some(gateway) = snapshot.gateway(&name) else {
        return Err(Refusal::GatewayMissing { gateway: name });
    };
    if needs_address && public_addresses(gateway).is_empty() {
        return Err(Refusal::GatewayNoAddress { gateway: name });
    }
    Ok(name)
}
