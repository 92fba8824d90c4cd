//! The routes, and the checks that every request passes.

use std::future::ready;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use flopsmith_serve::Token;
use flopsmith_serve::intake::{Unadmitted, has_text_path};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access;
use crate::live;
use crate::pages::{self, Site};
use crate::query::{LONGEST, Query};
use crate::refusal::Refusal;
use crate::templates::{ICON, SCRIPT, STYLE};

/// Pages that are made at the same time. Each may hold some megabytes.
const MOST_PAGES: usize = 4;
/// Clients that events are sent to at the same time.
const MOST_LIVE: usize = 256;
/// Longest path of an address, bytes.
const LONGEST_PATH: usize = 512;

/// Nothing from elsewhere, no script and no style in pages: programs in them were written by a model.
const POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The state that all routes share.
#[derive(Clone)]
pub struct App {
    site: Arc<Site>,
    /// The token that requests need; without one, only requests to loopback are answered.
    token: Option<Arc<Token>>,
    /// Cancelled once the window closes.
    stopping: CancellationToken,
    making: Arc<Semaphore>,
    live: Arc<Semaphore>,
}

impl App {
    /// The window on these pages.
    pub fn new(site: Site, token: Option<Token>, stopping: CancellationToken) -> Self {
        Self {
            site: Arc::new(site),
            token: token.map(Arc::new),
            stopping,
            making: Arc::new(Semaphore::new(MOST_PAGES)),
            live: Arc::new(Semaphore::new(MOST_LIVE)),
        }
    }

    /// A page, made on a thread that may wait for files.
    async fn page(
        self,
        query: Option<String>,
        make: impl FnOnce(&Site, &Query) -> Result<String, Refusal> + Send + 'static,
    ) -> Response {
        let site = Arc::clone(&self.site);
        let made = self.made(move || {
            let query = Query::read(query.as_deref().unwrap_or_default())?;
            make(&site, &query)
        });
        match made.await {
            Ok(page) => html(StatusCode::OK, page),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    async fn made(
        &self,
        make: impl FnOnce() -> Result<String, Refusal> + Send + 'static,
    ) -> Result<String, Refusal> {
        let place = Arc::clone(&self.making).acquire_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let made = make();
            drop(place);
            made
        });
        made.await.unwrap_or_else(|_| {
            Err(Refusal::failed(
                "the page could not be made; the log of the window says why",
            ))
        })
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        html(refusal.status, self.site.refusal(refusal))
    }

    fn admits(&self, request: &Request) -> Result<(), Refusal> {
        let (uri, headers) = (request.uri(), request.headers());
        if !has_text_path(request) {
            return Err(nothing_here());
        }
        if uri.path().len() > LONGEST_PATH || uri.query().is_some_and(|q| q.len() > LONGEST) {
            return Err(Refusal {
                status: StatusCode::URI_TOO_LONG,
                detail: "the address is too long; begin at the first page".to_owned(),
            });
        }
        access::check(headers, self.token.as_deref()).map_err(|unadmitted| match unadmitted {
            Unadmitted::Host => Refusal {
                status: StatusCode::FORBIDDEN,
                detail: "without a token the window answers requests to localhost only; call it by 127.0.0.1, or start it with --token-file".to_owned(),
            },
            Unadmitted::Token => Refusal {
                status: StatusCode::UNAUTHORIZED,
                detail: "the window needs its token: in a browser as the password, with any name; else as `Authorization: Bearer TOKEN`".to_owned(),
            },
        })
    }
}

/// The routes of the window.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/compare", get(compare))
        .route("/cluster", get(cluster))
        .route("/runs/{run}", of_run(pages::run))
        .route("/runs/{run}/events", get(events))
        .route("/runs/{run}/programs", of_run(pages::programs))
        .route("/runs/{run}/programs/{number}", of_number(pages::program))
        .route("/runs/{run}/candidates/{id}", get(candidate))
        .route("/runs/{run}/tree", of_run(pages::tree))
        .route("/runs/{run}/nodes", get(nodes))
        .route("/runs/{run}/steps", of_run(pages::steps))
        .route("/runs/{run}/steps/{step}", of_number(pages::step))
        .route("/runs/{run}/certificates", get(certificates))
        .route("/runs/{run}/certificates/{id}", get(certificate))
        .route("/ui.css", get(|| ready(style())))
        .route(
            "/ui.js",
            get(|| ready(text("text/javascript; charset=utf-8", SCRIPT.to_owned()))),
        )
        .route(
            "/icon.svg",
            get(|| ready(text("image/svg+xml; charset=utf-8", ICON.to_owned()))),
        )
        .fallback(|State(app): State<App>| ready(app.refuse(&nothing_here())))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

fn nothing_here() -> Refusal {
    Refusal::not_found("there is nothing at this address; begin at the first page")
}

/// Checks a request before its route sees it, and completes the response.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match app.admits(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => app.refuse(&refusal),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        let scheme = "Basic realm=\"flopsmith ui\", charset=\"UTF-8\"";
        let headers = response.headers_mut();
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    }
    complete(response.headers_mut());
    response
}

fn complete(headers: &mut HeaderMap) {
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // A run grows, and its programs stay on this machine.
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn html(status: StatusCode, page: String) -> Response {
    let mut response = text("text/html; charset=utf-8", page);
    *response.status_mut() = status;
    response
}

fn text(kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn style() -> Response {
    let style = flopsmith_report::STYLE.to_owned() + STYLE;
    text("text/css; charset=utf-8", style)
}

async fn list(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    app.page(query, pages::list).await
}

async fn compare(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    app.page(query, pages::compare).await
}

async fn cluster(State(app): State<App>) -> Response {
    app.page(None, |site, _| pages::cluster(site)).await
}

/// The route of a page of a run.
fn of_run(page: fn(&Site, &str, &Query) -> Result<String, Refusal>) -> MethodRouter<App> {
    get(
        move |State(app): State<App>, Path(run): Path<String>, RawQuery(query): RawQuery| {
            app.page(query, move |site, query| page(site, &run, query))
        },
    )
}

/// The route of a page of a part of a run, which has a number.
fn of_number<T: FromStr + 'static>(
    page: fn(&Site, &str, T, &Query) -> Result<String, Refusal>,
) -> MethodRouter<App> {
    get(
        move |State(app): State<App>,
              Path((run, number)): Path<(String, String)>,
              RawQuery(query): RawQuery| {
            app.page(query, move |site, query| {
                let number = number.parse().map_err(|_| nothing_here())?;
                page(site, &run, number, query)
            })
        },
    )
}

async fn nodes(State(app): State<App>, Path(run): Path<String>) -> Response {
    app.page(None, move |site, _| pages::nodes(site, &run))
        .await
}

async fn certificates(State(app): State<App>, Path(run): Path<String>) -> Response {
    app.page(None, move |site, _| pages::certificates(site, &run))
        .await
}

async fn certificate(State(app): State<App>, Path((run, id)): Path<(String, String)>) -> Response {
    app.page(None, move |site, _| pages::certificate(site, &run, &id))
        .await
}

/// Leads to the program of a candidate.
async fn candidate(State(app): State<App>, Path((run, id)): Path<(String, String)>) -> Response {
    let site = Arc::clone(&app.site);
    let place = app.made(move || pages::number_of(&site, &run, &id)).await;
    let place = place.and_then(|place| HeaderValue::try_from(place).map_err(|_| nothing_here()));
    match place {
        Ok(place) => (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response(),
        Err(refusal) => app.refuse(&refusal),
    }
}

async fn events(State(app): State<App>, Path(run): Path<String>) -> Response {
    let run = match app.site.runs.get(&run) {
        Ok(run) => run,
        Err(refusal) => return app.refuse(&refusal),
    };
    let Ok(place) = Arc::clone(&app.live).try_acquire_owned() else {
        return app.refuse(&Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            detail: "too many pages wait for events; load the page again to see new outcomes"
                .to_owned(),
        });
    };
    let events = live::events(run, app.stopping.clone(), place);
    let mut response = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
