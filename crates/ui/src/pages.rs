//! The pages. Each is a function from the files of a run and a query to HTML; the templates escape every text.

mod certificates;
mod cluster;
mod compare;
mod curves;
mod frame;
mod list;
mod nodes;
mod program;
mod programs;
mod run;
mod sheet;
mod step;
mod steps;
mod tree;

use flopsmith_protocol::Outcome;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::index::{Record, View};
use crate::refusal::Refusal;
use crate::runs::Runs;
use crate::templates::Templates;

pub use certificates::{certificate, certificates};
pub use cluster::cluster;
pub use compare::compare;
pub use list::list;
pub use nodes::nodes;
pub use program::{number_of, program};
pub use programs::programs;
pub use run::run;
pub use step::step;
pub use steps::steps;
pub use tree::tree;

use frame::Frame;

/// Everything that pages are made of.
pub struct Site {
    /// The runs.
    pub runs: Runs,
    /// The cluster, if the window shows one.
    pub cluster: Option<Cluster>,
    templates: Templates,
}

impl Site {
    /// The pages of these runs, and of this cluster.
    pub fn new(runs: Runs, cluster: Option<Cluster>) -> Self {
        Self {
            runs,
            cluster,
            templates: Templates::new(),
        }
    }

    fn show(&self, template: &str, context: &impl Serialize) -> Result<String, Refusal> {
        self.templates.render(template, context).map_err(|error| {
            tracing::error!(
                template,
                error = format!("{error:#}"),
                "a template is wrong"
            );
            Refusal::failed("the page cannot be shown; the log of the window says why")
        })
    }

    /// The page of a refusal.
    pub fn refusal(&self, refusal: &Refusal) -> String {
        #[derive(Serialize)]
        struct Context<'a> {
            frame: Frame,
            detail: &'a str,
        }
        let title = refusal.status.canonical_reason().unwrap_or("Refused");
        let context = Context {
            frame: Frame::new(title),
            detail: &refusal.detail,
        };
        let shown = self.show("refusal.html", &context);
        shown.unwrap_or_else(|refusal| refusal.detail)
    }
}

/// The outcome of a record.
fn outcome(view: &View, record: &Record) -> Result<Outcome, Refusal> {
    let line = view.line(record)?;
    serde_json::from_slice(&line).map_err(|error| {
        tracing::warn!(offset = record.offset, %error, "a line is no outcome");
        Refusal::failed("the line of this program cannot be read; load the page again, and if that does not help, look at outcomes.jsonl")
    })
}

/// The records of a run that has some.
fn view(snapshot: &crate::watched::Snapshot) -> Result<&View, Refusal> {
    snapshot
        .view
        .as_ref()
        .ok_or_else(|| match (snapshot.done, snapshot.log_length) {
            (true, 0) => {
                Refusal::not_found("the run has no outcomes yet; load the page again later")
            }
            (true, _) => Refusal::failed(
                "the outcomes of the run cannot be read; the log of the window says why",
            ),
            (false, _) => Refusal {
                status: hyper::StatusCode::SERVICE_UNAVAILABLE,
                detail: "the outcomes of the run are being read; load the page again in a moment"
                    .to_owned(),
            },
        })
}
