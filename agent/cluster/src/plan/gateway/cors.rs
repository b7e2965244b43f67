//! The filter of an HTTPRoute that says whose pages may read answers.

use std::time::Duration;

use kedge_core::Span;
use kedge_crd::http::HttpCors;

use crate::gateway_api::Cors;

/// It, as a rule of an HTTPLoadBalancer has it.
///
/// # Errors
///
/// It says nothing.
pub fn cors(asked: Option<&Cors>) -> Result<HttpCors, String> {
    let asked = asked.ok_or("filters: CORS without cors")?;
    let age = |seconds| Span::new(Duration::from_secs(seconds));
    Ok(HttpCors {
        allow_origins: asked.allow_origins.clone(),
        allow_methods: asked.allow_methods.clone(),
        allow_headers: asked.allow_headers.clone(),
        expose_headers: asked.expose_headers.clone(),
        allow_credentials: asked.allow_credentials,
        max_age: asked.max_age.map(age),
    })
}
