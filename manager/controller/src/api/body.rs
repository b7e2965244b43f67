//! Reads a JSON body whose size, depth and time are bounded before it is parsed.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::header,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ApiError;

/// A JSON body of at most `LIMIT` KiB.
pub struct Bounded<T, const LIMIT: usize>(pub T);

impl<T: DeserializeOwned, const LIMIT: usize, S: Send + Sync> FromRequest<S> for Bounded<T, LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let limit = LIMIT * 1024;
        let declared = request.headers().get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > limit) {
            return Err(too_large(LIMIT));
        }
        let bytes = timeout(PATIENCE, read(request.into_body(), limit))
            .await
            .map_err(|_| ApiError::malformed("the request's body does not arrive"))?
            .ok_or_else(|| too_large(LIMIT))?;
        if depth(&bytes) > MAX_DEPTH {
            return Err(ApiError::too_deep(MAX_DEPTH));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let what: String = error.to_string().escape_debug().take(200).collect();
            ApiError::malformed(format!("the request's body cannot be read: {what}"))
        })
    }
}

async fn read(body: Body, limit: usize) -> Option<Bytes> {
    axum::body::to_bytes(body, limit).await.ok()
}

fn too_large(kibibytes: usize) -> ApiError {
    ApiError::too_large(&format!("{kibibytes} KiB"))
}

/// How deep brackets nest outside of strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut deepest, mut open, mut quoted, mut escaped) = (0, 0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

const MAX_DEPTH: usize = 16;
/// How long a body may take: a report fits into seconds on any line that carries a tunnel.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        assert_eq!(depth(br#"{"a":[1,{"b":"[[[\"["}]}"#), 3);
        assert_eq!(depth(&b"[".repeat(1000)), 1000);
        assert_eq!(depth(b"]]]"), 0);
    }
}
