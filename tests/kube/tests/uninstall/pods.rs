//! The chart's own Pods, as a kubelet would start them: the Deployment's manager, and the Job that
//! takes back what it left.

use std::{
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};

use k8s_openapi::api::apps::v1::Deployment;
use kedge_tests_kube::{
    assets::{Program, ready},
    bare::{BALANCER, Bare, SPACE},
    chart,
    controllers::Controllers,
    eventually, finalizers, foreign,
    objects::merge,
    pod::Pod,
    process::Process,
    server::{Server, free_ports},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{installed::aggregated, site::LIMIT, traces};

#[tokio::test]
async fn the_charts_pods_run_as_they_are_and_its_job_takes_everything_back() {
    if !ready(&[Program::Helm]) {
        return;
    }
    let Some(server) = Server::start().await else {
        return;
    };
    let bare = Bare::without_ours(server).await;
    let Some(_controllers) = Controllers::start(&bare.server) else {
        return;
    };
    _ = chart::install(&bare.server, &values());
    aggregated(&bare.client).await;
    let Some(mut manager) = Running::start(&bare).await else {
        return;
    };
    bare.pool(SPACE, 9).await;
    bare.ask(SPACE, "edge").await;
    eventually("the endpoint is filled", LIMIT, async || {
        bare.endpoint(SPACE, "edge").await.is_some()
    })
    .await;
    counts_what_comes_and_goes(&bare, &manager).await;

    // The Job ends the manager first: of the Deployment, by whoever runs its Pods.
    let mut job = job(&bare).await;
    let deployments: Api<Deployment> = Api::namespaced(bare.client.clone(), "kedge-system");
    eventually("the Deployment is scaled to none", LIMIT, async || {
        let deployment = deployments.get("kedge-manager").await.unwrap();
        deployment.spec.unwrap().replicas == Some(0)
    })
    .await;
    assert!(job.process.is_running(), "it waits for the manager");
    manager.pod.process.signal(Signal::TERM);
    let left = ended("the manager", &mut manager.pod.process).await;
    assert!(left.success(), "{}", manager.pod.process.last_words());
    let done = ended("the Job", &mut job.process).await;
    let said = job.process.last_words();
    println!("{said}");
    assert!(done.success(), "{said}");
    for what in ["LoadBalancer", "edge", "finalizer kedge.dev/loadbalancer"] {
        assert!(said.contains(what), "{what} is not in {said}");
    }
    assert_eq!(traces(&bare.client).await, [] as [String; 0]);

    // It comes back, and dies without a word and with a hook on a Machine.
    _ = chart::install(&bare.server, &values());
    let Some(manager) = Running::start(&bare).await else {
        return;
    };
    let balancers = BALANCER.of(&bare.client, SPACE);
    eventually("it holds its LoadBalancer again", LIMIT, async || {
        let balancer = balancers.get("edge").await.unwrap();
        !balancer.metadata.finalizers.unwrap_or_default().is_empty()
    })
    .await;
    manager.pod.process.signal(Signal::KILL);
    machine(&bare, json!({(crate::fleet::PRE_DRAIN): "kedge-manager"})).await;
    let mut job = self::job(&bare).await;
    let done = ended("the Job", &mut job.process).await;
    assert!(done.success(), "{}", job.process.last_words());
    assert_eq!(traces(&bare.client).await, [] as [String; 0]);
    chart::remove(&bare.server);
    remove_machine(&bare).await;
}

/// What scrapers see follows what there is, also when it goes.
async fn counts_what_comes_and_goes(bare: &Bare, manager: &Running) {
    machine(bare, json!({})).await;
    let says = async |line: &str| {
        let text = manager.get("/metrics").await;
        text.lines().any(|it| it == line)
    };
    let waits = async |line: &str| eventually(line, LIMIT, async || says(line).await).await;
    waits("kedge_lb_members{state=\"adding\"} 1").await;
    waits("kedge_controller_queue_depth 0").await;
    for line in [
        "kedge_lb_members{state=\"active\"} 0",
        "kedge_endpoints{state=\"filled\"} 1",
        "kedge_leader 1",
        "kedge_problems 0",
        "kedge_enrolments_total{outcome=\"granted\"} 0",
        "kedge_events_lost_total{because=\"refused\"} 0",
    ] {
        assert!(
            says(line).await,
            "{line}: {}",
            manager.get("/metrics").await
        );
    }
    let before = series(&manager.get("/metrics").await);
    for round in 0..5 {
        let name = format!("short-{round}");
        bare.ask(SPACE, &name).await;
        eventually(&format!("{name} is filled"), LIMIT, async || {
            bare.endpoint(SPACE, &name).await.is_some()
        })
        .await;
        bare.remove(SPACE, &name).await;
    }
    remove_machine(bare).await;
    waits("kedge_lb_members{state=\"adding\"} 0").await;
    waits("kedge_endpoints{state=\"filled\"} 1").await;
    let after = series(&manager.get("/metrics").await);
    assert_eq!(after, before, "no series is left of what was deleted");
}

/// The names and labels of a text of metrics.
fn series(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut all: Vec<String> = lines
        .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
        .collect();
    all.sort();
    all
}

/// A control-plane Machine of the cluster that no host is behind.
async fn machine(bare: &Bare, annotations: Value) {
    let machine = json!({
        "metadata": {"annotations": annotations, "finalizers": [CORE], "labels": {
            foreign::CLUSTER_NAME: "edge", "cluster.x-k8s.io/control-plane": ""}},
        "spec": {"clusterName": "edge"},
    });
    let machine = foreign::MACHINE.object("cp", machine);
    let machines = foreign::MACHINE.of(&bare.client, SPACE);
    let made = machines.create(&PostParams::default(), &machine).await;
    made.unwrap();
}

/// It goes as core lets it go: nobody's hook holds it.
async fn remove_machine(bare: &Bare) {
    let machines = foreign::MACHINE.of(&bare.client, SPACE);
    machines
        .delete("cp", &DeleteParams::default())
        .await
        .unwrap();
    let machine = machines.get("cp").await.unwrap();
    assert!(machine.metadata.deletion_timestamp.is_some());
    let text = json!(machine.metadata.annotations).to_string();
    assert!(!text.contains("hook.machine.cluster.x-k8s.io"), "{text}");
    let patch = finalizers::remove(&machine, CORE).unwrap();
    merge(&machines, "cp", patch).await.unwrap();
    eventually("the machine is gone", LIMIT, async || {
        machines.get_opt("cp").await.unwrap().is_none()
    })
    .await;
}

const CORE: &str = "machine.cluster.x-k8s.io";

/// The manager in a Pod of the Deployment.
struct Running {
    pod: Pod,
    observed: u16,
}

impl Running {
    async fn start(bare: &Bare) -> Option<Self> {
        let deployments: Api<Deployment> = Api::namespaced(bare.client.clone(), "kedge-system");
        let deployment = deployments.get("kedge-manager").await.unwrap();
        let [port, observed] = free_ports();
        // Beside other tests on the same machine.
        let more = [
            ("KEDGE_SET_LISTEN", format!("127.0.0.1:{port}")),
            ("KEDGE_SET_METRICS__LISTEN", format!("127.0.0.1:{observed}")),
        ];
        let deployment = serde_json::to_value(deployment).unwrap();
        let pod = Pod::start(&bare.server, &deployment, kedge(), &more).await?;
        let mut running = Self { pod, observed };
        let probe = &deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"];
        let path = probe["httpGet"]["path"].as_str().unwrap();
        let begun = Instant::now();
        while running.try_get(path).await.as_deref() != Some("ok\n") {
            let process = &mut running.pod.process;
            let may_wait = process.is_running() && begun.elapsed() < LIMIT;
            assert!(may_wait, "{}", process.last_words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(running)
    }

    async fn get(&self, path: &str) -> String {
        self.try_get(path).await.unwrap()
    }

    /// The body of an answer.
    async fn try_get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.observed))
            .await
            .ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }
}

/// The chart's Job, as its Pod.
async fn job(bare: &Bare) -> Pod {
    let all = chart::template(&values(), &[]);
    let mut jobs = all.iter().filter(|object| object["kind"] == "Job");
    let job = jobs.next().unwrap();
    assert_eq!(job["metadata"]["annotations"]["helm.sh/hook"], "pre-delete");
    Pod::start(&bare.server, job, kedge(), &[]).await.unwrap()
}

/// Waits until a process ended.
async fn ended(what: &str, process: &mut Process) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.wait(Duration::from_millis(5)) {
            println!("{what} ended: {:.1} s", begun.elapsed().as_secs_f64());
            return status;
        }
        assert!(
            begun.elapsed() < LIMIT * 2,
            "{what}: {}",
            process.last_words()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn kedge() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"))
}

fn values() -> Value {
    json!({
        "manager": {"listenAddress": "127.0.0.1"},
        "tenantNamespaces": [SPACE],
    })
}
