//! systemd-resolved: which names are asked about through a link.

use std::net::IpAddr;

use tokio::time::{Duration, timeout};
use zbus::{Connection, proxy};

use crate::bus::{Bus, Unanswered};

/// Names below `domains`, and no others, are asked about at `servers` through a link.
///
/// # Errors
///
/// systemd-resolved is not there, or refuses.
pub async fn split(
    bus: &Bus,
    ifindex: u32,
    servers: &[IpAddr],
    domains: &[String],
) -> Result<(), Unanswered> {
    let servers: Vec<(i32, Vec<u8>)> = servers.iter().map(|server| wire(*server)).collect();
    // For routing alone: `kubectl get` of a short name is not to be looked up there.
    let domains: Vec<(&str, bool)> = domains.iter().map(|it| (it.as_str(), true)).collect();
    soon(async {
        let connection = bus.connection().await?;
        let (resolved, link) = (resolved(&connection).await?, number(ifindex));
        resolved.set_link_dns(link, &servers).await?;
        resolved.set_link_domains(link, &domains).await?;
        resolved.set_link_default_route(link, false).await
    })
    .await
}

/// Nothing is asked about through a link.
///
/// # Errors
///
/// systemd-resolved is not there, or refuses.
pub async fn revert(bus: &Bus, ifindex: u32) -> Result<(), Unanswered> {
    soon(async {
        let connection = bus.connection().await?;
        resolved(&connection)
            .await?
            .revert_link(number(ifindex))
            .await
    })
    .await
}

async fn resolved(connection: &Connection) -> zbus::Result<ResolvedProxy<'static>> {
    ResolvedProxy::new(connection).await
}

async fn soon<T>(asked: impl Future<Output = zbus::Result<T>>) -> Result<T, Unanswered> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::Failed),
    }
}

/// D-Bus has interfaces as signed numbers.
fn number(ifindex: u32) -> i32 {
    i32::try_from(ifindex).unwrap_or_default()
}

/// An address as resolved wants it: the number of its family, and its bytes.
fn wire(address: IpAddr) -> (i32, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    }
}

#[proxy(
    interface = "org.freedesktop.resolve1.Manager",
    default_service = "org.freedesktop.resolve1",
    default_path = "/org/freedesktop/resolve1"
)]
trait Resolved {
    #[zbus(name = "SetLinkDNS")]
    fn set_link_dns(&self, ifindex: i32, addresses: &[(i32, Vec<u8>)]) -> zbus::Result<()>;
    fn set_link_domains(&self, ifindex: i32, domains: &[(&str, bool)]) -> zbus::Result<()>;
    fn set_link_default_route(&self, ifindex: i32, enable: bool) -> zbus::Result<()>;
    fn revert_link(&self, ifindex: i32) -> zbus::Result<()>;
}

const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_its_family_and_its_bytes() {
        assert_eq!(wire("10.0.0.53".parse().unwrap()), (2, vec![10, 0, 0, 53]));
        let (family, bytes) = wire("fd00::53".parse().unwrap());
        assert_eq!((family, bytes.len(), bytes[15]), (10, 16, 0x53));
    }
}
