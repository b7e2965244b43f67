//! What the kernel does not do with an address, and what people can do about it.

use std::io;

use ipnet::IpNet;
use kedge_core::{Code, Coded, Fix, Problem};

use crate::privilege;

/// An address could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// No socket for requests.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The kernel did not tell which addresses there are.
    #[error("cannot read the addresses of the host")]
    Read(#[source] io::Error),
    /// The kernel refused to add or renew it.
    #[error("the kernel refused the address {net} on interface {ifindex}")]
    Add {
        /// The interface.
        ifindex: u32,
        /// The address.
        net: IpNet,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The kernel refused to remove it.
    #[error("the kernel refused to remove {net} from interface {ifindex}")]
    Remove {
        /// The interface.
        ifindex: u32,
        /// The address.
        net: IpNet,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The address is there and is not ours.
    #[error("{net} is already on interface {ifindex}, and Kedge did not put it there")]
    Foreign {
        /// The interface.
        ifindex: u32,
        /// The address.
        net: IpNet,
    },
}

impl Coded for AddressError {
    fn problem(&self) -> Problem {
        match self {
            Self::Open(error) | Self::Read(error) => {
                privilege::problem(Code::NetKernel, self.to_string(), error)
            }
            // A missing privilege is EPERM; this is how the kernel says that the interface has no IPv6.
            Self::Add { net, source, .. }
                if net.addr().is_ipv6() && source.raw_os_error() == Some(libc::EACCES) =>
            {
                Problem::new(Code::VipAddressRefused, self.to_string())
                    .evidence(format!("{source}: IPv6 is switched off on the interface"))
                    .consequence("the address cannot be held here")
                    .fix(
                        Fix::text("switch IPv6 on, or take the address from this host's VIPs")
                            .command("sysctl -a --pattern disable_ipv6"),
                    )
            }
            Self::Add { source, .. } => {
                privilege::problem(Code::VipAddressRefused, self.to_string(), source)
            }
            Self::Remove { source, .. } => {
                privilege::problem(Code::NetKernel, self.to_string(), source)
            }
            Self::Foreign { net, .. } => Problem::new(Code::VipAddressRefused, self.to_string())
                .consequence("Kedge leaves it alone, so it cannot move the address either")
                .fix(
                    Fix::text("remove the address from the host's own network configuration")
                        .command(format!("ip address show to {net}")),
                ),
        }
    }
}
