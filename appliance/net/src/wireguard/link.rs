//! Links of the kind `wireguard`. Ours carry the [`GROUP`] of everything of Kedge's, and an alias that
//! tells people so. What does not carry the group is somebody else's and is not touched.

use std::io;

use kedge_core::{Code, Coded, Fix, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage as Message,
    link::{LinkAttribute, LinkMessage},
};
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkWireguard};

use crate::{monitor::Link, privilege, rtnl::Requests, virtual_link::GROUP};

/// The links of a network namespace, as far as they are the tunnel's.
#[derive(Debug)]
pub struct WireguardLinks {
    requests: Requests,
}

/// Who has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Nobody.
    Nobody,
    /// A WireGuard link of ours.
    Ours {
        /// The kernel's number for it.
        ifindex: u32,
    },
    /// Somebody else.
    Another,
}

/// A WireGuard link cannot be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The kernel did not answer.
    #[error("cannot look for the interface {name}")]
    Look {
        /// Its name.
        name: String,
        /// What went wrong.
        source: io::Error,
    },
    /// Somebody else has an interface of that name.
    #[error("an interface called `{0}` exists already, and it is not Kedge's")]
    NameTaken(String),
    /// The kernel refused to make it.
    #[error("the kernel refused the WireGuard interface `{name}`")]
    Make {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused to remove it.
    #[error("the kernel refused to remove the WireGuard interface `{name}`")]
    Remove {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl WireguardLinks {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket; `name` is what it was wanted for.
    pub fn open(name: &str) -> Result<Self, LinkError> {
        let requests = Requests::open().map_err(|source| look(name, source))?;
        Ok(Self { requests })
    }

    /// Who has the name `name`.
    ///
    /// # Errors
    ///
    /// The kernel did not answer.
    pub fn find(&mut self, name: &str) -> Result<Named, LinkError> {
        let mut request = LinkMessage::default();
        request.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        match self.requests.get(Message::GetLink(request)) {
            Ok(Message::NewLink(message)) => {
                Ok(Link::read(&message)
                    .filter(is_ours)
                    .map_or(Named::Another, |link| Named::Ours {
                        ifindex: link.index,
                    }))
            }
            Ok(_) => Ok(Named::Another),
            // The last two for what cannot be a name.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENODEV | libc::ERANGE | libc::EINVAL)
                ) =>
            {
                Ok(Named::Nobody)
            }
            Err(source) => Err(look(name, source)),
        }
    }

    /// The number of the link `name` of ours, which is made if nobody has the name, and whether it
    /// was. A new one is down.
    ///
    /// # Errors
    ///
    /// Somebody else has the name, or the kernel refused, `EOPNOTSUPP` if it knows no such links.
    pub fn ensure(&mut self, name: &str) -> Result<(u32, bool), LinkError> {
        match self.find(name)? {
            Named::Ours { ifindex } => Ok((ifindex, false)),
            Named::Another => Err(LinkError::NameTaken(name.to_owned())),
            Named::Nobody => Ok((self.make(name)?, true)),
        }
    }

    /// Removes the link `name` if it is ours; whether there was one.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn remove(&mut self, name: &str) -> Result<bool, LinkError> {
        let Named::Ours { ifindex } = self.find(name)? else {
            return Ok(false);
        };
        let link = LinkUnspec::new_with_index(ifindex).build();
        match self.requests.change(Message::DelLink(link), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
            Err(source) => Err(LinkError::Remove {
                name: name.to_owned(),
                source,
            }),
        }
    }

    fn make(&mut self, name: &str) -> Result<u32, LinkError> {
        let refused = |source| LinkError::Make {
            name: name.to_owned(),
            source,
        };
        let link = LinkMessageBuilder::<LinkWireguard>::new(name)
            .link_group(GROUP)
            .build();
        self.requests
            .change(Message::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(refused)?;
        let Named::Ours { ifindex } = self.find(name)? else {
            return Err(refused(io::ErrorKind::NotFound.into()));
        };
        let mut alias = LinkUnspec::new_with_index(ifindex).build();
        let text = LinkAttribute::IfAlias(ALIAS.to_owned());
        alias.attributes.push(text);
        // The group says whose it is; this is for people.
        let _ = self.requests.change(Message::SetLink(alias), 0);
        Ok(ifindex)
    }
}

fn is_ours(link: &Link) -> bool {
    link.group == GROUP && link.kind.as_deref() == Some("wireguard")
}

fn look(name: &str, source: io::Error) -> LinkError {
    LinkError::Look {
        name: name.to_owned(),
        source,
    }
}

impl Coded for LinkError {
    fn problem(&self) -> Problem {
        let consequence = "there is no tunnel; everything else of this host works on";
        match self {
            Self::NameTaken(name) => Problem::new(
                Code::TunDeviceMissing,
                format!("an interface called {name} exists already"),
            )
            .caused_by(self)
            .fix(
                Fix::text("see whose it is, or choose another name (`tunnel.interface`)")
                    .command(format!("ip -d link show {name}")),
            ),
            Self::Make { name, source } if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Problem::new(
                    Code::TunNoKernel,
                    "the kernel of this host has no WireGuard",
                )
                .caused_by(self)
                .object(name.clone())
                .fix(
                    Fix::text(
                        "load the module, or let Kedge do it in userspace (`tunnel.data_plane: auto`)",
                    )
                    .command("sudo modprobe wireguard"),
                )
            }
            Self::Look { name, source }
            | Self::Make { name, source }
            | Self::Remove { name, source } => {
                privilege::problem(Code::NetKernel, self.to_string(), source).fix(
                    Fix::text("see what the kernel has")
                        .command(format!("ip -d link show {name}")),
                )
            }
        }
        .consequence(consequence)
    }
}

const ALIAS: &str = "kedge tunnel";
