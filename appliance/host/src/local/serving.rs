//! Serving a control socket, until it is told to end.

use std::{io, time::Duration};

use axum::{Router, middleware::map_response};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use super::{Bounded, IDLE, PLACES, Peer, Socket, as_document, no_such_route};

/// A control socket that is served. It ends when this is dropped, once the requests under way are
/// answered.
#[derive(Debug)]
pub struct Serving {
    // Nothing is ever sent: that it is gone is the word to leave.
    leave: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

impl Socket {
    /// Serves the routes. Handlers may take [`Peer`] and [`super::MayChange`]; a path without a
    /// route is a `Document<Problem>`, too.
    ///
    /// Must be called inside a tokio runtime.
    #[must_use = "it ends when dropped"]
    pub fn serve(self, routes: Router) -> Serving {
        let Self { listener, place } = self;
        let routes = routes
            .fallback(no_such_route)
            .method_not_allowed_fallback(no_such_route)
            .layer(map_response(as_document))
            .into_make_service_with_connect_info::<Peer>();
        let (leave, left) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // The file and its lock go at the end.
            let _place = place;
            axum::serve(Bounded::new(listener, PLACES, IDLE), routes)
                .with_graceful_shutdown(async {
                    let _ = left.await;
                })
                .await
        });
        Serving {
            leave: Some(leave),
            task,
        }
    }
}

impl Serving {
    /// Takes no more connections.
    pub fn close(&mut self) {
        self.leave = None;
    }

    /// Ends; waits at most `limit` for the requests under way. The socket's file is gone by then.
    pub async fn end(mut self, limit: Duration) {
        self.close();
        if timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
    }
}
