//! The cost of the compile stage, compared with the bare compiler: `cargo run --release -p flopsmith-compile --example compile_speed`.
#![expect(clippy::print_stdout, reason = "a report for people")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use flopsmith_compile::{Compiler, Toolchain};
use flopsmith_generator::schedule::Space;
use flopsmith_problem::Problem;
use flopsmith_protocol::TechniqueSet;
use flopsmith_sandbox::{Options, Sandbox};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    let problem = Problem::load(&root)?;
    let toolchain = Toolchain::detect(None, &problem)?;
    let compiler = Compiler::new(Arc::new(Sandbox::new(Options::default())?), toolchain);
    let folder = tempfile::tempdir()?;
    let (source, object) = (
        folder.path().join("kernel.c"),
        folder.path().join("kernel.so"),
    );
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..64 {
        let program = Space::dgemm()
            .sample(&mut rng, TechniqueSet::all())
            .render();
        let bare = || -> Result<f64, Box<dyn std::error::Error>> {
            std::fs::write(&source, &program)?;
            let started = Instant::now();
            let mut gcc = Command::new("gcc");
            gcc.args(["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o"])
                .arg(&object)
                .arg(&source);
            assert!(gcc.status()?.success());
            Ok(started.elapsed().as_secs_f64())
        };
        let before = bare()?;
        let started = Instant::now();
        compiler.techniques(&problem, &program)?;
        let scan = started.elapsed().as_secs_f64();
        let started = Instant::now();
        compiler.compile(&problem, &program, TechniqueSet::all())?;
        let stage = started.elapsed().as_secs_f64();
        let with_header = format!("#include <math.h>\n{program}");
        let started = Instant::now();
        compiler.compile(&problem, &with_header, TechniqueSet::all())?;
        let header = started.elapsed().as_secs_f64();
        if round > 0 {
            for (all, one) in times.iter_mut().zip([before, stage, header, scan]) {
                all.push(one * 1e3);
            }
        }
    }
    for (name, all) in ["bare gcc", "compile stage", "with one header", "scan alone"]
        .iter()
        .zip(&mut times)
    {
        all.sort_by(f64::total_cmp);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        println!(
            "{name:>16}: mean {mean:.2} ms, median {:.2} ms",
            all[all.len() / 2]
        );
    }
    Ok(())
}
