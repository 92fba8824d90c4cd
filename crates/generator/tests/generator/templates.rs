//! Programs of templates compute what the reference computes: they are compiled and run beside it, some with sanitizers.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopsmith_generator::template::{Point, Space};
use flopsmith_problem::Problem;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Programs of each template; `FLOPSMITH_TEMPLATE_PROGRAMS` sets another number.
const PROGRAMS: usize = 24;
/// The share of the programs that run with sanitizers.
const SANITIZED: usize = 3;
/// Programs in one file.
const TOGETHER: usize = 6;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../problems")
        .join(name)
}

fn load(name: &str) -> Problem {
    Problem::load(&shipped(name)).unwrap()
}

/// A shipped problem with changes in its definition and its reference.
fn changed(name: &str, changes: &[(&str, &str)]) -> Problem {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(name);
    std::fs::create_dir(&own).unwrap();
    for file in ["problem.toml", "reference.c", "magnitude.c"] {
        let Ok(mut text) = std::fs::read_to_string(shipped(name).join(file)) else {
            continue;
        };
        for (from, to) in changes {
            text = text.replace(from, to);
        }
        std::fs::write(own.join(file), text).unwrap();
    }
    Problem::load(&own).unwrap()
}

/// Points that have every value of every parameter, and further ones at random.
fn some(space: &Space, wanted: usize) -> Vec<Point> {
    let mut all: Vec<Point> = space.points().to_vec();
    all.shuffle(&mut ChaCha8Rng::seed_from_u64(11));
    let mut missing: BTreeSet<(usize, u32)> = BTreeSet::new();
    for (n, parameter) in space.parameters().iter().enumerate() {
        missing.extend(parameter.values.iter().map(|(value, _)| (n, *value)));
    }
    let mut chosen = Vec::new();
    all.retain(|point| {
        let own: Vec<(usize, u32)> = point.values().iter().copied().enumerate().collect();
        let news = own.iter().any(|value| missing.contains(value));
        if news {
            own.iter().for_each(|value| {
                missing.remove(value);
            });
            chosen.push(point.clone());
        }
        !news
    });
    assert!(missing.is_empty(), "{missing:?}");
    chosen.extend(all);
    chosen.truncate(wanted);
    chosen
}

/// The beginning of every driver.
const BEGIN: &str = r#"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint64_t state = 1;
static uint64_t word(void) { state = state * 6364136223846793005u + 1442695040888963407u; return state >> 33; }
static double number(void) { return (double)word() / 2147483648.0 - 0.5; }
/* Exactly as long as it says, so that sanitizers see what lies behind its end. */
static void *array(size_t bytes) { void *p = NULL; if (posix_memalign(&p, 64, bytes)) abort(); memset(p, 0x7f, bytes); return p; }
static void wrong(int p, long n) { printf("program %d is wrong at %ld\n", p, n); exit(0); }
"#;

/// Compiles the programs of `points` together with a driver, whose `main` calls `all[p]` for each p < COUNT and `reference`.
fn check(problem: &Problem, points: &[Point], defines: &str, main: &str, flags: &[&str]) {
    let largest = problem.max_source_bytes;
    let space = Space::of(problem, largest).unwrap();
    let name = &problem.entry.name;
    let folder = tempfile::tempdir().unwrap();
    let mut sources = Vec::new();
    for (chunk, several) in points.chunks(TOGETHER).enumerate() {
        let mut text = String::new();
        for (n, point) in several.iter().enumerate() {
            let number = chunk * TOGETHER + n;
            let program = space.program(point).unwrap();
            // The names of all functions and types begin with that of the entry.
            text.push_str(&program.replace(name.as_str(), &format!("{name}_{number}")));
        }
        let path = folder.path().join(format!("programs_{chunk}.c"));
        std::fs::write(&path, text).unwrap();
        sources.push(path);
    }
    let prototype = problem.entry.prototype.trim();
    let own = |new: &str| prototype.replacen(&format!("{name}("), &format!("{new}("), 1);
    let mut driver = format!("{BEGIN}{defines}\n");
    let _ = writeln!(driver, "typedef {}", own("kernel"));
    let _ = writeln!(
        driver,
        "#define {name} reference\n{}\n#undef {name}\n#define COUNT {}",
        problem.reference_source,
        points.len()
    );
    for number in 0..points.len() {
        let _ = writeln!(driver, "{}", own(&format!("{name}_{number}")));
    }
    let all: Vec<String> = (0..points.len()).map(|n| format!("{name}_{n}")).collect();
    let _ = writeln!(
        driver,
        "static kernel *const all[] = {{{}}};",
        all.join(", ")
    );
    driver.push_str(main);
    let path = folder.path().join("driver.c");
    std::fs::write(&path, driver).unwrap();
    let binary = folder.path().join("driver");
    let build = Command::new("gcc")
        .args(["-std=gnu17", "-march=native", "-fopenmp"])
        .args(flags)
        .arg("-o")
        .arg(&binary)
        .arg(&path)
        .args(&sources)
        .arg("-lm")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{}: {told}", problem.id);
    let run = Command::new(&binary)
        .env("OMP_NUM_THREADS", "2")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    let told = String::from_utf8_lossy(&run.stderr);
    let which: Option<usize> = out.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    if let Some(point) = which.and_then(|which| points.get(which)) {
        let program = space.program(point).unwrap();
        assert!(
            out.is_empty(),
            "{}: {point:?}: {out}\n{program}",
            problem.id
        );
    }
    assert!(run.status.success(), "{}: {told}", problem.id);
}

/// Checks many programs as the compiler makes them, and some with sanitizers.
fn check_both(problem: &Problem, defines: &str, main: &str, wanted: usize) {
    let few = wanted.div_ceil(SANITIZED);
    // Sanitizers see at least as much without the optimiser.
    check_at(["-O2", "-O0"], problem, defines, main, [wanted, few]);
}

/// The same at these levels of optimisation, of as many programs.
fn check_at(
    [plain, sanitized]: [&str; 2],
    problem: &Problem,
    defines: &str,
    main: &str,
    [wanted, few]: [usize; 2],
) {
    let space = Space::of(problem, problem.max_source_bytes).unwrap();
    let points = some(&space, wanted);
    check(
        problem,
        &points,
        defines,
        main,
        &[plain, "-Wall", "-Werror", "-Wno-unused-function"],
    );
    let sanitizers = [
        sanitized,
        "-g1",
        "-w",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    let few = &points[..few.min(points.len())];
    check(problem, few, defines, main, &sanitizers);
}

fn wanted() -> usize {
    let set = std::env::var("FLOPSMITH_TEMPLATE_PROGRAMS").ok();
    set.and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS)
}

const SORT: &str = r#"
int main(void) {
    static const int sizes[] = {1, 2, 7, 8, 9, 16, 33, 47};
    for (int s = 0; s < 8; s++)
        for (int kind = 0; kind < 4; kind++) {
            int n = sizes[s], m = n * ROW;
            int *in = array(m * sizeof *in), *out = array(m * sizeof *out), *right = array(m * sizeof *right);
            for (int i = 0; i < m; i++)
                in[i] = kind == 0 ? (int)(word() * 2 + (word() & 1)) : kind == 1 ? (int)(word() % 3) - 1 : kind == 2 ? i : (word() & 1 ? INT32_MAX : INT32_MIN);
            reference(n, in, right);
            for (int p = 0; p < COUNT; p++) {
                memset(out, 0x7f, m * sizeof *out);
                all[p](n, in, out);
                if (memcmp(out, right, m * sizeof *out)) wrong(p, n);
            }
            free(in), free(out), free(right);
        }
    return 0;
}
"#;

#[test]
fn sorting_networks_sort() {
    // Networks of 64 numbers are long: the optimiser takes seconds for each, and the shorter ones below show its work.
    let programs = wanted() / 6;
    let few = programs.div_ceil(2 * SANITIZED);
    check_at(
        ["-O0", "-O0"],
        &load("sort64"),
        "#define ROW 64",
        SORT,
        [programs, few],
    );
}

#[test]
fn sorting_networks_sort_rows_of_another_length() {
    let changes = [
        ("\"64\"", "\"16\""),
        ("[0..63]", "[0..15]"),
        ("* 64 ", "* 16 "),
        ("* 64]", "* 16]"),
        ("< 64;", "< 16;"),
    ];
    let problem = changed("sort64", &changes);
    check_both(&problem, "#define ROW 16", SORT, wanted() / 2);
}

const HISTOGRAM: &str = r#"
int main(void) {
    static const int sizes[] = {1, 2, 3, 17, 64, 333, 1500}, all_bins[] = {1, 2, 5, 100, 256};
    for (int s = 0; s < 7; s++)
        for (int b = 0; b < 5; b++) {
            int n = sizes[s], bins = all_bins[b];
            int *key = array(n * sizeof *key), *count = array(bins * sizeof *count), *right = array(bins * sizeof *right);
            for (int i = 0; i < n; i++)
                key[i] = s % 2 ? (int)(word() % bins) : bins - 1;
            reference(n, bins, key, right);
            for (int p = 0; p < COUNT; p++) {
                memset(count, 0x7f, bins * sizeof *count);
                all[p](n, bins, key, count);
                if (memcmp(count, right, bins * sizeof *count)) wrong(p, n);
            }
            free(key), free(count), free(right);
        }
    return 0;
}
"#;

#[test]
fn histograms_count() {
    check_both(&load("histogram"), "", HISTOGRAM, wanted());
}

const SPARSE: &str = r#"
static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    static const int sizes[] = {1, 2, 3, 9, 30, 177}, widths[] = {1, 5, 40};
    for (int s = 0; s < 6; s++)
        for (int w = 0; w < 3; w++) {
            int n = sizes[s], m = widths[w], total = 8 * n;
            int *start = array((n + 1) * sizeof *start), *column = array(total * sizeof *column);
            T *value = array(total * sizeof *value), *x = array(m * sizeof *x), *y = array(n * sizeof *y), *right = array(n * sizeof *right);
            start[0] = 0, start[n] = total;
            for (int i = 1; i < n; i++) start[i] = w == 2 ? 8 * i : (int)(word() % (total + 1));
            qsort(start, n + 1, sizeof *start, ascending);
            for (int k = 0; k < total; k++) column[k] = (int)(word() % m), value[k] = number();
            for (int j = 0; j < m; j++) x[j] = number();
            reference(n, m, start, column, value, x, right);
            for (int p = 0; p < COUNT; p++) {
                memset(y, 0x7f, n * sizeof *y);
                all[p](n, m, start, column, value, x, y);
                for (int i = 0; i < n; i++) if (!(fabs(y[i] - right[i]) <= NEAR * (start[i + 1] - start[i]))) wrong(p, n);
            }
            free(start), free(column), free(value), free(x), free(y), free(right);
        }
    return 0;
}
"#;

#[test]
fn sparse_rows_are_multiplied() {
    let problem = load("spmv");
    check_both(
        &problem,
        "#define T double\n#define NEAR 1e-15",
        SPARSE,
        wanted(),
    );
}

#[test]
fn sparse_rows_of_floats_are_multiplied() {
    let problem = changed("spmv", &[("f64", "f32"), ("double", "float")]);
    let defines = "#define T float\n#define NEAR 1e-6";
    check_both(&problem, defines, SPARSE, wanted() / 2);
}

const TRANSFORM: &str = r#"
int main(void) {
    for (int n = 1; n <= 32768; n *= n < 1024 ? 2 : 4)
        for (int more = 0; more < 2; more++) {
            int size = more && n < 32768 ? 2 * n : n;
            T *x = array(size * sizeof *x), *y = array(size * sizeof *y), *right = array(size * sizeof *right);
            double sum = 0;
            for (int i = 0; i < size; i++) x[i] = number(), sum += x[i] * x[i];
            reference(size, x, right);
            for (int p = 0; p < COUNT; p++) {
                memset(y, 0x7f, size * sizeof *y);
                all[p](size, x, y);
                for (int i = 0; i < size; i++) if (!(fabs(y[i] - right[i]) <= NEAR * sqrt(sum))) wrong(p, size);
            }
            free(x), free(y), free(right);
        }
    return 0;
}
"#;

#[test]
fn walsh_hadamard_transforms_are_right() {
    let problem = load("walsh_hadamard");
    check_both(
        &problem,
        "#define T double\n#define NEAR 1e-14",
        TRANSFORM,
        wanted(),
    );
}

#[test]
fn walsh_hadamard_transforms_of_floats_are_right() {
    let problem = changed("walsh_hadamard", &[("f64", "f32"), ("double", "float")]);
    let defines = "#define T float\n#define NEAR 1e-5";
    check_both(&problem, defines, TRANSFORM, wanted() / 2);
}

const SUMS: &str = r#"
int main(void) {
    static const int sizes[] = {1, 2, 3, 15, 16, 17, 63, 100, 1000, 1025};
    for (int s = 0; s < 10; s++) {
        int n = sizes[s];
        T *in = array(n * sizeof *in), *out = array(n * sizeof *out), *right = array(n * sizeof *right);
        T before = 0;
        for (int i = 0; i < n; i++) {
            T next = (T)(word() % 2000000000) - 1000000000;
            in[i] = next - before, before = next;
        }
        reference(n, in, right);
        for (int p = 0; p < COUNT; p++) {
            memset(out, 0x7f, n * sizeof *out);
            all[p](n, in, out);
            if (memcmp(out, right, n * sizeof *out)) wrong(p, n);
        }
        free(in), free(out), free(right);
    }
    return 0;
}
"#;

#[test]
fn running_sums_are_right() {
    check_both(&load("prefix_sum"), "#define T int", SUMS, wanted());
}

#[test]
fn running_sums_of_long_integers_are_right() {
    let changes = [
        ("i32", "i64"),
        ("const int *in, int *out", "const int64_t *in, int64_t *out"),
        ("int sum", "int64_t sum"),
    ];
    let problem = changed("prefix_sum", &changes);
    check_both(&problem, "#define T int64_t", SUMS, wanted() / 2);
}
