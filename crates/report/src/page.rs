//! Assembles the page.

use crate::model::{Best, Command, RunReport};
use crate::text::{bytes, count, counted, duration, escape, number, percent, share};
use crate::{
    curves, heat, machine, measured, mix, multiples, roofline, source, tables, text, timeline,
    workloads,
};

/// The style sheet of all pages, light and dark.
pub const STYLE: &str = include_str!("style.css");

/// The mark that identifies a report.
const MARK: &str = "<meta name=\"generator\" content=\"flopsmith report\"/>";

/// True if a file begins like a report. Its first kilobyte is enough.
pub fn is_report(begin: &[u8]) -> bool {
    begin.windows(MARK.len()).any(|w| w == MARK.as_bytes())
}

/// The beginning of a page, up to its first section. `sub` is HTML.
pub(crate) fn begin(title: &str, sub: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         {MARK}\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\
         <title>{title}</title><style>{STYLE}</style></head><body><main><header><h1>{title}</h1><p class=\"sub\">{sub}</p></header>",
        title = escape(title),
    )
}

/// The end of a page.
pub(crate) const END: &str = "</main></body></html>\n";

/// The whole report as one HTML file without references to other files.
pub fn html(report: &RunReport) -> String {
    let top = scale_top(report);
    let mut out = begin(&report.title, &subtitle(report));
    out.push_str(&tiles(report));
    section(
        &mut out,
        "result",
        "Start and end",
        if report.summary.steps == 0 && report.summary.end.is_some() {
            "No training step fitted into the budget: start and end are of the same model, and differ by chance."
        } else {
            ""
        },
        &tables::start_to_end(
            report.summary.start.as_ref(),
            report.summary.end.as_ref(),
            report.problems.is_empty(),
        ),
    );
    section(
        &mut out,
        "problems",
        "Problems",
        "All charts have the same scales: above the share of correct programs, below the best ratio to the plain reference so far, on a \
         logarithmic scale. Every program is shown with its first measurement. Each problem has a page of its own.",
        &multiples::html(report),
    );
    section(
        &mut out,
        "speed",
        "How fast the best program is",
        &claim(report),
        &(tables::comparison(report) + &workloads::html(report)),
    );
    section(
        &mut out,
        "measured",
        "How it was measured",
        "",
        &measured::html(report),
    );
    section(
        &mut out,
        "roofline",
        "The limits of the machine",
        &roofline::lead(report),
        &wrap("charts", &roofline::html(report)),
    );
    section(
        &mut out,
        "curves",
        "Learning curves",
        "Shaded bands are stages. Point at a step for its numbers. Every program is shown with its first measurement.",
        &wrap("charts", &curves::html(report)),
    );
    let stages = timeline::stages(&report.steps);
    section(
        &mut out,
        "stages",
        "Stages",
        "The techniques that the tasks permitted, and each change of stage by the curriculum.",
        &(stages + &timeline::changes(&report.stage_changes)),
    );
    section(
        &mut out,
        "archive",
        "Archive",
        &format!(
            "Every square is a set of techniques that were detected in the source; filled dots beside the archive view mark them. \
             A program counts once its measurement was repeated; the number is the GFLOPS of the second measurement. \
             {} sets hold such a program. In {} more, framed by dashes, programs were measured once only, and the best of several \
             single measurements is too high.{}",
            count(report.summary.coverage),
            count(report.summary.coverage_unconfirmed),
            other_number(report.best.as_ref())
        ),
        &archive(report, top),
    );
    let mixed = mix::chart(&report.steps) + &mix::totals(&report.summary.outcomes);
    section(
        &mut out,
        "outcomes",
        "Outcomes",
        "Only a program's own faults lower its reward. Failures of the infrastructure are tried again or left out.",
        &wrap("charts", &mixed),
    );
    section(
        &mut out,
        "time",
        "Where the time went",
        "Share of wall time by role, without the measurements before the roles begin and after the run's end; idle is time in which no role made progress.",
        &timeline::shares(&report.summary.share_of_time),
    );
    if let Some(best) = &report.best {
        section(
            &mut out,
            "best",
            "Best source",
            &about(best),
            &source::html(&best.source),
        );
    }
    section(
        &mut out,
        "machine",
        "Machine",
        "The timing role attested these facts when it measured. Numbers from other machines are not comparable.",
        &machine::html(&report.attestation),
    );
    section(&mut out, "again", "Do it again", "", &again(report));
    out.push_str(END);
    out
}

/// The reason why the best program's speed at the top of the page differs from the one in the archive.
fn other_number(best: Option<&Best>) -> &'static str {
    match best {
        Some(best) if best.certified() => {
            " The best program at the top has the number of a third, longer measurement, which the fastest programs had after the \
             end of the run, so its number there differs from the one here."
        }
        _ => "",
    }
}

/// The best program's techniques and vectors, and the place of its raw samples.
fn about(best: &Best) -> String {
    let mut text = escape(&heat::name(best.techniques));
    text.push_str(&vectors(best));
    if let Some(samples) = &best.samples {
        text.push_str(&format!("; raw samples: <code>{}</code>", escape(samples)));
    }
    text
}

/// The vectors in the compiled program, including those that the compiler's vectorizer made.
fn vectors(best: &Best) -> String {
    best.vector_bits.map_or_else(String::new, |bits| {
        format!(", compiled to vectors of {bits} bits")
    })
}

pub(crate) fn section(out: &mut String, id: &str, title: &str, lead: &str, body: &str) {
    if body.is_empty() {
        return;
    }
    let lead = if lead.is_empty() {
        String::new()
    } else {
        format!("<p class=\"lead\">{lead}</p>")
    };
    out.push_str(&format!(
        "<section id=\"{id}\"><h2>{title}</h2>{lead}{body}</section>"
    ));
}

pub(crate) fn wrap(class: &str, body: &str) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!("<div class=\"{class}\">{body}</div>")
    }
}

/// The upper end of speed scales: the machine's peak, or else the best speed in the report.
fn scale_top(report: &RunReport) -> f64 {
    let seen = report
        .cells
        .iter()
        .filter_map(|c| c.best_gflops.or(c.unconfirmed_gflops))
        .filter(|g| g.is_finite())
        .fold(0.0, f64::max);
    report
        .peak_gflops
        .filter(|p| p.is_finite() && *p > 0.0)
        .unwrap_or(seen)
        .max(1e-9)
}

fn subtitle(report: &RunReport) -> String {
    let s = &report.summary;
    let mut parts = vec![format!("run <code>{}</code>", escape(&report.run))];
    if !report.started.is_empty() {
        parts.push(format!("started {}", escape(&report.started)));
    }
    let budget = s.spent_seconds.map_or_else(String::new, |spent| {
        format!(" ({} of them in the budget)", duration(spent))
    });
    parts.push(format!(
        "{} in {}{budget}",
        counted(s.steps, "step"),
        duration(s.seconds)
    ));
    let programs = s
        .outcomes
        .values()
        .fold(0, |a: u64, b| a.saturating_add(*b));
    parts.push(counted(programs, "program"));
    if s.peak_memory_bytes > 0 {
        parts.push(format!("{} of memory", bytes(s.peak_memory_bytes)));
    }
    if !s.finished {
        parts.push("<strong>not finished</strong>".into());
    }
    parts.join(" · ")
}

/// The singular or the plural, for a count.
fn of(count: u64, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// The interval of a ratio, with a remark if the interval is too wide to tell.
fn interval(best: &Best) -> String {
    let interval = &best.interval;
    let little = if interval.is_telling() {
        ""
    } else {
        ", measured too briefly to say more"
    };
    format!(
        "{} % interval {} to {}{little}",
        (100.0 * interval.confidence).round(),
        number(interval.low),
        number(interval.high)
    )
}

fn tiles(report: &RunReport) -> String {
    let mut tiles: Vec<(String, &str, String)> = Vec::new();
    if let Some(best) = &report.best {
        tiles.push((
            number(best.gflops),
            "GFLOPS, best verified program",
            String::new(),
        ));
        tiles.push((
            format!("{}×", number(best.ratio)),
            "the plain reference",
            interval(best),
        ));
        if let Some(peak) = report.peak_gflops.filter(|p| *p > 0.0) {
            tiles.push((
                share(best.gflops / peak),
                "of this machine's peak",
                format!("measured {} GFLOPS", number(peak)),
            ));
        }
        if let Some(openblas) = report.openblas.as_ref().filter(|o| o.gflops > 0.0) {
            tiles.push((
                format!("{}×", number(best.gflops / openblas.gflops)),
                "OpenBLAS",
                format!(
                    "{}: {} GFLOPS",
                    text::openblas(openblas.version.as_deref()),
                    number(openblas.gflops)
                ),
            ));
        }
    }
    if !report.problems.is_empty() {
        let solved = report.problems.iter().filter(|of| of.best.is_some());
        tiles.push((
            format!("{} of {}", solved.count(), report.problems.len()),
            "problems with a verified program",
            String::new(),
        ));
    }
    if let (Some(start), Some(end)) = (&report.summary.start, &report.summary.end) {
        tiles.push((
            percent(end.correct_rate),
            "of its programs are correct",
            format!("{} at the start", percent(start.correct_rate)),
        ));
    }
    // Speeds of different problems have no mean.
    if let (Some(start), Some(end)) = (&report.summary.start, &report.summary.end)
        && report.problems.is_empty()
    {
        tiles.push((
            number(end.mean_gflops),
            "GFLOPS on average",
            format!("{} at the start", number(start.mean_gflops)),
        ));
    }
    tiles.push((
        count(report.summary.coverage),
        of(
            report.summary.coverage,
            "technique set with a program that was measured again",
            "technique sets with a program that was measured again",
        ),
        match report.summary.coverage_unconfirmed {
            0 => String::new(),
            more => format!("{} more measured once only", count(more)),
        },
    ));
    let noise = report.noise.as_ref();
    if let Some(disturbed) = noise.and_then(|n| n.disturbed).filter(|d| *d > 0) {
        tiles.push((
            count(disturbed),
            of(
                disturbed,
                "measurement on a busy machine",
                "measurements on a busy machine",
            ),
            "their numbers are less certain".into(),
        ));
    }
    if report.summary.infrastructure_errors > 0 {
        tiles.push((
            count(report.summary.infrastructure_errors),
            of(
                report.summary.infrastructure_errors,
                "infrastructure error",
                "infrastructure errors",
            ),
            "no program is blamed for them".into(),
        ));
    }
    if report.summary.dead_letters > 0 {
        tiles.push((
            count(report.summary.dead_letters),
            of(
                report.summary.dead_letters,
                "message that no role could process",
                "messages that no role could process",
            ),
            "dead_letters.jsonl says why".into(),
        ));
    }
    if report.summary.unreadable_outcomes > 0 {
        tiles.push((
            count(report.summary.unreadable_outcomes),
            of(
                report.summary.unreadable_outcomes,
                "unreadable line of outcomes.jsonl",
                "unreadable lines of outcomes.jsonl",
            ),
            "their outcomes are left out".into(),
        ));
    }
    let mut out = String::from("<dl class=\"tiles\">");
    for (value, what, note) in tiles {
        let note = if note.is_empty() {
            String::new()
        } else {
            format!("<small>{}</small>", escape(&note))
        };
        out.push_str(&format!(
            "<div><dd>{}</dd><dt>{what}{note}</dt></div>",
            escape(&value)
        ));
    }
    out.push_str("</dl>");
    out
}

/// The ratio of the best program to the best one of the starter model's corpus, and the certainty of its speed and of
/// its verification.
fn claim(report: &RunReport) -> String {
    let Some(best) = &report.best else {
        return String::new();
    };
    let mut text = escape(&heat::name(best.techniques));
    text.push_str(&vectors(best));
    if let Some(step) = best.step {
        text.push_str(&format!(", written in step {step}"));
    }
    text.push_str(if best.certified() {
        ", measured once more after the end of the run."
    } else if best.measured_again {
        ", measured again before it counted."
    } else {
        "; measured once, not yet confirmed."
    });
    if let Some(sizes) = &best.sizes {
        text.push_str(&format!(" Right at {sizes}."));
    }
    if let Some(corpus) = report.corpus_best_gflops.filter(|c| *c > 0.0) {
        text.push_str(&format!(
            " {}× the fastest program tried of the starter model's corpus.",
            number(best.gflops / corpus)
        ));
        if let Some(note) = &report.corpus_best_note {
            text.push_str(&format!(" {}", escape(note)));
        }
    }
    if let Some(start) = report.start_gflops.filter(|s| *s > 0.0) {
        text.push_str(&format!(" {}× your program.", number(best.gflops / start)));
    }
    text.push_str(&workloads::words(report));
    text
}

fn archive(report: &RunReport, top: f64) -> String {
    let view = heat::html(report.techniques, &report.cells, top);
    if view.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"charts\"><div>{view}{}</div><div>{}{}</div></div><details class=\"all\"><summary>All {} sets as a table, with sources</summary>{}</details>",
        heat::legend(top),
        tables::fastest(&report.cells, top),
        report
            .archive
            .as_ref()
            .map_or_else(String::new, tables::archive),
        report.cells.len(),
        tables::cells(&report.cells, top)
    )
}

/// Commands with their effects.
pub(crate) fn commands(commands: &[Command]) -> String {
    let mut out = String::new();
    for command in commands {
        out.push_str(&format!(
            "<p class=\"what\">{}</p><pre class=\"shell\"><code>{}</code></pre>",
            escape(&command.what),
            escape(&command.line)
        ));
    }
    out
}

fn again(report: &RunReport) -> String {
    let mut out = commands(&report.commands);
    if !report.config_toml.is_empty() {
        out.push_str(&format!(
            "<details><summary>The configuration with every default</summary><pre class=\"shell\"><code>{}</code></pre></details>",
            escape(&report.config_toml)
        ));
    }
    out
}
