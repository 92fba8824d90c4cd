//! Results for readers: a run as one self-contained HTML page ([`html`]), the pages of `flopsmith bench` ([`bench`])
//! and `flopsmith eval` ([`evaluation`]), bar charts as files of their own ([`bars`]), the lines of the live view
//! ([`live`]), and the records of TensorBoard's event files ([`event_file`]). Pages of other crates take their pieces from
//! here: the archive view ([`heat`]), sources ([`source`]), scales ([`axis`]), numbers and escaped texts ([`text`]), and the
//! style sheet ([`STYLE`]).
//!
//! Pure: data in, text out. This crate reads no files, knows no clock and no terminal, and computes no statistics
//! except those that a drawing needs; the caller provides the numbers.
//!
//! Invariants:
//! - The page refers to nothing outside itself and holds no script, so it can be mailed, archived and opened
//!   anywhere. Programs in it were written by a model: every text is escaped, and the page's own policy forbids
//!   scripts as a second line of defence.
//! - Colour never carries a meaning alone: every series, cell and share also has a label or a number.
//! - Any data gives a well-formed page, numbers that are not finite included.

mod curve;
mod curves;
mod machine;
mod measured;
mod mix;
mod model;
mod multiples;
mod page;
mod roofline;
mod tables;
mod timeline;
mod workloads;

pub mod axis;
pub mod bars;
pub mod bench;
pub mod clock;
pub mod evaluation;
pub mod event_file;
pub mod heat;
pub mod live;
pub mod source;
pub mod text;

pub use model::{
    ArchiveStats, Bandwidth, Best, Ceiling, CellRow, Command, Moment, Noise, OfProblem, OpenBlas,
    ProblemStep, Roofline, RunReport, Sizes, StageChange, StepMetrics, Summary, WorkloadRoof,
};
pub use page::{STYLE, html, is_report};
pub use text::{counted, excerpt, share};
