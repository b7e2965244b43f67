//! `GET /readyz`: whether a role does its work, for probes.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::{Answers, Asks};

/// Answers a probe.
pub(super) async fn readyz<T: Answers>(State(asks): State<Asks<T>>) -> Response {
    match asks.look(T::unready).await {
        Ok(None) => "ready\n".into_response(),
        Ok(Some(because)) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{because}\n")).into_response()
        }
        Err(failure) => failure.into_response(),
    }
}
