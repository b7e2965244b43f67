//! The agent on the bus: `dev.kedge.Agent1`, to be read by whoever may, and to be told by root.
//!
//! One object for the host and one below it for each VIP, each peer of the tunnel and each other host of the
//! VIPs, under an object manager. What changes is said by PropertiesChanged. The task that serves owns no state of the agent: it is given a [`View`]
//! whenever something changed, and passes on what it is asked.

mod objects;
mod paths;

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::sleep,
};
use tracing::{debug, info};
use zbus::{
    Connection, fdo, interface,
    message::Header,
    object_server::{InterfaceRef, ObjectServer, SignalEmitter},
};

use self::objects::{Shown, follow, path};
pub use self::paths::{PeerView, TunnelView};
use crate::bus::{Bus, Unanswered};

/// The host as everybody sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Kedge's version.
    pub version: String,
    /// The host's name.
    pub hostname: String,
    /// In one line.
    pub state: String,
    /// Whether it is drained.
    pub drained: bool,
    /// What is wrong, each with its code.
    pub problems: Vec<(String, String)>,
    /// Its VIPs, by name.
    pub vips: BTreeMap<String, VipView>,
    /// The peers of its tunnel, by name.
    pub tunnels: BTreeMap<String, TunnelView>,
    /// The other hosts of its VIPs, by address.
    pub peers: BTreeMap<String, PeerView>,
}

/// A VIP as everybody sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipView {
    /// Its addresses, with prefix lengths.
    pub addresses: Vec<String>,
    /// `Active`, `Backup`, `Fault`.
    pub state: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why.
    pub because: String,
    /// Its interface; empty without one.
    pub interface: String,
    /// The virtual router id.
    pub vrid: u8,
    /// What it advertises.
    pub priority: u8,
    /// What it would advertise if all were well.
    pub base_priority: u8,
    /// Who holds it, as a Backup hears; empty where nobody is heard.
    pub active: String,
}

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A VIP is given to another host.
    Release(String),
    /// Every VIP is given away, until the drain ends.
    Drain,
    /// The drain ends.
    Undrain,
    /// The configuration is read again.
    Reload,
}

/// A wish, and where to say what came of it: what was done, or why nothing was.
pub type Request = (Wish, oneshot::Sender<Result<String, String>>);

/// Serves until dropped.
#[derive(Debug)]
pub struct Api {
    view: watch::Sender<View>,
    requests: mpsc::Receiver<Request>,
    task: JoinHandle<()>,
}

impl Api {
    /// Serves, once the bus gives the name. Without its policy there is nothing to serve.
    #[must_use]
    pub fn serve(bus: Bus) -> Self {
        let (view, seen) = watch::channel(View::default());
        let (ask, requests) = mpsc::channel(REQUESTS);
        let task = tokio::spawn(serve(bus, seen, ask));
        Self {
            view,
            requests,
            task,
        }
    }

    /// Whether anybody can look: what is shown otherwise costs for nothing.
    #[must_use]
    pub fn is_served(&self) -> bool {
        !self.task.is_finished()
    }

    /// Shows what has changed.
    pub fn show(&self, view: View) {
        self.view.send_if_modified(|shown| {
            let changed = *shown != view;
            if changed {
                *shown = view;
            }
            changed
        });
    }

    /// The next wish. Loses nothing when it is cancelled.
    pub async fn next(&mut self) -> Request {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(bus: Bus, mut seen: watch::Receiver<View>, ask: mpsc::Sender<Request>) {
    loop {
        match attend(&bus, &mut seen, &ask).await {
            Ok(()) => return,
            Err(error) => match Unanswered::from(&error) {
                Unanswered::NoBus => sleep(RETRY).await,
                Unanswered::NoService | Unanswered::Denied | Unanswered::Failed => {
                    debug!(%error, "the agent is not on the bus");
                    return;
                }
            },
        }
    }
}

/// Serves for as long as there is a bus; or an agent, whose end is no error.
async fn attend(
    bus: &Bus,
    seen: &mut watch::Receiver<View>,
    ask: &mpsc::Sender<Request>,
) -> zbus::Result<()> {
    let connection = bus.connection().await?;
    let server = connection.object_server();
    server.at(AGENT, fdo::ObjectManager).await?;
    let first = seen.borrow_and_update().clone();
    let host = HostObject {
        view: first.clone(),
        ask: ask.clone(),
    };
    server.at(AGENT, host).await?;
    let host: InterfaceRef<HostObject> = server.interface(AGENT).await?;
    let mut shown = View::default();
    tell_vips(server, ask, &shown, &first).await?;
    paths::tell(server, &shown, &first).await?;
    shown = first;
    // Whoever sees the name may call at once: what comes before there is somebody to answer is lost, and the caller
    // waits for half a minute.
    own(&connection).await?;
    info!(name = NAME, "the agent is on the bus");
    loop {
        tokio::select! {
            changed = seen.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            () = connection.closed() => {
                return Err(zbus::Error::Failure("the bus is gone".to_owned()));
            }
        }
        let view = seen.borrow_and_update().clone();
        tell_vips(server, ask, &shown, &view).await?;
        paths::tell(server, &shown, &view).await?;
        host.get_mut().await.view = view.clone();
        let (object, to) = (host.get().await, host.signal_emitter());
        if view.state != shown.state {
            object.state_changed(to).await?;
        }
        if view.drained != shown.drained {
            object.drained_changed(to).await?;
        }
        if view.problems != shown.problems {
            object.problems_changed(to).await?;
        }
        if !view.vips.keys().eq(shown.vips.keys()) {
            object.vips_changed(to).await?;
        }
        drop(object);
        shown = view;
    }
}

/// Owns the name. A package's policy may be read a moment after its unit has started.
async fn own(connection: &Connection) -> zbus::Result<()> {
    let mut tries = 0;
    loop {
        match connection.request_name(NAME).await {
            Ok(_) => return Ok(()),
            Err(error) if tries == TRIES || Unanswered::from(&error) != Unanswered::Denied => {
                return Err(error);
            }
            Err(_) => tries += 1,
        }
        sleep(PAUSE).await;
    }
}

async fn tell_vips(
    server: &ObjectServer,
    ask: &mpsc::Sender<Request>,
    shown: &View,
    view: &View,
) -> zbus::Result<()> {
    let vip = |name: &str, view| VipObject {
        name: name.to_owned(),
        view,
        ask: ask.clone(),
    };
    follow(server, VIP, &shown.vips, &view.vips, vip).await
}

struct HostObject {
    view: View,
    ask: mpsc::Sender<Request>,
}

#[interface(name = "dev.kedge.Agent1", introspection_docs = false)]
impl HostObject {
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &str {
        &self.view.version
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn hostname(&self) -> &str {
        &self.view.hostname
    }

    #[zbus(property)]
    fn state(&self) -> &str {
        &self.view.state
    }

    #[zbus(property)]
    fn drained(&self) -> bool {
        self.view.drained
    }

    #[zbus(property)]
    fn problems(&self) -> Vec<(String, String)> {
        self.view.problems.clone()
    }

    #[zbus(property)]
    fn vips(&self) -> Vec<zbus::OwnedObjectPath> {
        let paths = self.view.vips.keys().map(|name| path(VIP, name));
        paths.filter_map(|path| path.try_into().ok()).collect()
    }

    #[zbus(out_args("done"))]
    async fn drain(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        pass_on(&self.ask, Wish::Drain, &header, connection).await
    }

    #[zbus(out_args("done"))]
    async fn undrain(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        pass_on(&self.ask, Wish::Undrain, &header, connection).await
    }

    #[zbus(out_args("done"))]
    async fn reload(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        pass_on(&self.ask, Wish::Reload, &header, connection).await
    }
}

struct VipObject {
    name: String,
    view: VipView,
    ask: mpsc::Sender<Request>,
}

#[interface(name = "dev.kedge.Agent1.VIP", introspection_docs = false)]
impl VipObject {
    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> &str {
        &self.name
    }

    #[zbus(property)]
    fn addresses(&self) -> Vec<String> {
        self.view.addresses.clone()
    }

    #[zbus(property)]
    fn state(&self) -> &str {
        &self.view.state
    }

    #[zbus(property)]
    fn since(&self) -> &str {
        &self.view.since
    }

    #[zbus(property)]
    fn because(&self) -> &str {
        &self.view.because
    }

    #[zbus(property)]
    fn interface(&self) -> &str {
        &self.view.interface
    }

    #[zbus(property)]
    fn vrid(&self) -> u8 {
        self.view.vrid
    }

    #[zbus(property)]
    fn priority(&self) -> u8 {
        self.view.priority
    }

    #[zbus(property)]
    fn base_priority(&self) -> u8 {
        self.view.base_priority
    }

    #[zbus(property)]
    fn active(&self) -> &str {
        &self.view.active
    }

    #[zbus(out_args("done"))]
    async fn release(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        let wish = Wish::Release(self.name.clone());
        pass_on(&self.ask, wish, &header, connection).await
    }
}

impl Shown for VipObject {
    type View = VipView;

    fn view(&mut self) -> &mut VipView {
        &mut self.view
    }

    async fn tell(&self, to: &SignalEmitter<'_>, before: &VipView) -> zbus::Result<()> {
        let now = &self.view;
        if now.addresses != before.addresses {
            self.addresses_changed(to).await?;
        }
        if now.interface != before.interface {
            self.interface_changed(to).await?;
        }
        if now.vrid != before.vrid {
            self.vrid_changed(to).await?;
        }
        if now.priority != before.priority {
            self.priority_changed(to).await?;
        }
        if now.base_priority != before.base_priority {
            self.base_priority_changed(to).await?;
        }
        if now.active != before.active {
            self.active_changed(to).await?;
        }
        if now.because != before.because {
            self.because_changed(to).await?;
        }
        if now.since != before.since {
            self.since_changed(to).await?;
        }
        if now.state != before.state {
            self.state_changed(to).await?;
        }
        Ok(())
    }
}

/// Passes a wish of root's on, and waits for what comes of it.
async fn pass_on(
    ask: &mpsc::Sender<Request>,
    wish: Wish,
    header: &Header<'_>,
    connection: &Connection,
) -> fdo::Result<String> {
    let sender = header.sender().ok_or_else(|| denied("nobody"))?;
    let bus = fdo::DBusProxy::new(connection).await?;
    let user = bus
        .get_connection_unix_user(sender.to_owned().into())
        .await?;
    if user != 0 {
        return Err(denied(&format!("user {user}")));
    }
    let (answer, answered) = oneshot::channel();
    let leaving = || fdo::Error::Failed("the agent is leaving".to_owned());
    ask.send((wish, answer)).await.map_err(|_| leaving())?;
    let outcome = answered.await.map_err(|_| leaving())?;
    outcome.map_err(fdo::Error::Failed)
}

fn denied(who: &str) -> fdo::Error {
    fdo::Error::AccessDenied(format!(
        "{who} may look, and only root may change something"
    ))
}

const NAME: &str = "dev.kedge.Agent1";
const AGENT: &str = "/dev/kedge/Agent1";
const VIP: &str = "vip";
const REQUESTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(100);
const TRIES: u32 = 20;
const RETRY: Duration = Duration::from_secs(30);
