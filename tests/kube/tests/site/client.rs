//! Clients of the workload API, in a namespace with a leg on the LAN and one outside: one writes a
//! number again and again, others watch it, and ask for it, by the VIP and by the gateway.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kedge_agent_lab::{
    lab::Lab,
    topology::{HOSTS, VIP, host_address},
};
use kedge_net::netns::Namespace;
use kedge_tests_kube::workload::Workload;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

/// The way a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The VIP, on the LAN.
    Vip,
    /// The gateway, from outside.
    Gateway,
}

/// A moment: what is written after it was written after a fault.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
    number: u64,
}

/// Everybody who uses the API.
pub struct Clients {
    stop: Arc<AtomicBool>,
    written: Arc<Mutex<u64>>,
    watches: Vec<(Via, Track)>,
    requests: Vec<(Via, Track)>,
    threads: Vec<JoinHandle<()>>,
}

/// What one of them heard, and when.
type Track = Arc<Mutex<Heard>>;

#[derive(Debug, Default)]
struct Heard {
    numbers: Vec<(Instant, u64)>,
    /// How often it had to read everything anew.
    lists: u32,
}

impl Via {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Vip, Self::Gateway];
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vip => "the VIP",
            Self::Gateway => "the gateway",
        })
    }
}

impl Clients {
    /// Starts them in the client's namespace. `secret` is the kubeconfig that Cluster API made.
    pub fn start(lab: &Lab, workload: &Workload, secret: &str) -> Self {
        let mut clients = Self {
            stop: Arc::default(),
            written: Arc::default(),
            watches: Vec::new(),
            requests: Vec::new(),
            threads: Vec::new(),
        };
        let (stop, written) = (Arc::clone(&clients.stop), Arc::clone(&clients.written));
        let hosts = HOSTS.map(|host| {
            let address = host_address(host).unwrap();
            workload.kubeconfig(&address.to_string())
        });
        clients.spawn(lab, async move || write(&hosts, &written, &stop).await);
        for via in Via::ALL {
            let kubeconfig = match via {
                Via::Vip => workload.kubeconfig(&VIP.to_string()),
                Via::Gateway => secret.to_owned(),
            };
            let (track, stop) = (Track::default(), Arc::clone(&clients.stop));
            clients.watches.push((via, Arc::clone(&track)));
            let config = kubeconfig.clone();
            clients.spawn(lab, async move || watch(&config, &track, &stop).await);
            let (track, stop) = (Track::default(), Arc::clone(&clients.stop));
            clients.requests.push((via, Arc::clone(&track)));
            clients.spawn(lab, async move || ask(&kubeconfig, &track, &stop).await);
        }
        clients
    }

    /// This moment.
    pub fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            number: *locked(&self.written),
        }
    }

    /// Whether a watch heard anything yet.
    ///
    /// # Errors
    ///
    /// It did not.
    pub fn hears(&self, via: Via) -> Result<(), String> {
        let nothing = |track: &Track| locked(track).numbers.len() < 10;
        let silent = self.of(via).any(nothing);
        (!silent).then_some(()).ok_or("not enough".into())
    }

    /// Whether watch and requests heard what was written since.
    ///
    /// # Errors
    ///
    /// What they heard last.
    pub fn went_on(&self, via: Via, since: Mark) -> Result<(), String> {
        let written = *locked(&self.written);
        self.of(via).try_for_each(|track| {
            let last = locked(track)
                .numbers
                .last()
                .map_or(0, |(_, number)| *number);
            let text = format!("{last} was heard last, {written} written, {}", since.number);
            // What was under way at the time of the fault may still arrive.
            (last > since.number + UNDER_WAY).then_some(()).ok_or(text)
        })
    }

    /// The longest silence of each watch, and of requests the same way, since a moment.
    pub fn gaps(&self, since: Mark) -> Vec<(Via, Duration, Duration)> {
        let each = self.watches.iter().zip(&self.requests);
        let gaps = each.map(|((via, watch), (_, request))| {
            (
                *via,
                locked(watch).gap(since.at),
                locked(request).gap(since.at),
            )
        });
        gaps.collect()
    }

    /// Ends them. Nothing was skipped by a watch that did not have to begin anew.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        for (via, track) in &self.watches {
            let heard = locked(track);
            let numbers: Vec<u64> = heard.numbers.iter().map(|(_, number)| *number).collect();
            let holes = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1);
            let holes = holes.count();
            println!(
                "the watch by {via}: {} events, {} lists, {holes} holes",
                numbers.len(),
                heard.lists
            );
            assert!(numbers.is_sorted(), "the watch by {via} went back");
            assert!(
                holes < heard.lists as usize + 1,
                "the watch by {via} skipped events"
            );
        }
    }

    fn of(&self, via: Via) -> impl Iterator<Item = &Track> {
        let both = self.watches.iter().chain(&self.requests);
        both.filter(move |(of, _)| *of == via)
            .map(|(_, track)| track)
    }

    fn spawn<F: Future<Output = ()>>(
        &mut self,
        lab: &Lab,
        work: impl FnOnce() -> F + Send + 'static,
    ) {
        let place = Namespace::open(&lab.namespace("client")).unwrap();
        self.threads.push(std::thread::spawn(move || {
            place.enter().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(work());
        }));
    }
}

impl Heard {
    fn gap(&self, since: Instant) -> Duration {
        let before = self.numbers.iter().rfind(|(at, _)| *at <= since);
        let after = self.numbers.iter().filter(|(at, _)| *at > since);
        let times: Vec<Instant> = before.into_iter().chain(after).map(|(at, _)| *at).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }
}

/// Writes the next number every [`PULSE`], on whichever host answers.
async fn write(hosts: &[String; 3], written: &Mutex<u64>, stop: &AtomicBool) {
    let mut host = 0;
    let mut client: Option<Api<ConfigMap>> = None;
    let mut number = 1;
    while !stop.load(Ordering::Relaxed) {
        let Some(maps) = &client else {
            client = maps_of(&hosts[host % hosts.len()]).await.ok();
            continue;
        };
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PULSE_NAME},
            "data": {"number": number.to_string()}});
        let how = PatchParams::apply("client").force();
        match maps.patch(PULSE_NAME, &how, &Patch::Apply(&map)).await {
            Ok(_) => {
                *locked(written) = number;
                number += 1;
                tokio::time::sleep(PULSE).await;
            }
            Err(_) => {
                host += 1;
                client = None;
            }
        }
    }
}

/// Watches the number; a watch that ends goes on from where it was.
async fn watch(kubeconfig: &str, track: &Track, stop: &AtomicBool) {
    let mut version: Option<String> = None;
    while !stop.load(Ordering::Relaxed) {
        if follow(kubeconfig, track, stop, &mut version).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn follow(
    kubeconfig: &str,
    track: &Track,
    stop: &AtomicBool,
    version: &mut Option<String>,
) -> Result<(), String> {
    let maps = maps_of(kubeconfig).await?;
    let from = match version {
        Some(version) => version.clone(),
        None => {
            let map = maps.get(PULSE_NAME).await.map_err(told)?;
            locked(track).lists += 1;
            hear(track, &map);
            map.metadata.resource_version.unwrap_or_default()
        }
    };
    let only = WatchParams::default().fields(&format!("metadata.name={PULSE_NAME}"));
    let events = maps.watch(&only, &from).await.map_err(told)?;
    let mut events = events.boxed();
    while let Some(event) = events.try_next().await.map_err(told)? {
        match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                hear(track, &map);
                *version = map.metadata.resource_version;
            }
            // The server does not know that version any more.
            WatchEvent::Error(_) => {
                *version = None;
                return Err("begins anew".into());
            }
            _ => {}
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Asks for the number, each time on a new connection.
async fn ask(kubeconfig: &str, track: &Track, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(maps) = maps_of(kubeconfig).await
            && let Ok(map) = maps.get(PULSE_NAME).await
        {
            hear(track, &map);
        }
        tokio::time::sleep(PULSE).await;
    }
}

fn hear(track: &Track, map: &ConfigMap) {
    let number = map
        .data
        .as_ref()
        .and_then(|data| data.get("number")?.parse().ok());
    let mut heard = locked(track);
    heard
        .numbers
        .extend(number.map(|number| (Instant::now(), number)));
}

async fn maps_of(kubeconfig: &str) -> Result<Api<ConfigMap>, String> {
    let read = Kubeconfig::from_yaml(kubeconfig).map_err(told)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(read, &options)
        .await
        .map_err(told)?;
    config.connect_timeout = Some(PATIENCE);
    // A watch on which nothing is heard is taken for dead: who only listens is told nothing by a
    // host that is gone.
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(SILENCE);
    let client = Client::try_from(config).map_err(told)?;
    Ok(Api::namespaced(client, "default"))
}

fn told(error: impl std::error::Error) -> String {
    error.to_string()
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

const PULSE_NAME: &str = "pulse";
const PULSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(500);
const SILENCE: Duration = Duration::from_secs(1);
const UNDER_WAY: u64 = 2;
