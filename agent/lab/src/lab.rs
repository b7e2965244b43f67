//! A lab that stands: its namespaces, its threads in them, its processes.

mod configure;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_net::{
    link::{LinkError, Links, sysctl},
    netns::{self, Collected, Lease, Namespace, Signal, Worker},
};

use self::configure::configure;
use crate::{
    error::LabError,
    process::{Process, Stdin, copy_logs},
    topology::{NodePlan, Topology},
};

/// A lab that stands. `Drop` takes it down; [`take_down`](Self::take_down) does and says what it
/// could not remove.
#[derive(Debug)]
pub struct Lab {
    topology: Topology,
    nodes: BTreeMap<&'static str, Node>,
    kedge: PathBuf,
    roles: PathBuf,
    // Given back last: while it is held nobody takes the rest for leftovers.
    lease: Lease,
}

/// A node.
#[derive(Debug)]
struct Node {
    processes: Vec<Process>,
    worker: Worker,
    namespace: Namespace,
}

impl Lab {
    /// Removes what killed runs left and builds a topology. `kedge` is the executable its nodes
    /// run.
    ///
    /// # Errors
    /// When a part cannot be built; the rest is removed again.
    pub fn build(topology: Topology, kedge: PathBuf) -> Result<(Self, Collected), LabError> {
        let collected = netns::collect()?;
        let lease = Lease::take()?;
        let mut lab = Self {
            topology,
            nodes: BTreeMap::new(),
            roles: kedge.clone(),
            kedge,
            lease,
        };
        for plan in &lab.topology.nodes {
            let namespace = Namespace::create(&lab.lease.namespace(plan.name))?;
            let worker = Worker::start(&namespace)?;
            lab.nodes.insert(
                plan.name,
                Node {
                    processes: Vec::new(),
                    worker,
                    namespace,
                },
            );
        }
        lab.wire()?;
        for plan in &lab.topology.nodes {
            let node = lab.node(plan.name)?;
            let plan = plan.clone();
            node.worker.run(move || configure(&plan))??;
        }
        Ok((lab, collected))
    }

    /// The run's four hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        self.lease.id()
    }

    /// The run's directory; it goes with the lab.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.lease.directory()
    }

    /// The executable that nodes run.
    #[must_use]
    pub fn kedge(&self) -> &Path {
        &self.kedge
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A node's own file system root, for `kedge --root`.
    #[must_use]
    pub fn root(&self, node: &str) -> PathBuf {
        self.directory().join(node)
    }

    /// The name of a node's namespace.
    #[must_use]
    pub fn namespace(&self, node: &str) -> String {
        self.lease.namespace(node)
    }

    /// The thread that lives in a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn worker(&self, node: &str) -> Result<&Worker, LabError> {
        self.node(node).map(|node| &node.worker)
    }

    /// Runs the lab's own roles by another executable: nodes may run one that has none.
    #[must_use]
    pub fn with_roles_of(mut self, roles: PathBuf) -> Self {
        self.roles = roles;
        self
    }

    /// Starts `kedge` with arguments on a node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_kedge<'a>(
        &mut self,
        node: &str,
        name: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), LabError> {
        let mut command = Command::new(&self.kedge);
        command.args(arguments).arg("--root").arg(self.root(node));
        self.start(node, name, command)
    }

    /// Starts a hidden role of the lab on a node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_role<'a>(
        &mut self,
        node: &str,
        name: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), LabError> {
        let command = self.role(arguments);
        self.start(node, name, command)
    }

    /// The command of a hidden role.
    #[must_use]
    pub fn role<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.roles);
        command.arg("lab-role").args(arguments);
        command
    }

    /// Starts a program on a node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, node: &str, name: &str, command: Command) -> Result<(), LabError> {
        let log = self.log(node, name);
        let node = self.node_mut(node)?;
        let process = Process::start(&node.worker, name, command, &log, Stdin::Closed)?;
        node.processes.retain(|process| process.name() != name);
        node.processes.push(process);
        Ok(())
    }

    /// Starts a program whose stdin and stdout the caller holds; it is the caller's.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_piped(
        &self,
        node: &str,
        name: &str,
        command: Command,
    ) -> Result<Process, LabError> {
        Process::start(
            &self.node(node)?.worker,
            name,
            command,
            &self.log(node, name),
            Stdin::Piped,
        )
    }

    /// A process of a node.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn process(&mut self, node: &str, name: &str) -> Result<&mut Process, LabError> {
        let no_such = || LabError::NoNode(format!("{node}/{name}"));
        let processes = &mut self.node_mut(node)?.processes;
        processes
            .iter_mut()
            .find(|process| process.name() == name)
            .ok_or_else(no_such)
    }

    /// Asks a process to end, in order, and does not wait.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn terminate(&mut self, node: &str, name: &str) -> Result<(), LabError> {
        let found = self.node_mut(node)?;
        let Node {
            processes,
            namespace,
            ..
        } = found;
        let process = processes
            .iter_mut()
            .find(|process| process.name() == name)
            .ok_or_else(|| LabError::NoNode(format!("{node}/{name}")))?;
        process.terminate(namespace);
        Ok(())
    }

    /// The first process that has ended without being asked: the reason why something that is
    /// waited for does not happen.
    pub fn fallen(&mut self) -> Option<String> {
        self.nodes
            .iter_mut()
            .find_map(|(node, Node { processes, .. })| {
                processes.iter_mut().find_map(|process| {
                    let status = process.ended()?;
                    let words = process.last_words();
                    Some(format!(
                        "{} on {node} ended with {status}: {words}",
                        process.name()
                    ))
                })
            })
    }

    /// Takes a node off the network: its port goes down, its link loses carrier.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn cut(&self, node: &str) -> Result<(), LabError> {
        self.on_ports(node, |links, port| links.down(port))
    }

    /// Undoes [`cut`](Self::cut).
    ///
    /// # Errors
    /// When there is no such node.
    pub fn heal(&self, node: &str) -> Result<(), LabError> {
        self.on_ports(node, |links, port| links.up(port))
    }

    /// Has a whole host die: its port goes down, then everything in it is killed at once. A dead
    /// host has no kernel that would keep addresses, so those go as well.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn kill_host(&mut self, node: &str) -> Result<(), LabError> {
        self.cut(node)?;
        let plan = self.topology.node(node).cloned();
        let node = self.node_mut(node)?;
        node.namespace.signal(Signal::KILL);
        node.processes.clear();
        node.namespace.kill_all()?;
        node.worker
            .run(move || plan.iter().try_for_each(forget_addresses))??;
        Ok(())
    }

    /// Kills every process of a node at once, children of its processes too, except one.
    ///
    /// # Errors
    /// When there is no such node or process.
    pub fn kill_all_but(&mut self, node: &str, name: &str) -> Result<(), LabError> {
        self.signal_all_but(node, name, Signal::KILL)?;
        let processes = self.node_mut(node)?.processes.iter_mut();
        for process in processes.filter(|process| process.name() != name) {
            process.kill();
        }
        Ok(())
    }

    /// Sends a process a signal.
    ///
    /// # Errors
    /// When there is no such node or process.
    pub fn signal(&mut self, node: &str, name: &str, signal: Signal) -> Result<(), LabError> {
        let pid = self.process(node, name)?.pid();
        self.node_mut(node)?.namespace.signal_process(pid, signal);
        Ok(())
    }

    /// Sends every process of a node a signal, except one.
    ///
    /// # Errors
    /// When there is no such node or process.
    pub fn signal_all_but(
        &mut self,
        node: &str,
        name: &str,
        signal: Signal,
    ) -> Result<(), LabError> {
        let spared = self.process(node, name)?.pid();
        // Children first: one whose parent dies first may be told by the kernel, and say goodbye.
        let mut pids = self.pids(node)?;
        pids.sort_unstable_by_key(|pid| std::cmp::Reverse(*pid));
        for pid in pids.into_iter().filter(|pid| *pid != spared) {
            self.node_mut(node)?.namespace.signal_process(pid, signal);
        }
        Ok(())
    }

    /// Every process of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn pids(&mut self, node: &str) -> Result<Vec<u32>, LabError> {
        let pids = self.node_mut(node)?.namespace.processes().into_iter();
        Ok(pids
            .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
            .collect())
    }

    /// Copies every log to a directory that outlives the lab.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn keep_logs(&self, directory: &Path) -> Result<(), LabError> {
        for name in self.nodes.keys() {
            let logs = self.root(name).join("log");
            if logs.exists() {
                let to = directory.join(name);
                copy_logs(&logs, &to).map_err(LabError::file(to))?;
            }
        }
        Ok(())
    }

    /// Takes the lab down and says what is left of it: nothing, if all is well.
    #[must_use]
    pub fn take_down(self) -> Vec<String> {
        let id = self.lease.id().to_owned();
        let directory = self.lease.directory().to_owned();
        drop(self);
        left_of(&id, &directory)
    }

    fn wire(&self) -> Result<(), LabError> {
        for segment in &self.topology.segments {
            let (name, address) = (segment.name, segment.address);
            self.node(segment.home)?
                .worker
                .run(move || -> Result<(), LinkError> {
                    let mut links = Links::open()?;
                    links.bridge(name)?;
                    // Only there when br_netfilter is loaded, and then bridged frames would meet
                    // this namespace's rules.
                    _ = sysctl("bridge/bridge-nf-call-iptables", "0");
                    address.map_or(Ok(()), |address| links.add_address(name, address))
                })??;
        }
        for plan in &self.topology.nodes {
            for leg in &plan.legs {
                let home = self.topology.home(leg.segment).unwrap_or(leg.segment);
                let far = Namespace::open(self.node(plan.name)?.namespace.name())?;
                let (port, link, segment) = (plan.name, leg.link, leg.segment);
                self.node(home)?
                    .worker
                    .run(move || -> Result<(), LinkError> {
                        let mut links = Links::open()?;
                        links.veth(port, link, Some(&far))?;
                        links.attach(port, segment)?;
                        links.up(port)
                    })??;
            }
        }
        Ok(())
    }

    fn on_ports(
        &self,
        node: &str,
        change: impl Fn(&mut Links, &str) -> Result<(), LinkError> + Copy + Send + 'static,
    ) -> Result<(), LabError> {
        let no_such = || LabError::NoNode(node.to_owned());
        let plan = self.topology.node(node).ok_or_else(no_such)?;
        for leg in &plan.legs {
            let home = self.topology.home(leg.segment).ok_or_else(no_such)?;
            let port = plan.name;
            self.node(home)?
                .worker
                .run(move || change(&mut Links::open()?, port))??;
        }
        Ok(())
    }

    fn log(&self, node: &str, name: &str) -> PathBuf {
        self.root(node).join("log").join(format!("{name}.log"))
    }

    fn node(&self, name: &str) -> Result<&Node, LabError> {
        self.nodes
            .get(name)
            .ok_or_else(|| LabError::NoNode(name.to_owned()))
    }

    fn node_mut(&mut self, name: &str) -> Result<&mut Node, LabError> {
        self.nodes
            .get_mut(name)
            .ok_or_else(|| LabError::NoNode(name.to_owned()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // All at once first: what is killed one after another tells its neighbours.
        for node in self.nodes.values() {
            node.namespace.signal(Signal::KILL);
        }
        self.nodes.clear();
    }
}

/// The executable that nodes run: the one that was named, or this one.
///
/// # Errors
/// When the one that was named does not exist.
pub(crate) fn executable(named: Option<&Path>) -> Result<PathBuf, LabError> {
    match named {
        Some(path) => path.canonicalize().map_err(LabError::file(path)),
        None => std::env::current_exe().map_err(LabError::file("/proc/self/exe")),
    }
}

/// What is left of a run that took itself down.
#[must_use]
pub fn left_of(id: &str, directory: &Path) -> Vec<String> {
    let prefix = format!("kedge-{id}-");
    let mut left: Vec<String> = netns::list()
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.starts_with(&prefix))
        .map(|name| format!("namespace {name}"))
        .collect();
    if directory.exists() {
        left.push(format!("directory {}", directory.display()));
    }
    left
}

fn forget_addresses(plan: &NodePlan) -> Result<(), LinkError> {
    let mut links = Links::open()?;
    for leg in &plan.legs {
        for address in links.addresses(leg.link)? {
            if address != leg.address && address.addr().is_ipv4() {
                links.delete_address(leg.link, address)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
