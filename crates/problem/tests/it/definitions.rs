//! The shipped problems load, and every mistake in a definition is reported with its line.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use flopsmith_problem::{ArgKind, Caches, Language, Params, Problem, Template};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../problems")
        .join(name)
}

fn with(edit: impl Fn(String) -> String) -> Result<Problem, String> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dgemm");
    std::fs::create_dir(&dir).unwrap();
    let text = std::fs::read_to_string(shipped("dgemm").join("problem.toml")).unwrap();
    std::fs::write(dir.join("problem.toml"), edit(text)).unwrap();
    std::fs::write(dir.join("reference.c"), "void dgemm(void) {}").unwrap();
    Problem::load(&dir).map_err(|e| e.to_string())
}

#[test]
fn dgemm_is_what_it_says() {
    let p = Problem::load(&shipped("dgemm")).unwrap();
    assert_eq!(p.id.as_str(), "dgemm");
    assert_eq!(p.work_flops(&p.timed), 2.0 * 256f64.powi(3));
    assert_eq!(
        p.elements(&p.entry.args[1], &Params::from([("n".into(), 320)])),
        Some(320 * 320)
    );
    assert!(p.baseline_source.is_some());
    assert!(
        !flopsmith_problem::check(&p)
            .iter()
            .any(flopsmith_problem::Finding::is_error)
    );
}

#[test]
fn a_kernel_is_not_written_in_python() {
    let error = with(|t| t.replace("language = \"c\"", "language = \"python\"")).unwrap_err();
    for part in ["`language` is Python", "`fortran77`", "kind = \"module\""] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn a_problem_may_belong_to_a_suite() {
    assert_eq!(with(|t| t).unwrap().suite, None);
    let one = with(|t| format!("suite = \"polybench\"\n{t}")).unwrap();
    assert_eq!(one.suite.as_deref(), Some("polybench"));
    let error = with(|t| format!("siute = \"polybench\"\n{t}")).unwrap_err();
    assert!(error.contains("did you mean `suite`?"), "{error}");
}

#[test]
fn all_thirty_computations_of_polybench_are_shipped() {
    let suite = shipped("polybench");
    let problems = std::fs::read_dir(&suite).unwrap();
    let names = problems.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_suite = names.filter(|name| name.starts_with("polybench_"));
    let loaded = of_suite.map(|name| Problem::load(&suite.join(name)).unwrap());
    let loaded: Vec<Problem> = loaded.collect();
    assert_eq!(loaded.len(), 30);
    for problem in &loaded {
        assert_eq!(
            problem.suite.as_deref(),
            Some("polybench"),
            "{}",
            problem.id
        );
        assert_eq!(problem.entry.name, problem.id.as_str());
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_definition() {
    let whole = Problem::load(&shipped("dgemm")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let marked = place.path().join("dgemm");
    std::fs::create_dir(&marked).unwrap();
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        let text = std::fs::read_to_string(shipped("dgemm").join(file)).unwrap();
        std::fs::write(marked.join(file), format!("\u{feff}{text}")).unwrap();
    }
    let read = Problem::load(&marked).unwrap();
    assert_eq!(read.digest, whole.digest);
    let wide: Vec<u8> = "title = \"x\""
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(
        marked.join("problem.toml"),
        [b"\xff\xfe".to_vec(), wide].concat(),
    )
    .unwrap();
    let error = Problem::load(&marked).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("UTF-16"), "{error}: {why}");
}

#[test]
fn every_shipped_problem_can_travel() {
    for folder in flopsmith_test_support::shipped::problems() {
        let here = Problem::load(&folder).unwrap();
        let mut there = Problem::from_files(here.files()).unwrap();
        assert_eq!(there.digest, here.digest, "{}", here.id);
        there.dir.clone_from(&here.dir);
        assert_eq!(format!("{there:?}"), format!("{here:?}"));
    }
}

#[test]
fn no_shipped_definition_has_errors_that_show_without_a_call() {
    for folder in flopsmith_test_support::shipped::problems() {
        let problem = Problem::load(&folder).unwrap();
        for finding in flopsmith_problem::check(&problem) {
            assert!(!finding.is_error(), "{}: {finding}", problem.id);
            // Each workload is long enough, and there are sizes enough.
            let text = finding.to_string();
            let weak = text.contains("too short") || text.contains("hidden sizes, so");
            assert!(!weak, "{}: {text}", problem.id);
        }
    }
}

#[test]
fn the_digest_holds_every_file_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dgemm");
    std::fs::create_dir(&dir).unwrap();
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        std::fs::copy(shipped("dgemm").join(file), dir.join(file)).unwrap();
    }
    let digest = || Problem::load(&dir).unwrap().digest;
    let mut seen = vec![digest()];
    assert_eq!(
        seen[0],
        Problem::load(&shipped("dgemm")).unwrap().digest,
        "where the folder lies does not matter"
    );
    for (file, more) in [
        ("problem.toml", "# a note\n"),
        ("reference.c", "/* a note */\n"),
        ("baseline.c", "/* a note */\n"),
    ] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        std::fs::write(dir.join(file), text + more).unwrap();
        seen.push(digest());
    }
    std::fs::remove_file(dir.join("baseline.c")).unwrap();
    seen.push(digest());
    let different: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(different.len(), seen.len(), "{seen:?}");
}

#[test]
fn special_techniques_count_where_a_pool_names_them() {
    let listing = |line: &str| {
        with(|t| {
            let rest = t.lines().filter(|l| !l.starts_with("special = "));
            let rest: String = rest.map(|l| format!("{l}\n")).collect();
            format!("{line}{rest}")
        })
    };
    let plain = listing("").unwrap();
    assert!(plain.special.is_empty());
    let both = "special = [\n  \"fusion\",\n  \"layout_change\",\n]\n";
    let one = "special = [\"fusion\", \"layout_change\"]\n";
    let [spread, listed] = [both, one].map(|line| listing(line).unwrap());
    assert_eq!(listed.special, "fusion+layout_change".parse().unwrap());
    assert_eq!(listed.special, spread.special);
    assert_eq!(listed.techniques, plain.techniques);
    for problem in [&listed, &spread] {
        assert_eq!(problem.digest, plain.digest, "nothing was measured anew");
    }
    let in_pool = |pool: &str| listed.clone().in_pool(pool.parse().unwrap());
    assert_eq!(in_pool("simd+skewing"), listed);
    let some = in_pool("simd+fusion");
    let fusion = "fusion".parse().unwrap();
    assert_eq!(some.techniques, plain.techniques.union(fusion));
    assert_eq!(some.special, "layout_change".parse().unwrap());
    assert_ne!(some.digest, listed.digest);
    assert_ne!(some.digest, in_pool("fusion+layout_change").digest);
    for (line, said) in [
        ("special = [\"simd\"]\n", "`simd` is among the `techniques`"),
        ("special = [\"dot\"]\n", "a technique of modules"),
        ("special = [\"fusoin\"]\n", "unknown technique `fusoin`"),
        (
            "special = [\"fussion\"]\n",
            "did you mean `fission` or `fusion`?",
        ),
    ] {
        let error = listing(line).unwrap_err();
        assert!(error.contains(said) && error.contains("line 1"), "{error}");
    }
}

#[test]
fn a_reason_for_easy_inputs_is_no_part_of_what_is_measured() {
    let listing = |lines: &str| {
        with(|t| {
            let rest = t.lines().filter(|l| !l.starts_with("special = "));
            let rest: String = rest.map(|l| format!("{l}\n")).collect();
            format!("{lines}{rest}")
        })
    };
    let plain = listing("").unwrap();
    assert_eq!(plain.easy_inputs, None);
    for lines in [
        "easy_inputs = \"four letters\"\n",
        "easy_inputs = \"four letters\"\nspecial = [\"fusion\"]\n",
        "special = [\"fusion\"]\neasy_inputs = \"four letters\"\n",
    ] {
        let problem = listing(lines).unwrap();
        assert_eq!(problem.easy_inputs.as_deref(), Some("four letters"));
        assert_eq!(problem.digest, plain.digest, "nothing was measured anew");
    }
    let error = listing("easy_inputs = \" \"\n").unwrap_err();
    let says = "`easy_inputs` is empty";
    assert!(error.contains(says) && error.contains("line 1"), "{error}");
}

#[test]
fn several_mistakes_are_reported_at_once_with_their_lines() {
    let error = with(|t| {
        t.replace(
            "techniques = [\"loop_reorder\"",
            "tecniques = 3\ntechniques = [\"loop_reoder\"",
        )
        .replace("work = \"2*n*n*n\"", "work = \"2*m*n*\"")
        .replace("max = 512", "max = 500")
    })
    .unwrap_err();
    for part in [
        "did you mean `techniques`",
        "unknown technique `loop_reoder`",
        "ends where",
        "multiples of",
        "line 3:",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn broken_toml_and_wrong_types_have_a_line() {
    assert!(
        with(|t| t.replace("[timed]", "[timed"))
            .unwrap_err()
            .contains("line")
    );
    assert!(
        with(|t| t.replace("n = 256\n", "n = \"x\"\n"))
            .unwrap_err()
            .contains("line")
    );
    assert!(
        with(|t| t.replace("role = \"output\"", "role = \"input\""))
            .unwrap_err()
            .contains("nothing could be verified")
    );
    assert!(
        with(|t| t.replace("int = \"n\"", "int = \"m\""))
            .unwrap_err()
            .contains("names the parameter `m`")
    );
    assert!(
        with(|t| t.replace("kind = \"gemm\"", "kind = \"gem\""))
            .unwrap_err()
            .contains("unknown bound")
    );
    assert!(
        with(|t| t.replace("c = 4.0", "c = -1.0"))
            .unwrap_err()
            .contains("positive")
    );
}

#[test]
fn functions_that_do_what_is_asked_for_are_forbidden_and_the_prompt_says_so() {
    use flopsmith_problem::prompt::full;
    let sort = Problem::load(&shipped("sort64")).unwrap();
    assert_eq!(sort.forbidden, ["qsort"]);
    assert!(full(&sort, sort.techniques, None).contains("no `qsort`"));
    let mut product = with(|t| t).unwrap();
    assert_eq!(product.forbidden, ["matmul"]);
    let said = |problem: &flopsmith_problem::Problem| full(problem, problem.techniques, None);
    // C has no library that does it and may be linked.
    assert!(!said(&product).contains(", no `"));
    product.language = flopsmith_problem::Language::Cxx;
    assert!(said(&product).contains("no `inner_product`"));
    product.language = flopsmith_problem::Language::Fortran;
    assert!(said(&product).contains("no `matmul`, no `dot_product`."));
    let mut sort = sort;
    sort.language = flopsmith_problem::Language::Cxx;
    assert!(said(&sort).contains("no `stable_sort`"));
    let error = with(|t| t.replace("\"matmul\"", "\"2sort\"")).unwrap_err();
    assert!(error.contains("no name of a C function"), "{error}");
}

#[test]
fn a_prompt_says_where_sizes_lie_and_how_long_a_program_may_be() {
    use flopsmith_problem::prompt::full;
    for (name, parts) in [
        (
            "dgemm",
            &[
                "sizes (n from 64 to 512, multiples of 64), and timed at n = 256; n = 512; n = 1024: the geometric mean",
            ][..],
        ),
        (
            "walsh_hadamard",
            &["(n from 1 to 131072, powers of two)", "at most 16384 bytes"],
        ),
        ("dgemv", &["(m from 1 to 1000; n from 1 to 1000)"]),
    ] {
        let problem = Problem::load(&shipped(name)).unwrap();
        let prompt = full(&problem, problem.techniques, None);
        for part in parts {
            assert!(prompt.contains(part), "{part:?} in {prompt}");
        }
    }
}

#[test]
fn the_prompt_of_runs_with_several_threads_forbids_no_technique() {
    use flopsmith_problem::prompt::full;
    let problem = Problem::load(&shipped("dgemm")).unwrap();
    let asked = |threads| full(&problem, problem.techniques_with(threads), None);
    let refused = "Forbidden techniques (a program that uses one is refused):\n- openmp:";
    assert!(asked(1).contains(refused), "{}", asked(1));
    let several = asked(2);
    assert!(several.contains("- openmp:"), "{several}");
    assert!(!several.contains("Forbidden"), "{several}");
    assert!(several.contains(", omp.h") && !asked(1).contains("omp.h"));
}

#[test]
fn contents_bounds_and_sizes_are_checked() {
    for (from, to, says) in [
        (
            "align = 64 },\n  { name = \"B\"",
            "align = 64, content = { kind = \"range\", low = \"2\", high = \"1\" } },\n  { name = \"B\"",
            "`low` is 2 and `high` is 1",
        ),
        (
            "align = 64 },\n  { name = \"B\"",
            "align = 64, content = { kind = \"offsets\", total = \"n\" } },\n  { name = \"B\"",
            "for one row of i32",
        ),
        (
            "align = 64 },\n  { name = \"B\"",
            "align = 64, content = { kind = \"rows\" } },\n  { name = \"B\"",
            "content `rows` is unknown",
        ),
        (
            "align = 64 },\n  { name = \"B\"",
            "align = 64, content = { kind = \"range\", lo = \"1\" } },\n  { name = \"B\"",
            "did you mean `low`",
        ),
        (
            "role = \"output\", shape",
            "role = \"output\", content = { kind = \"uniform\" }, shape",
            "it has no content before a call",
        ),
        (
            "kind = \"gemm\"\nc = 4.0",
            "kind = \"gemm\"",
            "needs a constant",
        ),
        ("kind = \"gemm\"", "kind = \"scaled\"", "needs `operations`"),
        (
            "kind = \"gemm\"",
            "kind = \"scaled\"\noperations = \"n\"",
            "magnitude.c",
        ),
        ("multiple_of = 64", "power_of_two = true", ""),
        (
            "multiple_of = 64, min = 64",
            "power_of_two = true, min = 48",
            "powers of two",
        ),
        ("hidden = { param", "hidden = [{ param", "line"),
        (
            "multiple_of = 64, min = 64, max = 512",
            "min = 1, max = 9000000000000000000",
            "a larger `multiple_of`",
        ),
    ] {
        let found = with(|t| {
            assert!(t.contains(from), "{from}");
            t.replacen(from, to, 1)
        });
        match found {
            Ok(_) => assert!(says.is_empty(), "{to} is accepted"),
            Err(error) => assert!(!says.is_empty() && error.contains(says), "{says}: {error}"),
        }
    }
    let several = with(|t| {
        t.replace(
            "hidden = { param = \"n\", multiple_of = 64, min = 64, max = 512 }",
            "hidden = [{ param = \"n\", multiple_of = 64, min = 64, max = 512 }, { param = \"n\", min = 1, max = 9 }]",
        )
    });
    assert!(several.unwrap_err().contains("names `n` twice"));
}

#[test]
fn inputs_with_rows_of_floats_may_be_graded() {
    let graded = |of: &str, say: &str| {
        with(|t| {
            let line = t.lines().find(|l| l.contains(of)).unwrap().to_owned();
            t.replace(&line, &line.replace("align = 64", say))
        })
    };
    let which = |p: &Problem| -> Vec<u32> {
        let arrays = p.entry.args.iter().filter_map(|arg| match arg.kind {
            ArgKind::Array { graded, .. } => Some(graded),
            ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
        });
        arrays.collect()
    };
    let (a, c) = ("name = \"A\"", "name = \"C\"");
    let right = graded(a, "graded = true").unwrap();
    assert_eq!(which(&right), [31, 0, 0]);
    let left = graded(a, "graded = false").unwrap();
    assert_eq!(which(&left), [0; 3]);
    let narrow = graded(a, "graded = 10").unwrap();
    assert_eq!(which(&narrow), [10, 0, 0]);
    assert!(graded(a, "graded = 32").unwrap_err().contains("binades"));
    let ranged = "graded = true, content = { kind = \"range\", low = \"0\", high = \"1\" }";
    for (of, say) in [(c, "graded = true"), (a, ranged)] {
        let error = graded(of, say).unwrap_err();
        assert!(error.contains("line"), "{error}");
        assert!(error.contains("cannot be graded"), "{error}");
    }
    for name in ["sgemm", "dsyrk", "batched_dgemm", "conv2d"] {
        let shipped = Problem::load(&shipped(name)).unwrap();
        assert!(which(&shipped)[0] > 0, "{name}");
    }
}

#[test]
fn where_timed_calls_find_their_arrays_is_said_by_the_definition() {
    let caches = |line: &str| {
        with(|t| t.replace("n = 256\n", &format!("n = 256\n{line}\n"))).map(|p| {
            assert_eq!(p.timed, Params::from([("n".into(), 256)]), "{line}");
            p.caches
        })
    };
    assert_eq!(caches("").unwrap(), Caches::Warm);
    assert_eq!(caches("caches = \"warm\"").unwrap(), Caches::Warm);
    assert_eq!(caches("caches = \"cold\"").unwrap(), Caches::Cold);
    assert_eq!(caches("caches = \"both\"").unwrap(), Caches::Both);
    for wrong in ["caches = \"hot\"", "caches = 2"] {
        let error = caches(wrong).unwrap_err();
        assert!(error.contains("line"), "{error}");
        assert!(error.contains("`warm`, `cold` or `both`"), "{error}");
    }
    let misspelt = caches("cashes = \"cold\"").unwrap_err();
    assert!(misspelt.contains("did you mean `caches`?"), "{misspelt}");
    let no_number = caches("m = 1.5").unwrap_err();
    assert!(no_number.contains("line"), "{no_number}");
    let both = Problem::load(&shipped("transpose")).unwrap();
    assert_eq!(both.caches, Caches::Both);
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    let roots = [shipped(".")];
    let error = Problem::find("dgem", &roots).unwrap_err().to_string();
    // Both lack one letter.
    let both = "did you mean `dgemm` or `dgemv`?";
    assert!(error.contains(both), "{error}");
    assert!(
        Problem::find("../dgemm", &[shipped("dgemm")]).is_err(),
        "a name is no path out of the roots"
    );
    assert!(Problem::find("dgemm", &roots).is_ok());
}

/// Flags that say nothing about where code lies put it at known places all the same.
fn aligned(flags: &[&'static str]) -> Vec<&'static str> {
    let mut all = flags.to_vec();
    all.extend(["-falign-functions=64", "-falign-loops=64"]);
    all
}

#[test]
fn each_language_has_its_flags() {
    let plain = Problem::load(&shipped("dgemm")).unwrap();
    assert_eq!(plain.language, Language::C);
    assert_eq!(plain.flags_for(Language::C), plain.flags);
    let with_standard = |standard: &str| {
        let mut flags = plain.flags.clone();
        flags.push(standard.into());
        flags
    };
    assert_eq!(
        plain.flags_for(Language::Cxx),
        with_standard("-std=gnu++20")
    );
    assert_eq!(
        plain.flags_for(Language::Fortran),
        with_standard("-std=gnu")
    );
    let own = with(|text| {
        let text = text.replace("language = \"c\"", "language = \"c++\"");
        text.replace(
            "[compile]\n",
            "[compile]\ncxx_flags = [\"-O1\"]\nfortran_flags = [\"-O2\"]\n",
        )
    })
    .unwrap();
    assert_eq!(own.language, Language::Cxx);
    assert_eq!(own.flags_for(Language::Cxx), aligned(&["-O1"]));
    assert_eq!(own.flags_for(Language::Fortran77), aligned(&["-O2"]));
    assert_eq!(own.flags_for(Language::C), plain.flags);
    // Those of a run are for all, each standard for its language.
    let run = own.with_flags(vec!["-O0".into(), "-std=c++17".into()]);
    assert_eq!(run.flags_for(Language::C), aligned(&["-O0"]));
    assert_eq!(
        run.flags_for(Language::Cxx),
        aligned(&["-O0", "-std=c++17"])
    );
    assert_eq!(
        run.flags_for(Language::Fortran),
        aligned(&["-O0", "-std=gnu"])
    );
    let own = run.with_flags(vec!["-O2".into(), "-falign-functions=32".into()]);
    assert_eq!(
        own.flags_for(Language::C),
        ["-O2", "-falign-functions=32", "-falign-loops=64"]
    );
    let wrong =
        with(|text| text.replace("[compile]\n", "[compile]\ncxx_flags = [\"O1\"]\n")).unwrap_err();
    assert!(wrong.contains("`O1` is no compiler flag"), "{wrong}");
    let wrong = with(|text| text.replace("\"uniform\"", "\"unifrom\"")).unwrap_err();
    assert!(wrong.contains("did you mean `uniform`?"), "{wrong}");
}

#[test]
fn a_folder_that_was_named_is_not_looked_for_elsewhere() {
    let empty = tempfile::tempdir().unwrap();
    let there = empty.path().display().to_string();
    let nowhere = format!("{there}/nowhere");
    for (name, says) in [
        (&there, format!("the folder {there} holds no problem.toml")),
        (&nowhere, format!("there is no folder {nowhere}")),
    ] {
        let said = Problem::find(name, &[]).unwrap_err().to_string();
        assert!(said.starts_with(&says), "{said}");
        assert!(said.contains("`flopsmith problem new"), "{said}");
    }
    // A folder that holds something is no place for another definition, and the meant problem is often near.
    std::fs::write(empty.path().join("notes.txt"), "mine").unwrap();
    let baseline = shipped("dgemm/baseline.c").display().to_string();
    let all = shipped("").display().to_string();
    for (name, says) in [
        (&there, format!("{there}/my_kernel`")),
        (
            &baseline,
            format!("the problem {}?", shipped("dgemm").display()),
        ),
        (&all, format!("e.g. {}", shipped("batched_dgemm").display())),
    ] {
        let said = Problem::find(name, &[]).unwrap_err().to_string();
        assert!(said.contains(&says), "{said} lacks {says}");
    }
    let roots = [shipped("")];
    let file = shipped("sgemm/problem.toml").display().to_string();
    for name in ["sgemm", "sgemm/", &file] {
        assert_eq!(Problem::find(name, &roots).unwrap().id.as_str(), "sgemm");
    }
    let said = Problem::find("sgem", &roots).unwrap_err();
    assert!(said.to_string().contains("did you mean `sgemm`?"), "{said}");
}

/// A shipped problem with a change in its definition.
fn edited(name: &str, from: &str, to: &str) -> Result<Problem, String> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join(name);
    std::fs::create_dir(&dir).unwrap();
    for file in ["problem.toml", "reference.c", "magnitude.c"] {
        let Ok(text) = std::fs::read_to_string(shipped(name).join(file)) else {
            continue;
        };
        if file == "problem.toml" {
            assert!(text.contains(from), "{name} has no {from}");
        }
        std::fs::write(dir.join(file), text.replace(from, to)).unwrap();
    }
    Problem::load(&dir).map_err(|e| e.to_string())
}

#[test]
fn a_template_is_known_and_takes_the_arguments() {
    let shipped = Problem::load(&shipped("sort64")).unwrap();
    assert_eq!(shipped.template, Some(Template::SortingNetworks));
    assert_eq!(with(|t| t).unwrap().template, None);
    for (name, from, to, part) in [
        (
            "histogram",
            "= \"histogram\"\nthreads",
            "= \"histogramm\"\nthreads",
            "did you mean `histogram`?",
        ),
        (
            "dgemm",
            "threads = ",
            "template = \"histogram\"\nthreads = ",
            "`A` is no `int`",
        ),
        (
            "dgemm",
            "threads = ",
            "template = \"sparse_rows\"\nthreads = ",
            "the entry has 4 arguments",
        ),
        (
            "sort64",
            "\"64\"",
            "\"60\"",
            "60 elements, which is no constant power of two",
        ),
        (
            "sort64",
            "\"64\"",
            "\"batch\"",
            "batch elements, which is no constant power of two",
        ),
        (
            "histogram",
            "high = \"bins-1\"",
            "high = \"bins-2\"",
            "the content of `key` is not from 0 to bins-1",
        ),
        (
            "histogram",
            "shape = [\"bins\"]",
            "shape = [\"bins+1\"]",
            "`count` does not have 256 elements",
        ),
        (
            "spmv",
            "kind = \"offsets\", total = \"8*n\"",
            "kind = \"range\", low = \"0\", high = \"8\"",
            "the content of `start` is not `offsets`",
        ),
        (
            "walsh_hadamard",
            "power_of_two = true",
            "multiple_of = 1",
            "set `power_of_two = true`",
        ),
        (
            "prefix_sum",
            "\"running_sums\"",
            "\"walsh_hadamard\"",
            "`in` is no input of `f64` or `f32`",
        ),
        (
            "prefix_sum",
            "language = \"c\"",
            "language = \"c++\"",
            "candidates are in C++",
        ),
    ] {
        let error = edited(name, from, to).unwrap_err();
        assert!(error.contains(part), "{name}: {error}");
        assert!(error.contains("template"), "{name}: {error}");
    }
}
