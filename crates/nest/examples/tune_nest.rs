//! Searches the schedules of a problem's reference without the jail: a quick look at what the space holds.
//!
//! `cargo run --release -p flopsmith-nest --example tune_nest -- problems/dsyrk 60`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use flopsmith_nest::generate::Space;
use flopsmith_nest::read::read;
use flopsmith_nest::search::search;
use flopsmith_problem::{ArgKind, Content, Element, Language, Problem, Role};
use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn driver(problem: &Problem) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n",
    );
    let _ = writeln!(text, "{}", problem.entry.prototype);
    text.push_str("static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }\nint main(void) {\n");
    let mut call = Vec::new();
    for argument in &problem.entry.args {
        match &argument.kind {
            ArgKind::Scalar { low, high, .. } => {
                let middle = (low.value(&problem.timed).unwrap()
                    + high.value(&problem.timed).unwrap())
                    / 2.0;
                call.push(format!("{middle:?}"));
            }
            ArgKind::Int { value } => {
                call.push(format!("{}", value.value(&problem.timed).unwrap() as i64))
            }
            ArgKind::Array {
                element,
                role,
                shape,
                content,
                ..
            } => {
                let dims: Vec<usize> = shape
                    .iter()
                    .map(|f| f.count(&problem.timed).unwrap())
                    .collect();
                let elements: usize = dims.iter().product();
                let columns = dims.last().copied().unwrap_or(1).max(1);
                let kind = match element {
                    Element::F64 => "double",
                    Element::F32 => "float",
                    _ => "int",
                };
                let name = format!("a_{}", argument.name);
                let _ = writeln!(
                    text,
                    "{kind} *{name} = aligned_alloc(64, {});",
                    (elements * 8 + 64).next_multiple_of(64)
                );
                let value = match (element, content) {
                    (Element::I32, _) => "(int)(x % 100) - 50".to_owned(),
                    (_, Content::Dominant) => format!(
                        "rand() / (double)RAND_MAX - 0.5 + (x / {columns} == x % {columns} ? {columns} : 0)"
                    ),
                    _ => "rand() / (double)RAND_MAX - 0.5".to_owned(),
                };
                if *role != Role::Output {
                    let _ = writeln!(
                        text,
                        "for (long x = 0; x < {elements}; x++) {name}[x] = {value};"
                    );
                }
                call.push(name);
            }
        }
    }
    let entry = &problem.entry.name;
    let call = call.join(", ");
    let _ = writeln!(
        text,
        "{entry}({call}); double best = 1e9, begin = now(); int calls = 0;\nwhile (calls < 3 || now() - begin < 0.06) {{ double t = now(); {entry}({call}); t = now() - t; if (t < best) best = t; calls++; }}\nprintf(\"%.9f\\n\", best); return 0; }}"
    );
    text
}

fn main() {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("the folder of a problem");
    let seconds: f64 = words.next().map_or(60.0, |s| s.parse().unwrap());
    let show = words.next().is_some();
    let problem = Problem::load(Path::new(&path)).unwrap();
    let mut search = search(
        Space::new(read(&problem).unwrap()),
        problem.max_source_bytes,
    );
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("driver.c"), driver(&problem)).unwrap();
    let flags = problem.flags_for(Language::C);
    let build = |source: &Path, out: &Path| {
        let status = Command::new("gcc")
            .args(&flags)
            .arg("-w")
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(out)
            .status();
        status.is_ok_and(|s| s.success())
    };
    assert!(build(&at("driver.c"), &at("driver.o")));
    let run = |text: &str| -> Option<f64> {
        std::fs::write(at("program.c"), text).unwrap();
        if !build(&at("program.c"), &at("program.o")) {
            println!("does not compile:\n{text}");
            return None;
        }
        let linked = Command::new("gcc")
            .arg("-fopenmp")
            .args([at("driver.o"), at("program.o")])
            .arg("-lm")
            .arg("-o")
            .arg(at("program"))
            .status();
        assert!(linked.unwrap().success());
        let output = Command::new("timeout")
            .args(["20", "taskset", "-c", "1"])
            .arg(at("program"))
            .env("OMP_NUM_THREADS", "1")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let work = problem.work_flops(&problem.timed);
    let reference = run(&problem.reference_source).expect("the reference runs");
    println!(
        "{}: reference {:.3} GFLOPS, {:.6} s",
        problem.id,
        work / reference / 1e9,
        reference
    );
    if let Some(baseline) = &problem.baseline_source {
        let baseline = run(baseline).expect("the baseline runs");
        println!(
            "baseline {:.3} GFLOPS, {:.2} times",
            work / baseline / 1e9,
            reference / baseline
        );
    }
    let begin = Instant::now();
    let (mut best, mut tried, mut found) = (0.0, 0, String::new());
    let permitted = TechniqueSet::all().without(flopsmith_protocol::Technique::Openmp);
    'all: loop {
        let proposals = search.propose(8, permitted, &|_, _| true, &mut rng);
        if proposals.is_empty() {
            break;
        }
        for proposal in proposals {
            if begin.elapsed().as_secs_f64() > seconds {
                break 'all;
            }
            tried += 1;
            let gflops = run(&proposal.text).map(|s| work / s / 1e9);
            search.report(&proposal.text, gflops);
            if gflops.unwrap_or(0.0) > best {
                best = gflops.unwrap_or(0.0);
                found = format!("{:?}\n{}", proposal.point, proposal.text);
                println!(
                    "{:6.1} s {tried:5} tried: {best:8.3} GFLOPS, {:6.2} times",
                    begin.elapsed().as_secs_f64(),
                    best * reference * 1e9 / work
                );
            }
        }
    }
    println!(
        "{}: {tried} tried, best {best:.3} GFLOPS, {:.2} times",
        problem.id,
        best * reference * 1e9 / work
    );
    if show {
        println!("{found}");
    }
}
