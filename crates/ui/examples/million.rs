//! Measures the window on a long run: time of each page, and memory of the process.
//!
//! `million [--outcomes 1000000] [--source 600] [--folder DIR] [--repeats 7]`. The log is written into DIR unless it is there, and
//! into a temporary folder without the option. A million outcomes take about 2 GB there. Each page is asked for `--repeats` times;
//! with 0 the log is written and no window is opened.
#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flopsmith_protocol::{
    ArtifactRef, CandidateFault, Digest, PolicyPublished, PolicyVersion, StepMetrics, TechniqueSet,
};
use flopsmith_serve::listen::{Limits, serve};
use flopsmith_test_support::{Measured, candidate, outcome, rejected, remeasured};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Outcomes of a step.
const STEP: u64 = 64;
/// Requests of each page, unless the arguments name another number; the median is shown.
const REPEATS: usize = 7;

fn pages(outcomes: u64) -> Vec<(&'static str, String)> {
    let (number, step) = (outcomes / 2, outcomes / STEP / 2);
    let programs = "/runs/long/programs";
    vec![
        ("all runs", "/".to_owned()),
        ("the run", "/runs/long".to_owned()),
        ("newest programs", programs.to_owned()),
        ("fastest programs", format!("{programs}?sort=speed")),
        (
            "a late page of the fastest",
            format!("{programs}?sort=speed&page=200"),
        ),
        (
            "filters",
            format!("{programs}?reason=wrong_result&technique=simd&sort=ratio"),
        ),
        ("a text that is rare", format!("{programs}?text=needle")),
        (
            "a text among the fastest",
            format!("{programs}?text=needle&sort=speed"),
        ),
        ("one program", format!("{programs}/{number}")),
        ("the tree", "/runs/long/tree".to_owned()),
        (
            "a late page of the tree",
            "/runs/long/tree?page=600".to_owned(),
        ),
        ("nodes", "/runs/long/nodes".to_owned()),
        ("one step", format!("/runs/long/steps/{step}")),
        ("comparison", "/compare?run=long".to_owned()),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut outcomes, mut bytes, mut folder) = (1_000_000u64, 600usize, None);
    let mut repeats = REPEATS;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("what of `{word}`?"))?;
        match word.as_str() {
            "--outcomes" => outcomes = value.parse()?,
            "--source" => bytes = value.parse()?,
            "--folder" => folder = Some(PathBuf::from(value)),
            "--repeats" => repeats = value.parse()?,
            _ => return Err(format!("there is no option {word}").into()),
        }
    }
    let temporary = tempfile::tempdir()?;
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    let log = folder.join("long/outcomes.jsonl");
    if !log.exists() {
        let since = Instant::now();
        write_log(&log, outcomes, bytes)?;
        println!("wrote the log in {:.1} s", since.elapsed().as_secs_f64());
    }
    println!("log: {} MB", log.metadata()?.len() / 1_000_000);
    if repeats == 0 {
        return Ok(());
    }

    let stopping = CancellationToken::new();
    let router = flopsmith_ui::router(folder.clone(), None, None, None, stopping.clone())?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let ends = stopping.clone();
    let serving = std::thread::spawn(move || -> std::io::Result<()> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).max_blocking_threads(4);
        runtime.enable_all().build()?.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            serve(listener, router, ends, Limits::default(), || ()).await;
            Ok(())
        })
    });
    let since = Instant::now();
    let mut slowest = Duration::ZERO;
    loop {
        let (page, time) = get(address, "/runs/long")?;
        slowest = slowest.max(time);
        if !page.contains("are being read") {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    println!(
        "index made in {:.1} s; slowest page meanwhile {:.0} ms; {}",
        since.elapsed().as_secs_f64(),
        1e3 * slowest.as_secs_f64(),
        memory()?
    );
    for (name, path) in pages(outcomes) {
        let mut times = Vec::new();
        let mut length = 0;
        for _ in 0..repeats {
            let (page, time) = get(address, &path)?;
            times.push(time.as_secs_f64());
            length = page.len();
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{name:28} median {:6.1} ms, worst {:6.1} ms, {length} bytes",
            1e3 * times[repeats / 2],
            1e3 * times[repeats - 1],
        );
    }
    println!("{}", memory()?);
    stopping.cancel();
    match serving.join() {
        Ok(served) => Ok(served?),
        Err(_) => Err("the window panicked".into()),
    }
}

/// Writes a run of one problem: a third of its programs is right, one in a thousand is measured again, and one in ten follows
/// the program before it. Each step is trained.
fn write_log(log: &Path, outcomes: u64, bytes: usize) -> Result<(), Box<dyn Error>> {
    let folder = log.parent().ok_or("the log has no folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("config.toml"), "")?;
    let sets: Vec<TechniqueSet> = (0..=8)
        .flat_map(|size| TechniqueSet::general().subsets_of_size(size))
        .collect();
    let mut training = BufWriter::new(File::create(folder.join("training.jsonl"))?);
    let mut file = BufWriter::new(File::create(log)?);
    let mut before = None;
    for number in 0..outcomes {
        // Spreads numbers over speeds and techniques without a pattern.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (step, sample) = (number / STEP, (number % STEP) as u32);
        let mut of = candidate(step, sample / 8, sample % 8);
        let gflops = 1.0 + (mixed % 80_000) as f64 / 1000.0;
        if mixed.is_multiple_of(10) {
            of.follows = before.take();
        }
        before = Some(of.id.clone());
        if number.is_multiple_of(STEP) {
            let trained = PolicyPublished {
                run: of.run.clone(),
                version: PolicyVersion(step + 1),
                step,
                weights: ArtifactRef {
                    digest: Digest::of(b"weights"),
                    size: 1,
                },
                metrics: Some(StepMetrics {
                    mean_reward: gflops / 80.0,
                    ..StepMetrics::default()
                }),
            };
            write_line(&mut training, &trained)?;
        }
        if mixed.is_multiple_of(1000) {
            of = remeasured(&of, 1);
        }
        let mut made = match mixed % 3 {
            0 => Measured::at(gflops).outcome(of),
            1 => outcome(of, rejected(CandidateFault::WrongResult)),
            _ => outcome(of, rejected(CandidateFault::CompileError)),
        };
        made.source = source(number, bytes);
        made.techniques = Some(sets[mixed as usize % sets.len()]);
        made.decided_unix_ms = 1_750_000_000_000 + 100 * number;
        write_line(&mut file, &made)?;
    }
    file.flush()?;
    Ok(training.flush()?)
}

fn source(number: u64, bytes: usize) -> String {
    let mut source = format!("// {number}\n");
    if number.is_multiple_of(400_000) {
        source.push_str("// needle\n");
    }
    while source.len() < bytes {
        source.push_str("for (int i = 0; i < n; i++)\n\tc[i] += a[i] * b[i];\n");
    }
    source
}

fn write_line(file: &mut impl Write, line: &impl Serialize) -> Result<(), Box<dyn Error>> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")?;
    Ok(())
}

fn get(address: SocketAddr, path: &str) -> Result<(String, Duration), Box<dyn Error>> {
    let since = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let time = since.elapsed();
    match text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200") {
        true => Ok((text, time)),
        false => Err(format!("{path}: {}", text.lines().next().unwrap_or_default()).into()),
    }
}

/// Memory of this process now, and the most it had.
fn memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = status.lines();
    let lines = lines.filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(words.collect::<Vec<_>>().join(", "))
}
