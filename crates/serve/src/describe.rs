//! The routes that only tell: problems, health, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use flopsmith_problem::{Language, Params, Problem, Target, prompt};
use flopsmith_protocol::TechniqueSet;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::cluster::{Cluster, ClusterHealth};
use crate::http::{App, json};
use crate::metrics::Now;
use crate::program::permitted;
use crate::refusal::{Kind, Refusal};

/// A workload of a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The sizes of its calls.
    pub params: BTreeMap<String, i64>,
}

/// A problem in the list of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Its name.
    pub problem: String,
    /// One line about it; null if its definition cannot be used.
    pub title: Option<String>,
    /// The collection that it belongs to.
    pub suite: Option<String>,
    /// The kind of its programs: `kernel`, or `module` of PyTorch; null if its definition cannot be used.
    #[schemars(with = "Option<String>")]
    pub target: Option<Target>,
    /// The languages that its programs may be in.
    #[schemars(with = "Vec<String>")]
    pub languages: Vec<Language>,
    /// The workloads at which its programs are timed.
    pub workloads: Vec<Workload>,
    /// Why its definition cannot be used.
    pub error: Option<String>,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Described {
    /// Its name.
    pub problem: String,
    /// One line about it.
    pub title: String,
    /// The collection that it belongs to.
    pub suite: Option<String>,
    /// The kind of its programs: `kernel`, or `module` of PyTorch.
    #[schemars(with = "String")]
    pub target: Target,
    /// The language of programs that name none: `c`, `c++`, `fortran` or `fortran77`, or `python` for a module.
    #[schemars(with = "String")]
    pub language: Language,
    /// All languages that its programs may be in.
    #[schemars(with = "Vec<String>")]
    pub languages: Vec<Language>,
    /// The program whose time `ratio` divides by that of a program.
    pub compared_with: String,
    /// The function, or of a module the class, that a program defines.
    pub entry: String,
    /// Its prototype in C, or the head of the class.
    pub prototype: String,
    /// The workloads at which its programs are timed.
    pub workloads: Vec<Workload>,
    /// The techniques that its programs may use.
    pub techniques: TechniqueSet,
    /// The C headers that programs may include.
    pub includes: Vec<String>,
    /// Length of the longest program, bytes.
    pub max_source_bytes: usize,
    /// Digest of the definition.
    pub digest: String,
    /// The prompt about the task for a model; it permits all of `techniques`.
    pub prompt: String,
}

/// The state of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or `stopping`.
    pub status: String,
    /// The version of Flopsmith.
    pub version: String,
    /// Number of programs that wait or are being evaluated.
    pub waiting: usize,
    /// Whether programs are being evaluated.
    pub evaluating: bool,
    /// Number of jobs that are not done.
    pub unfinished_jobs: usize,
    /// Expected time until the queue is empty, seconds.
    pub expected_wait_seconds: f64,
    /// The cluster whose workers evaluate; null on local cores.
    pub cluster: Option<ClusterHealth>,
}

fn workloads(problem: &Problem) -> Vec<Workload> {
    let of = |name: &str, params: &Params| Workload {
        name: name.to_owned(),
        params: params.clone(),
    };
    let each = problem.workloads.iter();
    each.map(|workload| of(&workload.name, &workload.params))
        .collect()
}

impl Listed {
    /// All problems by name.
    pub fn all(catalog: &Catalog) -> Vec<Self> {
        let all = catalog.all().into_iter();
        all.map(|(name, found)| match found {
            Ok(problem) => Self {
                problem: name,
                title: Some(problem.title.clone()),
                suite: problem.suite.clone(),
                target: Some(problem.target()),
                languages: problem.languages().to_vec(),
                workloads: workloads(&problem),
                error: None,
            },
            Err(why) => Self {
                problem: name,
                title: None,
                suite: None,
                target: None,
                languages: Vec::new(),
                workloads: Vec::new(),
                error: Some(why),
            },
        })
        .collect()
    }
}

impl Described {
    /// A problem that requests call `name`.
    pub fn of(name: &str, problem: &Problem) -> Self {
        let permitted = permitted(problem);
        Self {
            problem: name.to_owned(),
            title: problem.title.clone(),
            suite: problem.suite.clone(),
            target: problem.target(),
            language: problem.language,
            languages: problem.languages().to_vec(),
            compared_with: problem.compared_with().to_owned(),
            entry: problem.entry.name.clone(),
            prototype: problem.entry.prototype.clone(),
            workloads: workloads(problem),
            techniques: permitted,
            includes: problem.includes.clone(),
            max_source_bytes: problem.max_source_bytes,
            digest: problem.digest.to_string(),
            prompt: prompt::full(problem, permitted, None),
        }
    }
}

/// All problems.
pub async fn problems(State(app): State<App>) -> Result<Response, Refusal> {
    let service = Arc::clone(&app.service);
    let all = tokio::task::spawn_blocking(move || Listed::all(&service.catalog));
    let listed = all.await.unwrap_or_default();
    Ok(json(StatusCode::OK, &listed))
}

/// One problem.
pub async fn problem(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let service = Arc::clone(&app.service);
    let found = tokio::task::spawn_blocking(move || {
        let found = service.catalog.find(&name, &[]);
        found.map(|problem| Described::of(&name, &problem))
    });
    let found = found.await.unwrap_or_else(|e| Err(e.to_string()));
    let described = found.map_err(|why| Refusal::new(Kind::NotFound, why))?;
    Ok(json(StatusCode::OK, &described))
}

/// The state of the service.
pub fn health(app: &App) -> Response {
    let service = &app.service;
    let (waiting, evaluating) = service.waiting();
    let status = match service.stopping().is_cancelled() {
        true => "stopping",
        false => "ok",
    };
    let health = Health {
        status: status.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        waiting,
        evaluating,
        unfinished_jobs: service.unfinished(),
        expected_wait_seconds: service.queue_seconds(),
        cluster: service.cluster().map(Cluster::health),
    };
    json(StatusCode::OK, &health)
}

/// The metrics, in Prometheus' text format.
pub fn metrics(app: &App) -> Response {
    let service = &app.service;
    let cluster = service.cluster();
    let text = service.metrics.text(Now {
        waiting: service.waiting().0,
        evaluating: service.evaluating(),
        jobs: service.unfinished(),
        answers: cluster.is_none_or(|cluster| cluster.health().answers),
    });
    let mut response = Response::new(Body::from(text));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
