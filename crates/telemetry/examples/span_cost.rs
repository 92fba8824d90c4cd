//! Measures the cost of a span: the processor time of all threads of this process for making and sending it. Spans are
//! made like those of the roles: each continues from a message's headers, and has fields and headers for the next
//! message.
//!
//! `span_cost [ENDPOINT] [--spans 100000]`
//!
//! Without an endpoint the same spans are made and not sent. Prints one line of JSON. The endpoint is that of a
//! collector, like that of `flopsmith --otlp-endpoint`; `scripts/bench/telemetry.py` starts one.
#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::error::Error;
use std::time::{Duration, Instant};

use flopsmith_telemetry::{Options, child_of, extract, init, inject_from};
use tracing::field::Empty;

/// Number of spans before a pause in which the queue empties: the exporter drops spans that come faster than it can
/// send.
const BURST: u64 = 500;
/// Pause after a burst. Nodes make a span or two in that time.
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let (mut endpoint, mut spans) = (None, 100_000u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--spans" => {
                let count = arguments.next().ok_or("--spans needs a number")?;
                spans = count.parse()?;
            }
            flag if flag.starts_with('-') => return Err(format!("no such flag: {flag}").into()),
            _ => endpoint = Some(argument),
        }
    }
    let sent = endpoint.is_some();
    let guard = init(Options {
        otlp_endpoint: endpoint,
        ..Options::default()
    })?;
    let (began, before) = (Instant::now(), processor_seconds()?);
    let mut headers = Vec::new();
    for number in 0..spans {
        let parent = extract(headers.iter().map(|(k, v): &(String, String)| (&**k, &**v)));
        let span = tracing::info_span!(
            // Spans of other libraries are not sent.
            target: "flopsmith_actors",
            parent: None,
            "compile",
            run = "dgemm-20260101-000000",
            step = number,
            task = "dgemm-20260101-000000-s1-g1",
            candidate = %format_args!("dgemm-20260101-000000-s1-g1-c{number}"),
            verdict = Empty,
            techniques = Empty,
            seconds = Empty
        );
        let span = child_of(span, &parent);
        span.in_scope(|| span.record("verdict", "measured"));
        span.record("seconds", 0.25);
        // Six to a trace, like those of a measured program.
        headers = match number % 6 {
            5 => Vec::new(),
            _ => inject_from(&span),
        };
        if number % BURST == BURST - 1 {
            std::thread::sleep(PAUSE);
        }
    }
    drop(guard);
    let used = processor_seconds()? - before;
    println!(
        "{{\"sent\": {sent}, \"spans\": {spans}, \"microseconds_per_span\": {:.3}, \"seconds\": {:.1}}}",
        used / spans as f64 * 1e6,
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Processor time of all threads of this process, with those that have ended.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program may contain spaces, and stands in brackets.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = 0.0;
    for what in ["user", "system"] {
        let time = times
            .next()
            .ok_or_else(|| format!("/proc/self/stat has no {what} time"))?;
        ticks += time.parse::<f64>()?;
    }
    // The kernel reports hundredths to programs, in any configuration.
    Ok(ticks / 100.0)
}
