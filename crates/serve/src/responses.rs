//! Completes and counts the responses of a service. Every service of Flopsmith with an interface for programs does it so.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The header of the version of the service.
const VERSION: &str = "flopsmith-version";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResponse {
    route: String,
    status: u16,
}

/// The counter of responses, by route and status.
pub struct Responses(Family<OfResponse, Counter>);

impl Responses {
    /// A counter in this registry.
    pub fn new(registry: &mut Registry) -> Self {
        let responses = Family::<OfResponse, Counter>::default();
        let help = "Responses, by route and HTTP status";
        registry.register("responses", help, responses.clone());
        Self(responses)
    }

    /// Sends a request to its route if it is admitted, and completes and counts the response. `wrong_method` makes the
    /// refusal of a method from its name.
    pub async fn answer<E: IntoResponse, R: IntoResponse>(
        &self,
        request: Request,
        admitted: Result<(), E>,
        next: Next,
        wrong_method: impl FnOnce(&str) -> R,
    ) -> Response {
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
        let method = request.method().clone();
        let mut response = match admitted {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        };
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            // The router adds the header `Allow` behind this.
            response = wrong_method(method.as_str()).into_response();
        }
        let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
        response.headers_mut().insert(VERSION, version);
        self.count(route, response.status().as_u16());
        response
    }

    /// Counts a response. `route` is the pattern of its path.
    pub fn count(&self, route: impl Into<String>, status: u16) {
        let route = route.into();
        let of = OfResponse { route, status };
        self.0.get_or_create(&of).inc();
    }
}
