//! The workers of one device, for whoever tells them something: each owns some of the peers.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use kedge_net::{tun::Tun, wait::Doorbell};
use kedge_tunnel_proto::{
    directory::{Change, owner},
    drops::Drops,
    guard::Guard,
    keys::{PrivateKey, PublicKey},
    memory::Memory,
    noise::CoreName,
};
use tokio::sync::watch;

use crate::{
    error::ApplyError,
    lanes::Lanes,
    offload::Standing,
    ports::Ports,
    post::Post,
    shelf::Shelf,
    worker::{self, Command},
};

/// The workers of one device: the first, and the others.
#[derive(Debug)]
pub(crate) struct Crew(Member, Vec<Member>);

/// What all of them share.
pub(crate) struct Shared {
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) drops: Arc<Drops>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) offload: Arc<Standing>,
    pub(crate) shelf: Arc<Shelf>,
}

/// What they begin with.
pub(crate) struct Hired {
    pub(crate) tun: Tun,
    pub(crate) ports: Ports,
    /// Those of the other port.
    pub(crate) other: Option<Ports>,
    pub(crate) received: Vec<Receiver<Command>>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) private_key: PrivateKey,
    pub(crate) mtu: u16,
    pub(crate) noise_core: CoreName,
    /// Whether the device is meant to end with its interface.
    pub(crate) ends_with_interface: bool,
}

#[derive(Debug)]
struct Member {
    commands: SyncSender<Command>,
    bell: Arc<Doorbell>,
}

impl Crew {
    /// Places for so many workers, and where each hears what it is told.
    pub(crate) fn new(workers: u8) -> io::Result<(Self, Vec<Receiver<Command>>)> {
        let member = || {
            let (commands, received) = sync_channel(COMMANDS);
            let bell = Arc::new(Doorbell::new()?);
            io::Result::Ok((Member { commands, bell }, received))
        };
        let (first, received) = member()?;
        let (mut others, mut received) = (Vec::new(), vec![received]);
        for _ in 1..workers {
            let (other, receiver) = member()?;
            others.push(other);
            received.push(receiver);
        }
        Ok((Self(first, others), received))
    }

    /// That of the worker that looks after what all of them share.
    pub(crate) fn first_bell(&self) -> Arc<Doorbell> {
        Arc::clone(&self.0.bell)
    }

    /// Starts all of them. `running` becomes false when one ends by itself.
    ///
    /// # Errors
    ///
    /// No thread, no descriptors; those that run are dismissed.
    pub(crate) fn start(
        &self,
        hired: Hired,
        shared: &Shared,
        running: &watch::Sender<bool>,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let Hired {
            tun,
            ports,
            other,
            received,
            memories,
            private_key,
            mtu,
            noise_core,
            ends_with_interface,
        } = hired;
        let members = self.members();
        let bells: Vec<_> = members.map(|member| Arc::clone(&member.bell)).collect();
        let mut others = other.iter().flat_map(Ports::each);
        let parts = (0_u8..).zip(ports.each()).zip(received).zip(memories);
        let parts = parts.zip(Post::offices(&bells)).zip(&bells);
        let mut workers = Vec::new();
        for (((((number, port), commands), memory), post), bell) in parts {
            let engine = |tun| worker::Engine {
                number,
                workers: self.count(),
                tun,
                port,
                other: others.next(),
                lanes: Arc::clone(&shared.lanes),
                post,
                bell: Arc::clone(bell),
                commands,
                private_key: private_key.clone(),
                mtu,
                noise_core,
                drops: Arc::clone(&shared.drops),
                guard: Arc::clone(&shared.guard),
                ends_with_interface,
                offload: Arc::clone(&shared.offload),
                memory,
                shelf: Arc::clone(&shared.shelf),
            };
            let tun = tun.try_clone();
            match tun.and_then(|tun| worker::spawn(engine(tun), running.clone())) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    self.dismiss();
                    return Err(error);
                }
            }
        }
        Ok(workers)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.0).chain(&self.1)
    }

    /// How many they are.
    pub(crate) fn count(&self) -> u8 {
        u8::try_from(1 + self.1.len()).unwrap_or(u8::MAX)
    }

    /// Tells each what it has to know of a change of peers.
    ///
    /// # Errors
    ///
    /// One of them has ended.
    pub(crate) fn change(&self, change: Change) -> Result<(), ApplyError> {
        let shares = change.share(self.count());
        for (member, share) in self.members().zip(shares) {
            member.tell(Command::Change(Box::new(share)))?;
        }
        Ok(())
    }

    /// Tells all of them.
    ///
    /// # Errors
    ///
    /// One of them has ended.
    pub(crate) fn tell_all(&self, command: impl Fn() -> Command) -> Result<(), ApplyError> {
        let mut members = self.members();
        members.try_for_each(|member| member.tell(command()))
    }

    /// Tells each of them something of its own, the first first.
    ///
    /// # Errors
    ///
    /// One of them has ended.
    pub(crate) fn tell_each(&self, commands: Vec<Command>) -> Result<(), ApplyError> {
        let mut members = self.members().zip(commands);
        members.try_for_each(|(member, command)| member.tell(command))
    }

    /// Tells the worker that has the peer of this [home](kedge_tunnel_proto::directory::Directory::home), unless too much waits for it. Whether it was told.
    pub(crate) fn try_tell(&self, key: &PublicKey, command: Command) -> bool {
        let mut members = self.members();
        let member = members.nth(usize::from(owner(key, self.count())));
        member.is_some_and(|member| {
            let told = member.commands.try_send(command).is_ok();
            if told {
                member.bell.ring();
            }
            told
        })
    }

    /// Tells those that have not ended by themselves to end.
    pub(crate) fn dismiss(&self) {
        for member in self.members() {
            // Nobody may listen, and that is fine.
            let _ = member.tell(Command::Stop);
        }
    }
}

impl Member {
    fn tell(&self, command: Command) -> Result<(), ApplyError> {
        let sent = self.commands.send(command);
        sent.map_err(|_| ApplyError::Stopped)?;
        self.bell.ring();
        Ok(())
    }
}

/// Commands that wait for the worker. Each is taken within a turn of its loop.
const COMMANDS: usize = 64;
