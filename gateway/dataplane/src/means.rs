//! What all connections have to do with: spare pipes, and the way to members.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::balance::Member;
use kedge_net::netns;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::pipes::Pipes;

/// What all connections have to do with.
#[derive(Debug, Default)]
pub(crate) struct Means {
    pub pipes: Pipes,
    /// The network namespaces of hosts that are not reached from this process's own.
    inside: RwLock<BTreeMap<String, PathBuf>>,
    /// The load balancers that clients come through, if they do not come by themselves.
    outer: RwLock<Option<Arc<[IpNet]>>>,
}

impl Means {
    /// Reaches these hosts from these network namespaces from here on.
    pub fn enclose(&self, hosts: BTreeMap<String, PathBuf>) {
        *self.inside.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// Has clients come through these load balancers from here on, or by themselves.
    pub fn behind(&self, outer: Option<Vec<IpNet>>) {
        *self.outer.write().unwrap_or_else(PoisonError::into_inner) = outer.map(Arc::from);
    }

    /// Whom clients come through.
    pub fn outer(&self) -> Option<Arc<[IpNet]>> {
        let outer = self.outer.read().unwrap_or_else(PoisonError::into_inner);
        outer.clone()
    }

    /// Connects to a member.
    pub async fn connect(&self, member: &Member, limit: Duration) -> io::Result<TcpStream> {
        let to = (member.address, member.port).into();
        let connecting = async {
            let make = match member.address {
                IpAddr::V4(_) => TcpSocket::new_v4,
                IpAddr::V6(_) => TcpSocket::new_v6,
            };
            self.within(&member.host, make)?.connect(to).await
        };
        timeout(limit, connecting).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", limit.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// A socket for datagrams to a member and from it.
    pub fn datagrams(&self, member: &Member) -> io::Result<UdpSocket> {
        let own = match member.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = self.within(&member.host, || UdpSocket::bind((own, 0)))?;
        socket.connect((member.address, member.port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// A socket stays in the network namespace that it was made in. One that cannot be entered leads
    /// nowhere: in this process's own the address may be somebody else's.
    fn within<T: Send>(
        &self,
        host: &str,
        make: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let inside = self.inside.read().unwrap_or_else(PoisonError::into_inner);
        let path = inside.get(host).cloned();
        drop(inside);
        netns::within(path.as_deref(), make)
    }
}
