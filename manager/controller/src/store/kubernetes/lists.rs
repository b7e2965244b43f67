//! Lists that are read as they arrive.
//!
//! kube reads a list whole before it shows the first object of it: of ten thousand hosts that is a
//! few hundred megabytes for a moment. In pages an API server reads the store anew for each of
//! them, and a list that is streamed as the beginning of a watch costs it two to three times the
//! processor of a plain one (`docs/numbers.md`). So the list that a watch begins with is a plain one,
//! its objects are shown from its body while that arrives, and kube's watcher gets what is left:
//! a list of nothing with the version to watch from.

use futures_util::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header::CONTENT_LENGTH};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tower::{BoxError, service_fn};

use super::{items::Items, raw::Raw};

/// A client whose lists are shown as they arrive, and come back empty.
pub(super) fn shown(client: &Client, shown: Sender<Vec<Raw>>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (client, shown) = (client.clone(), shown.clone());
        async move {
            let is_list = is_list(&request);
            let answer = client.send(request).await?;
            if is_list && answer.status() == StatusCode::OK {
                show(answer, &shown).await
            } else {
                Ok(answer)
            }
        }
    });
    Client::new(service, namespace)
}

fn is_list(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|part| part == "watch=true");
    request.method() == Method::GET && !is_watch
}

async fn show(
    answer: Response<Body>,
    shown: &Sender<Vec<Raw>>,
) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = answer.into_parts();
    // What is handed on is shorter.
    head.headers.remove(CONTENT_LENGTH);
    let mut body = body.into_data_stream();
    let mut items = Items::default();
    let mut unread = 0;
    loop {
        let more = body.next().await.transpose()?;
        if let Some(more) = &more {
            items.push(more);
            unread += more.len();
        }
        if unread >= PIECE || more.is_none() {
            unread = 0;
            let found = items.read()?;
            if !found.is_empty() {
                shown.send(found).await?;
            }
        }
        if more.is_none() {
            break;
        }
    }
    let mut list = items.finish()?;
    list.insert("items".to_owned(), json!([]));
    let list = serde_json::to_vec(&Value::Object(list))?;
    Ok(Response::from_parts(head, Body::from(list)))
}

/// So many bytes of a list are read at once.
const PIECE: usize = 1 << 15;
