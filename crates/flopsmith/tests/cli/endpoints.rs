//! Models behind endpoints.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flopsmith_machine::counters::Counters;
use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};
use serde_json::{Value, json};

use crate::bench::{GOOD, SLOW};
use crate::eval::{eval, stderr};
use crate::one_core::on_one_core;
use crate::search::{quick_search, resume_quick_search};
use crate::{
    assert_keys, flopsmith, last_object, objects, only_run, outcomes, quick, run, wait_for,
};

/// An answer of a chat model with this program.
fn fenced(program: &str) -> String {
    format!("Here it is:\n```c\n{program}```\n")
}

#[test]
fn a_model_that_optimises_is_shown_the_plain_reference() {
    on_one_core();
    let server = ScriptedEndpoint::start(|_| Act::streamed(&fenced(GOOD), (100, 50))).unwrap();
    let place = tempfile::tempdir().unwrap();
    let model = format!("endpoint:{}#org/chat", server.url());
    let task = ["--task", "optimise", "--samples", "1", "--format", "json"];
    let arguments = [&[model.as_str(), "--problem", "dgemm"][..], &task[..]].concat();
    let output = eval(place.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = last_object(&output);
    assert_eq!(results["config"]["task"], "optimise");
    assert_eq!(
        results["models"][0]["all"]["counts"]["correct"], 1,
        "{results}"
    );
    let reference = quick::problems().join("dgemm/reference.c");
    let reference = std::fs::read_to_string(reference).unwrap();
    let answers = objects(&place.path().join("out/samples.jsonl"));
    let prompt = answers[0]["prompt"].as_str().unwrap();
    assert!(prompt.contains(reference.trim()), "{prompt}");
}

#[test]
fn a_model_is_shown_the_program_that_it_is_to_optimise() {
    // The test asks nothing about the answer, and without a program the machine is not measured.
    let server = ScriptedEndpoint::start(|_| Act::streamed("I cannot do that.", (100, 50)));
    let server = server.unwrap();
    let place = tempfile::tempdir().unwrap();
    let model = format!("endpoint:{}#org/chat", server.url());
    let file = place.path().join("mine.c");
    std::fs::write(&file, SLOW).unwrap();
    let file = file.to_str().unwrap();
    let ask = |task: &str, program: &str| {
        let one = [model.as_str(), "--problem", "dgemm", "--samples", "1"];
        let shown = ["--task", task, "--program", program];
        eval(place.path(), &[&one[..], &shown[..]].concat())
    };
    let output = ask("write", file);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let named = format!("dgemm={file}");
    let output = ask("optimise", &named);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answers = objects(&place.path().join("out/samples.jsonl"));
    let prompt = answers[0]["prompt"].as_str().unwrap();
    assert!(prompt.contains(SLOW.trim()), "{prompt}");
    // The only problem need not be named, and the evaluation goes on with the same program only.
    let output = ask("optimise", file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(server.asked().len(), 1);
    std::fs::write(file, GOOD).unwrap();
    let output = ask("optimise", &named);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("differs in `problems`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_problem_that_no_prompt_states_is_named_and_the_others_are_evaluated() {
    // A program with wrong results is evaluated, and not timed.
    const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}\n";
    let server = ScriptedEndpoint::start(|_| Act::streamed(IDLE, (100, 50))).unwrap();
    let place = tempfile::tempdir().unwrap();
    let model = format!("endpoint:{}#org/chat", server.url());
    let ask = |problems: &[&str]| {
        let mut arguments = vec![model.as_str(), "--prompt", "nest", "--samples", "1"];
        arguments.extend(["--format", "json"]);
        for problem in problems {
            arguments.extend(["--problem", problem]);
        }
        eval(place.path(), &arguments)
    };
    // Without another problem nothing would be left to evaluate.
    let output = ask(&["sort64"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = ask(&["dgemm", "sort64"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(server.asked().len(), 1);
    let said = stderr(&output);
    assert!(
        said.contains("not asked: the reference of sort64"),
        "{said}"
    );
    let judged = &last_object(&output)["models"][0];
    assert_eq!(judged["all"]["counts"]["unasked"], 1, "{judged}");
    assert_eq!(
        judged["all"]["metrics"]["pass@1"]["problems"], 1,
        "{judged}"
    );
    assert_eq!(judged["all"]["counts"]["built"], 1, "{judged}");
    let unasked = &judged["unasked"][0];
    assert_eq!(
        (&unasked["problem"], &unasked["reason"]),
        (&json!("sort64"), &json!("unstated"))
    );
    let names: Vec<&Value> = judged["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["name"])
        .collect();
    assert_eq!(names, ["dgemm", "sort64"]);
    let page = std::fs::read_to_string(place.path().join("out/eval.md")).unwrap();
    assert!(page.contains("unstated: sort64:"), "{page}");
}

#[test]
fn a_model_behind_an_endpoint_answers_and_its_costs_are_counted() {
    const KEY: &str = "sk-never-shown";
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => Act::error(429, "Retry-After: 0\r\n", &format!("slow down, {KEY}")),
        1 => Act::Cut(Act::pieces("```c")),
        2 | 3 => Act::streamed(&fenced(GOOD), (100, 50)),
        4 => Act::streamed("I cannot do that.", (100, 50)),
        _ => Act::error(400, "", "no more"),
    });
    let server = server.unwrap();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let settings = place.join("endpoint.toml");
    let text = format!(
        "url = \"{}\"\nmodel = \"org/chat\"\nkey = \"FLOPSMITH_TEST_KEY\"\nconcurrency = 1\n\
         [retries]\nfirst_wait_seconds = 0\n[price]\ninput = 1\noutput = 2\n[budget]\nmoney = 5\n",
        server.url()
    );
    std::fs::write(&settings, &text).unwrap();
    let model = format!("endpoint:{}", settings.display());
    let run = |key: Option<&str>, more: &[&str]| {
        let mut command = flopsmith();
        command.env_remove("FLOPSMITH_FORMAT");
        match key {
            Some(key) => command.env("FLOPSMITH_TEST_KEY", key),
            None => command.env_remove("FLOPSMITH_TEST_KEY"),
        };
        command.args(["--log", "trace", "eval", &model, "--problem", "dgemm"]);
        command.args(["--samples", "4", "--purpose", "screen", "--format", "json"]);
        command.arg("--output").arg(place.join("out")).args(more);
        let output = command.output().unwrap();
        let written = format!(
            "{}{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        assert!(!written.contains(KEY), "{written}");
        output
    };
    let output = run(None, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("FLOPSMITH_TEST_KEY"),
        "{}",
        stderr(&output)
    );
    assert!(server.asked().is_empty());

    // Three answers come, and one is refused.
    let output = run(Some(KEY), &[]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let results = last_object(&output);
    let judged = &results["models"][0];
    assert_eq!(judged["model"], "org/chat");
    let counts = json!({
        "answers": 3, "without_program": 1, "distinct_programs": 1, "correct": 2, "unmeasured": 0,
        "unanswered": 1,
    });
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(judged["all"]["counts"][name], *count, "{name} in {judged}");
    }
    assert_eq!(judged["unanswered"][0]["reason"], "refused", "{judged}");
    assert_eq!(
        judged["unanswered"][0]["example"],
        "the server answers 400: no more"
    );
    let spending = &results["spending"]["org/chat"];
    // A stream that was cut may have cost what was reserved, 512 tokens of an answer; errors cost nothing.
    assert_eq!(
        (
            &spending["requests"],
            &spending["failed"],
            &spending["assumed"]
        ),
        (&json!(6), &json!(3), &json!(1))
    );
    assert_eq!(spending["output_tokens"], 512 + 3 * 50);
    let tokens = |name: &str| spending[name].as_f64().unwrap();
    let cost = (tokens("input_tokens") + 2.0 * tokens("output_tokens")) / 1e6;
    assert_eq!(
        spending["cost"].as_str().unwrap().parse::<f64>().unwrap(),
        cost
    );
    let page = std::fs::read_to_string(place.join("out/eval.md")).unwrap();
    assert!(page.contains("Requests to endpoints"), "{page}");
    let answers = objects(&place.join("out/samples.jsonl"));
    assert_eq!(answers.len(), 3);
    assert!(
        answers
            .iter()
            .all(|a| a["prompt"].as_str().unwrap().contains("dgemm") && a["finished"] == true),
        "{answers:?}"
    );
    let asked = server.asked();
    assert_eq!(asked.len(), 6);
    for asked in &asked {
        assert!(
            asked.head.contains(&format!("Bearer {KEY}")),
            "{}",
            asked.head
        );
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(
            (&body["model"], &body["max_tokens"]),
            (&json!("org/chat"), &json!(512))
        );
    }
    for file in [
        "requests.jsonl",
        "samples.jsonl",
        "eval.json",
        "config.json",
    ] {
        let text = std::fs::read_to_string(place.join("out").join(file)).unwrap();
        assert!(!text.contains(KEY), "{file}: {text}");
    }

    // A second start asks for the answer that is missing, and for no other. Another budget is no other model.
    std::fs::write(&settings, text.replace("money = 5", "money = 6")).unwrap();
    let output = run(Some(KEY), &[]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(server.asked().len(), 7);
    let again = last_object(&output);
    assert_eq!(again["spending"]["org/chat"]["requests"], 7);
    assert_eq!(again["spending"]["org/chat"]["cost"], spending["cost"]);
    assert_eq!(objects(&place.join("out/samples.jsonl")), answers);
}

/// A file of settings of an endpoint without a key, as a model of the command line.
fn settings(place: &Path, url: &str, more: &str) -> String {
    let path = place.join("endpoint.toml");
    let text = format!("url = \"{url}\"\nmodel = \"m\"\nconcurrency = 1\n{more}");
    std::fs::write(&path, text).unwrap();
    format!("endpoint:{}", path.display())
}

#[test]
fn a_server_that_cannot_be_reached_is_told_at_the_first_failure() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // A port on which nothing listens any more.
    let url = ScriptedEndpoint::acts(Vec::new()).unwrap().url();
    let retries = "[retries]\nmost = 2\nfirst_wait_seconds = 0.01\n";
    let model = settings(place, &url, retries);
    let output = eval(place, &[&model, "--problem", "dgemm", "--samples", "3"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    let repetitions: Vec<&str> = told.lines().filter(|l| l.contains("tried again")).collect();
    // Of the six repetitions the first two say all.
    assert_eq!(repetitions.len(), 2, "{told}");
    for part in [&url, "the server cannot be reached", "2 times in all"] {
        assert!(repetitions[0].contains(part), "{told}");
    }
    assert!(repetitions[1].contains("for the last time"), "{told}");
    let missing = told.lines().position(|l| l.contains("is missing"));
    let first = told.lines().position(|l| l == repetitions[0]);
    assert!(first < missing, "{told}");
}

#[test]
fn a_refused_prompt_is_counted_and_a_refused_key_ends_the_evaluation() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        1 | 3 => Act::error(403, "", "your input was flagged"),
        _ => Act::streamed("I cannot do that.", (10, 20)),
    });
    let server = server.unwrap();
    let model = settings(place, &server.url(), "");
    let arguments = ["--problem", "dgemm", "--samples", "3", "--format", "json"];
    let arguments = [&[model.as_str()][..], &arguments].concat();
    // The second start asks again for the answer that was refused.
    for asked in [3, 4] {
        let output = eval(place, &arguments);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{told}");
        let line = "answer 2 to dgemm is missing: the server answers 403: your input was flagged";
        assert!(told.contains(line), "{told}");
        assert_eq!(server.asked().len(), asked);
        let judged = &last_object(&output)["models"][0];
        let counts = &judged["all"]["counts"];
        assert_eq!(
            (&counts["answers"], &counts["unanswered"]),
            (&json!(2), &json!(1))
        );
        let missing = &judged["unanswered"][0];
        assert_eq!(
            (&missing["reason"], &missing["sample"]),
            (&json!("denied"), &json!(2))
        );
    }

    let refusing = ScriptedEndpoint::acts(vec![Act::error(401, "", "no such key")]).unwrap();
    std::fs::remove_dir_all(place.join("out")).unwrap();
    let model = settings(place, &refusing.url(), "");
    let output = eval(place, &[&model, "--problem", "dgemm", "--samples", "3"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("refuses every request: the server answers 401: no such key; check the URL"),
        "{told}"
    );
    assert!(!told.contains("is missing"), "{told}");
    assert_eq!(refusing.asked().len(), 1);
}

#[test]
fn a_search_whose_endpoint_cannot_be_reached_ends_before_the_machine_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    // A port on which nothing listens any more.
    let url = ScriptedEndpoint::acts(Vec::new()).unwrap().url();
    let mut command = quick_search(&runs);
    let output = command.args(["--endpoint", &format!("{url}#m")]).output();
    let output = output.unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    let part = format!("the endpoint {url} cannot be reached");
    assert!(told.contains(&part), "{told}");
    assert!(!told.contains("measuring"), "{told}");
    assert!(!runs.exists(), "no run was made");
}

/// The summary of a short search with this model, which succeeds, and its messages.
fn searched(runs: &Path, model: &str, steps: u32) -> (Value, String) {
    let model = model.strip_prefix("endpoint:").unwrap();
    let mut command = quick_search(runs);
    command.args(["--set", &format!("max_steps={steps}")]);
    command.args(["--endpoint", model, "--set", "generator.max_tokens=512"]);
    let output = command.output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    (last_object(&output), told)
}

#[test]
fn a_model_behind_an_endpoint_writes_the_programs_of_a_search() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    // Four failures that pass, then programs.
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => Act::error(429, "Retry-After: 0\r\n", "slow down"),
        1 => Act::error(500, "", "down"),
        2 => Act::Answer(200, "", "<html>proxy</html>".into()),
        3 => Act::Cut(Act::pieces("```c")),
        4 => Act::streamed("I cannot do that.", (100, 50)),
        _ => Act::streamed(&fenced(GOOD), (100, 50)),
    });
    let server = server.unwrap();
    let more = "[retries]\nfirst_wait_seconds = 0\n[price]\ninput = 1\noutput = 2\n";
    let (summary, told) = searched(&runs, &settings(place.path(), &server.url(), more), 2);
    assert_eq!(summary["finished"], true);
    assert_eq!(
        summary["best"]["source"].as_str().unwrap().trim(),
        GOOD.trim()
    );
    // Two steps of two tasks with four samples, of which none is lost; `-m` is in the names of second measurements.
    let run = only_run(&runs).unwrap();
    let first = outcomes(&run).into_keys().filter(|id| !id.contains("-m"));
    assert_eq!(first.count(), 16);
    assert_eq!(summary["outcomes"]["format"], 1, "{summary}");
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
    let spent = &summary["endpoint"];
    assert_eq!(
        (&spent["requests"], &spent["failed"], &spent["assumed"]),
        (&json!(20), &json!(4), &json!(3)),
        "{spent}"
    );
    assert!(
        told.contains("20 requests to the endpoint (4 failed)"),
        "{told}"
    );
    let answers = objects(&run.join("answers.jsonl"));
    assert_eq!(answers.len(), 16);
    let mut prompts = answers.iter().map(|a| a["prompt"].as_str().unwrap());
    assert!(prompts.all(|prompt| prompt.contains("dgemm")));
}

#[test]
fn a_search_ends_with_its_result_where_the_budget_of_the_endpoint_does() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let server = ScriptedEndpoint::start(|_| Act::streamed(&fenced(GOOD), (1000, 50)));
    let server = server.unwrap();
    let poor = settings(place.path(), &server.url(), "[budget]\ntokens = 6000\n");
    let (summary, _) = searched(&runs, &poor, 3);
    assert_eq!(
        (&summary["finished"], &summary["steps"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(summary["infrastructure_errors"], 8 - server.asked().len());
    let spent = &summary["endpoint"];
    let tokens = |key: &str| spent[key].as_u64().unwrap();
    let all = tokens("input_tokens") + tokens("output_tokens");
    assert!((1..=6000).contains(&all), "{spent}");
    // The search has ended, so a larger budget does not make it go on.
    let asked = server.asked().len();
    let richer = settings(place.path(), &server.url(), "[budget]\ntokens = 90000\n");
    let richer = richer.strip_prefix("endpoint:").unwrap();
    let mut again = flopsmith();
    again.args([
        "search",
        "--problem",
        "dgemm",
        "--endpoint",
        richer,
        "--resume",
    ]);
    again.arg(only_run(&runs).unwrap()).arg("--runs").arg(&runs);
    again.env("FLOPSMITH_PROBLEMS", quick::problems());
    let told = stderr(&again.output().unwrap());
    assert!(told.contains("--endpoint has no effect"), "{told}");
    assert_eq!(server.asked().len(), asked);
}

/// `SLOW` with two products at a time, as a change.
const OLD: &str = "for(int k=0;k<n;k++)s+=A[i*n+k]*B[k*n+j];C[i*n+j]=s;}}";
const NEW: &str = "for(int k=0;k<n;k+=2)s+=A[i*n+k]*B[k*n+j]+A[i*n+k+1]*B[(k+1)*n+j];C[i*n+j]=s;}}";

#[test]
fn an_agent_that_is_interrupted_goes_on_and_evaluates_nothing_twice() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let own = place.path().join("mine.c");
    std::fs::write(&own, SLOW).unwrap();
    let change = format!("<<<<<<< SEARCH\n{OLD}\n=======\n{NEW}\n>>>>>>> REPLACE\n");
    let answers = [
        "REMARKS".to_owned(),
        "COUNTERS".to_owned(),
        change,
        fenced(GOOD),
    ];
    let script = answers.clone();
    // It is interrupted while it waits for the last answer.
    let server = ScriptedEndpoint::start(move |asked| match asked.number {
        3 => Act::Never,
        number => Act::streamed(&script[number.min(3)], (100, 50)),
    });
    let server = server.unwrap();
    let model = settings(place.path(), &server.url(), "");
    let mut command = quick_search(&runs);
    command.args(["--agent", "--endpoint"]);
    command.arg(model.strip_prefix("endpoint:").unwrap());
    command.arg("--start").arg(&own);
    for set in [
        "tasks=1",
        "group_size=3",
        "max_steps=1",
        "generator.max_tokens=512",
    ] {
        command.args(["--set", set]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let limit = Duration::from_secs(180);
    wait_for(&mut child, limit, "the last request", || {
        server.asked().len() == 4
    });
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let folder = only_run(&runs).unwrap();
    let lines = || std::fs::read_to_string(folder.join("outcomes.jsonl")).unwrap();
    let before = lines();
    assert!(before.lines().count() >= 2, "{before}");

    let output = resume_quick_search(&runs).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(last_object(&output)["finished"], true);
    // Only the request that had no answer is repeated.
    assert_eq!(server.asked().len(), 5);
    let after = outcomes(&folder);
    assert!(after.values().all(|lines| *lines == 1), "{after:?}");
    assert!(lines().starts_with(&before), "{before}");

    // The program of `--start`, the changed one, and the whole one; `-m` is in the names of second measurements.
    let mut first: Vec<Value> = objects(&folder.join("outcomes.jsonl"))
        .into_iter()
        .filter(|outcome| !outcome["candidate"]["id"].as_str().unwrap().contains("-m"))
        .collect();
    first.sort_by_key(|outcome| outcome["candidate"]["sample"].as_u64());
    let programs: Vec<&str> = first
        .iter()
        .map(|outcome| outcome["source"].as_str().unwrap().trim())
        .collect();
    let changed = SLOW.replace(OLD, NEW);
    assert_eq!(programs, [SLOW.trim(), changed.trim(), GOOD.trim()]);
    let mut verdicts = first.iter().map(|outcome| &outcome["verdict"]["type"]);
    assert!(verdicts.all(|verdict| verdict == "measured"), "{first:?}");

    // Each prompt tells what came of the answer before, or of the program of `--start`.
    let counted = Counters::of(0).err();
    let counted = counted.unwrap_or_else(|| "A call at n=256, the mean of ".to_owned());
    let told = [
        "It is right and reaches",
        "The compiler's remarks about vectors",
        &counted,
        "+for(int k=0;k<n;k+=2)",
    ];
    let turns = objects(&folder.join("attempts.jsonl"));
    let wanted = [("-c1", 0), ("-c1", 1), ("-c1", 2), ("-c2", 0)];
    assert_eq!(turns.len(), wanted.len());
    let text = |turn: &Value, key: &str| turn[key].as_str().unwrap_or_default().to_owned();
    for (number, (turn, (candidate, place))) in turns.iter().zip(wanted).enumerate() {
        assert!(text(turn, "candidate").ends_with(candidate), "{turn}");
        assert_eq!(turn["turn"], place, "{turn}");
        assert_eq!(text(turn, "answer").trim(), answers[number].trim());
        let prompt = text(turn, "prompt");
        assert!(prompt.contains(told[number]), "{}: {prompt}", told[number]);
        if let Some(later) = told.get(number + 1) {
            assert!(!prompt.contains(later), "{later}: {prompt}");
        }
    }
    assert!(text(&turns[0], "prompt").contains(SLOW.trim()));
    assert_eq!(text(&turns[1], "difference"), "");
    let difference = text(&turns[2], "difference");
    for line in [format!("-{OLD}"), format!("+{NEW}")] {
        assert!(difference.lines().any(|l| l == line), "{difference}");
    }
    assert!(text(&turns[3], "difference").contains("+for(int i=0;i<n*n;i++)C[i]=0;"));
}

#[test]
fn programs_that_a_model_writes_for_a_problem_are_measured_and_split() {
    on_one_core();
    let answer = format!("### Slow\n```c\n{SLOW}```\n### Fast\n```c\n{GOOD}```\n");
    let server = ScriptedEndpoint::start(move |_| Act::streamed(&answer, (100, 50))).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let model = format!("{}#org/chat", server.url());
    let synthesize = || {
        let mut command = flopsmith();
        command.args(["dataset", "synthesize", "--endpoint", &model]);
        command.args(["--problem", "dgemm", "--count", "2", "--format", "json"]);
        command.arg("--output").arg(&out).output().unwrap()
    };
    let output = synthesize();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = last_object(&output);
    let counts = "answers kept refused undecided missing failed programs timed wrong repeated";
    assert_keys(
        &report,
        &format!("{counts} timed_pairs faster_pairs spending"),
        "",
    );
    assert_eq!(
        (&report["kept"], &report["refused"], &report["timed"]),
        (&json!(1), &json!({ "repeated": 1 }), &json!(2)),
        "{report}"
    );
    let programs = out.join("programs.jsonl");
    let lines = objects(&programs);
    let mut times = lines.iter().map(|line| line["runtime_s"].as_f64());
    assert_eq!(lines.len(), 2);
    assert!(times.all(|time| time.unwrap() > 0.0), "{lines:?}");
    let prompt = lines[0]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("// dgemm:"), "{prompt}");

    // A second start has nothing to do.
    let output = synthesize();
    assert_eq!(last_object(&output), report);
    assert_eq!((server.asked().len(), objects(&programs)), (2, lines));

    let data = place.path().join("data");
    let (programs, data) = (programs.to_str().unwrap(), data.to_str().unwrap());
    let split = run(&["dataset", "split", programs, "--output", data]);
    assert_eq!(split.status.code(), Some(0), "{}", stderr(&split));
}
