//! The routes every role with a loop and tunnels has.

use axum::{
    Router,
    extract::{Path, State},
    routing::{get, post},
};
use kedge_control::local::{ConfigInForce, Reloaded, Tunnel, TunnelList};
use kedge_core::Code;

use super::{Answer, Answers, Asks, Failure, MayChange, metrics, unknown};

/// Status, tunnels, configuration and reload; a role adds its own.
pub fn routes<T: Answers>() -> Router<Asks<T>> {
    Router::new()
        .route("/v1/status", get(status::<T>))
        .route("/v1/tunnels", get(tunnels::<T>))
        .route("/v1/tunnels/{name}", get(tunnel::<T>))
        .route("/v1/config", get(config::<T>))
        .route("/v1/reload", post(reload::<T>))
        .route("/metrics", get(metrics::metrics::<T>))
}

type Loop<T> = State<Asks<T>>;

async fn status<T: Answers>(State(asks): Loop<T>) -> Result<Answer<T::Status>, Failure> {
    asks.look(T::status).await.map(Answer)
}

async fn tunnels<T: Answers>(State(asks): Loop<T>) -> Result<Answer<TunnelList>, Failure> {
    asks.look(T::tunnels).await.map(Answer)
}

async fn tunnel<T: Answers>(
    State(asks): Loop<T>,
    Path(name): Path<String>,
) -> Result<Answer<Tunnel>, Failure> {
    let TunnelList { items, offload, .. } = asks.look(T::tunnels).await?;
    let found = items.into_iter().find(|tunnel| tunnel.name == name);
    found
        .map(|tunnel| Answer(Tunnel { offload, ..tunnel }))
        .ok_or_else(|| unknown(Code::TunUnknown, "tunnel peer", &name, "kedge tunnel list"))
}

async fn config<T: Answers>(State(asks): Loop<T>) -> Result<Answer<ConfigInForce>, Failure> {
    asks.look(T::config).await.map(Answer)
}

async fn reload<T: Answers>(
    State(asks): Loop<T>,
    _may: MayChange,
) -> Result<Answer<Reloaded>, Failure> {
    asks.reload().await.map(Answer)
}

#[cfg(test)]
mod tests {
    use hyper::{Method, StatusCode};
    use kedge_core::{Fix, Problem};
    use serde_json::Value;

    use super::{
        super::{Serving, Socket, call, questions, ready::readyz},
        *,
    };
    use crate::Role;

    /// A gateway with one tunnel, whose second reload is refused.
    #[derive(Default)]
    struct Gateway {
        generation: u64,
    }

    impl Answers for Gateway {
        const ROLE: Role = Role::Gateway;
        type Status = TunnelList;

        fn status(&self) -> TunnelList {
            self.tunnels()
        }

        fn tunnels(&self) -> TunnelList {
            let items = vec![Tunnel {
                name: "t/edge-a".to_owned(),
                ..Tunnel::default()
            }];
            TunnelList {
                items,
                ..TunnelList::default()
            }
        }

        fn unready(&self) -> Option<&'static str> {
            (self.generation == 0).then_some("nothing was read")
        }

        fn config(&self) -> ConfigInForce {
            ConfigInForce {
                generation: self.generation,
                files: Vec::new(),
                origins: Default::default(),
                values: Value::Null,
            }
        }

        fn reload(&mut self) -> Result<Reloaded, Problem> {
            if self.generation > 0 {
                let fix = Fix::text("write it well");
                return Err(Problem::new(Code::ConfigRule, "it does not hold").fix(fix));
            }
            self.generation += 1;
            Ok(Reloaded {
                generation: self.generation,
                changes: Vec::new(),
            })
        }
    }

    async fn ask(socket: &std::path::Path, method: Method, route: &str) -> (StatusCode, Value) {
        let reply = call(socket, method, route, Vec::new()).await.unwrap();
        (reply.status, reply.json().unwrap())
    }

    #[tokio::test]
    async fn the_loop_answers_every_route_and_is_told_of_a_reload() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.sock");
        let (asks, mut asked) = questions::<Gateway>();
        let _serving: Serving = Socket::bind(&path)
            .unwrap()
            .serve(routes().with_state(asks.clone()));
        let looped = tokio::spawn(async move {
            let (mut role, mut reloads) = (Gateway::default(), Vec::new());
            while let Some(ask) = asked.recv().await {
                reloads.push(ask.answer(&mut role));
                if reloads.len() == 9 {
                    break;
                }
            }
            reloads
        });
        let get = async |route| ask(&path, Method::GET, route).await;
        assert_eq!(get("/v1/status").await.1["kind"], "TunnelList");
        assert_eq!(get("/v1/tunnels/t%2Fedge-a").await.1["name"], "t/edge-a");
        let told = call(&path, Method::GET, "/metrics", Vec::new())
            .await
            .unwrap();
        let told = String::from_utf8(told.body.to_vec()).unwrap();
        assert!(
            told.contains("kedge_tunnel_up{peer=\"t/edge-a\"} 0"),
            "{told}"
        );
        let (status, nobody) = get("/v1/tunnels/nobody").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(nobody["code"], Code::TunUnknown.to_string());
        let probed = async || readyz(State(asks.clone())).await.status();
        assert_eq!(probed().await, StatusCode::SERVICE_UNAVAILABLE);
        let (status, reloaded) = ask(&path, Method::POST, "/v1/reload").await;
        assert_eq!(status, StatusCode::OK, "tests run as root: {reloaded}");
        assert_eq!(get("/v1/config").await.1["generation"], 1);
        assert_eq!(probed().await, StatusCode::OK);
        let (status, refused) = ask(&path, Method::POST, "/v1/reload").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
        let reloads = looped.await.unwrap();
        assert_eq!(
            reloads,
            [false, false, false, false, false, true, false, false, true]
        );
        // The loop has ended and the socket has not.
        let (_, leaving) = get("/v1/status").await;
        assert_eq!(leaving["code"], Code::HostNotRunning.to_string());
        assert_eq!(leaving["what"], "the gateway is leaving");
    }

    #[tokio::test]
    async fn a_question_in_the_queue_is_refused_when_the_loop_leaves() {
        let (asks, asked) = questions::<Gateway>();
        let asking = tokio::spawn(async move { asks.look(|_| ()).await });
        let limit = std::time::Duration::from_secs(10);
        let queued = async {
            while asked.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limit, queued).await.unwrap();
        drop(asked);
        let answer = tokio::time::timeout(limit, asking).await.unwrap();
        let refused = answer.unwrap().unwrap_err();
        assert_eq!(refused.0.what, "the gateway is leaving");
    }
}
