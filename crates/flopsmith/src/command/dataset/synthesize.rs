//! `flopsmith dataset synthesize`: lets a language model behind an endpoint write slow and fast programs.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_alignment::synthesize::{self, Order, PROGRAMS, Report};
use flopsmith_config::Endpoint;
use flopsmith_problem::prompt::Style;
use flopsmith_run::console::{data, say, table, usage};
use flopsmith_run::digits::counted;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::{endpoint, paths};

use super::super::eval;
use crate::args::{Format, Synthesize};
use crate::exit;

/// Asks for the answers that are missing, and tells what the folder has then.
pub fn run(args: &Synthesize) -> Result<ExitCode> {
    if args.problem.is_empty() && !args.workloads.names.is_empty() {
        return Err(usage(
            "--workload (or FLOPSMITH_DATASET_SYNTHESIZE_WORKLOAD) chooses workloads of the problems of --problem, and there is none; add --problem, or leave it out",
        ));
    }
    let model = Endpoint::named(&args.endpoint)?;
    let mut problems = Vec::new();
    for name in &args.problem {
        let problem = paths::selected(paths::problem(name)?, &args.workloads.names)?;
        problems.push(Arc::new(problem));
    }
    let order = Order {
        endpoint: &model,
        sampling: eval::sampling(args.temperature, args.top_p, args.max_tokens)?,
        seed: args.seed,
        count: args.count,
        snippets: args.snippets.as_deref(),
        problems,
        workloads: &args.workloads.names,
        style: match (args.full, args.nest) {
            (true, _) => Style::Full,
            (_, true) => Style::Nest,
            _ => Style::Compact,
        },
        compiler: &args.compiler,
        allow_weaker_jail: args.allow_weaker_jail,
        output: &args.output,
    };
    let watch = Watch::saying("stopping…")?;
    let report = synthesize::run(&order, watch.asked())?;
    tell(args, &report);
    if args.format == Format::Json {
        data(&serde_json::to_string(&report)?);
    }
    Ok(ExitCode::from(if watch.asked().is_cancelled() {
        exit::INTERRUPTED
    } else if report.missing > 0 || report.undecided > 0 {
        exit::INFRASTRUCTURE
    } else if report.programs == 0 {
        exit::CANDIDATE
    } else {
        exit::OK
    }))
}

/// Tells how many answers came to what, what the file has, and what all requests have cost.
fn tell(args: &Synthesize, report: &Report) {
    let mut rows = vec![("kept".to_owned(), report.kept)];
    let refused = report.refused.iter();
    rows.extend(refused.map(|(refusal, count)| (format!("refused: {}", refusal.name()), *count)));
    let open = [("undecided", report.undecided), ("missing", report.missing)];
    rows.extend(open.map(|(name, count)| (name.to_owned(), count)));
    let failed = report.failed.iter();
    rows.extend(failed.map(|(reason, count)| (format!("  now: {}", reason.name()), *count)));
    let rows = rows.into_iter().filter(|(_, count)| *count > 0);
    let rows = rows.map(|(name, count)| vec![name, count.to_string()]);
    let lines = table(&[("outcome", false), ("answers", true)], rows);
    lines.iter().for_each(|line| say(line));
    let programs = counted(report.programs as u64, "program");
    let never_ran = report.programs - report.timed - report.wrong;
    say(&format!(
        "{}: {programs}: {} timed, {} wrong, {never_ran} never ran",
        args.output.join(PROGRAMS).display(),
        report.timed,
        report.wrong
    ));
    if report.timed_pairs > 0 {
        say(&format!(
            "the fast program takes less time in {} of {} timed pairs",
            report.faster_pairs, report.timed_pairs
        ));
    }
    say(&endpoint::spent(&report.spending));
    if report.missing > 0 || report.undecided > 0 {
        say("the same command asks for what is missing, and decides on what is undecided");
    }
}
