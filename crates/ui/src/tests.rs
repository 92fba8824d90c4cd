//! The window over real connections, on a folder with a run whose texts are hostile.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use flopsmith_actors::pool::Shares;
use flopsmith_actors::role::recorder::DeadLine;
use flopsmith_actors::role::timer::QUARANTINE;
use flopsmith_config::Settings;
use flopsmith_protocol::{
    CandidateFault, CandidateRef, Outcome, Request, StageChanged, TechniqueSet, Verdict,
};
use flopsmith_report::heat;
use flopsmith_run::summary::{Certified, Facts};
use flopsmith_test_support::client::{Reply, connect};
use flopsmith_test_support::{
    ATTESTED, Log, Measured, again, asked, candidate, first, infrastructure, machine, measured,
    outcome, problem_id, run_id, unknown,
};
use tempfile::TempDir;

use super::*;

mod access;
mod answers;
mod attempts;
mod nodes;
mod reading;

/// Everything that a test waits for comes long before this.
const LIMIT: Duration = Duration::from_secs(30);

/// A text that takes over a page that does not escape it.
const HOSTILE: &str =
    "</pre></code><script>alert(1)</script><img src=x onerror='alert(2)'>\" &amp; é\u{1}\n";

struct Window {
    address: SocketAddr,
    stopping: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

/// How a window of a test differs from others.
struct Options<'a> {
    token: Option<&'a str>,
    cluster: Option<Cluster>,
    /// Time that the header of a request may take to arrive.
    patience: Duration,
    /// Takes the log of the thread that answers.
    log: Option<Log>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            token: None,
            cluster: None,
            patience: LIMIT,
            log: None,
        }
    }
}

impl Window {
    fn open(folder: &Path, token: Option<&str>) -> Self {
        Self::beside(folder, token, None)
    }

    /// A window that shows a cluster, too.
    fn beside(folder: &Path, token: Option<&str>, cluster: Option<Cluster>) -> Self {
        let options = Options {
            token,
            cluster,
            ..Options::default()
        };
        Self::with(folder, options)
    }

    fn with(folder: &Path, options: Options) -> Self {
        let stopping = CancellationToken::new();
        let token = options.token.map(|token| Token::new(token).unwrap());
        let runs = Runs::new(folder.to_owned(), None).unwrap().patient(LIMIT);
        let site = Site::new(runs, options.cluster);
        let router = http::router(App::new(site, token, stopping.clone()));
        let limits = Limits {
            header: options.patience,
            ..Limits::default()
        };
        let log = options.log;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let ends = stopping.clone();
        let serving = std::thread::spawn(move || {
            let _log = log.map(tracing::subscriber::set_default);
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                listen::serve(listener, router, ends, limits, || ()).await;
            });
        });
        Self {
            address,
            stopping,
            serving: Some(serving),
        }
    }

    fn send(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = connect(self.address);
        // With HTTP/1.0 the server closes the connection at the end of its response.
        let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, path: &str, headers: &str) -> Reply {
        Reply::read(self.send(path, headers))
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(path, "Host: localhost\r\n")
    }

    /// A page that has to be there.
    fn page(&self, path: &str) -> String {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stopping.cancel();
        let ended = self.serving.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(ended.unwrap().is_ok());
        }
    }
}

/// The outcomes of the run: of step 1 and 2, with every party, a repetition, a conversation, and hostile texts.
fn outcomes() -> Vec<Outcome> {
    let hostile = |verdict| Outcome {
        source: HOSTILE.to_owned(),
        ..first(9, "", "simd", verdict)
    };
    let slow = first(1, "int a;\nint b;\n", "simd", measured(10.0));
    let follows = CandidateRef {
        follows: Some(slow.candidate.id.clone()),
        ..candidate(2, 0, 0)
    };
    let fast = Outcome {
        source: "int a;\nint c;\n".to_owned(),
        ..outcome(follows, measured(20.0))
    };
    let refused = Verdict::Rejected {
        fault: CandidateFault::CompileError,
        detail: HOSTILE.to_owned(),
    };
    let jail = flopsmith_protocol::InfrastructureCause::Jail;
    vec![
        slow.clone(),
        hostile(refused),
        fast,
        outcome(candidate(1, 1, 0), infrastructure(jail)),
        again(&slow, Measured::at(9.5).verdict()),
    ]
}

fn lines<T: serde::Serialize>(items: &[T]) -> String {
    let lines = items
        .iter()
        .map(|item| serde_json::to_string(item).unwrap() + "\n");
    lines.collect()
}

/// A folder with the run `r`, and a second one of another seed.
fn runs() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let outcomes = outcomes();
    for (name, seed) in [("r", 1), ("other", 2)] {
        let folder = place.path().join(name);
        std::fs::create_dir_all(folder.join("certified")).unwrap();
        let write = |file: &str, text: String| std::fs::write(folder.join(file), text).unwrap();
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        write("config.toml", toml::to_string(&settings).unwrap());
        write("outcomes.jsonl", lines(&outcomes));
        let change = StageChanged {
            run: run_id(),
            problem: problem_id(),
            step: 1,
            from: 0,
            to: 1,
            reason: HOSTILE.to_owned(),
        };
        write("stages.jsonl", lines(&[change]));
        let state = |model: &str| {
            machine(&serde_json::json!({ "cpu_model": model, "threads": 2 }).to_string())
        };
        let machines = [machine(ATTESTED), state("calm"), state(HOSTILE)];
        write("machines.jsonl", lines(&machines));
        let best = &outcomes[0];
        let id = best.candidate.id.clone();
        let measurement = best.verdict.measurement().unwrap().clone();
        let record = serde_json::json!({
            "source": best.source, "measurement": measurement, "samples": {"candidate": []}, "attestation_json": ATTESTED,
        });
        let file = format!("certified/{id}.json");
        write(&file, record.to_string());
        let mut shares = Shares {
            idle: 0.25,
            seconds: 1000.0,
            ..Shares::default()
        };
        shares.by_role.insert(QUARANTINE.into(), 0.12);
        shares.by_role.insert(HOSTILE.into(), 0.63);
        let facts = Facts {
            job: "train".into(),
            problem: HOSTILE.into(),
            shares,
            certified: vec![Certified {
                candidate: id,
                measurement,
                record: Some(file),
                machine_busy: Some(HOSTILE.into()),
            }],
            ..Facts::default()
        };
        write("run.json", serde_json::to_string(&facts).unwrap());
        let task = &outcomes[1].candidate.task;
        let answer = serde_json::json!({
            "task": task, "sample": 9, "seed": 1, "prompt": HOSTILE, "answer": HOSTILE,
        });
        write("answers.jsonl", lines(&[answer]));
        // An agent made the fourth program from the refused one.
        let attempt = serde_json::json!({
            "candidate": outcomes[3].candidate.id, "island": 0, "parents": [HOSTILE],
            "nearest": outcomes[1].candidate.id, "difference": HOSTILE,
        });
        write("attempts.jsonl", lines(&[attempt]));
        let letter = DeadLine {
            sequence: 4,
            id: Some(HOSTILE.into()),
            subject: HOSTILE.into(),
            reason: HOSTILE.into(),
            attempts: 3,
        };
        write("dead_letters.jsonl", lines(&[letter]));
    }
    place
}

/// The pages of the run; the first one twice, because the second time its index is there.
const PAGES: [&str; 21] = [
    "/",
    "/",
    "/?page=7",
    "/compare?run=r&run=other",
    "/compare?run=r",
    "/runs/r",
    "/runs/r?problem=dgemm",
    "/runs/r?problem=none",
    "/runs/r/programs?sort=speed&problem=dgemm&technique=simd&reason=compile_error",
    "/runs/r/programs?text=int%20a&sort=ratio",
    "/runs/r/programs?text=%3Cscript%3E",
    "/runs/r/programs/1",
    "/runs/r/programs/2?against=1",
    "/runs/r/programs/4",
    "/runs/r/tree",
    "/runs/r/tree?colour=stage&problem=dgemm&page=9",
    "/runs/r/nodes",
    "/runs/r/steps",
    "/runs/r/steps/1",
    "/runs/r/certificates",
    "/runs/r/certificates/r-s1-g0-c1",
];

/// Checks that no text of a run left its place in a page, and that the page has what all pages have.
fn holds_its_texts(path: &str, reply: &Reply) {
    let Reply { status, head, body } = reply;
    assert_eq!(*status, 200, "{path}: {body}");
    for part in [
        "alert(1)</script>",
        "<img",
        "onerror='",
        "</pre></code><script",
        "\u{1}",
    ] {
        assert!(!body.contains(part), "{path}: {part}");
    }
    assert_eq!(body.matches("<script").count(), 1, "{path}");
    assert!(
        !body.contains(" style=") && !body.contains(" onclick="),
        "{path}"
    );
    assert!(
        head.contains("content-security-policy: default-src 'none';"),
        "{head}"
    );
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    for part in ["name=\"viewport\"", "class=\"skip\"", "<h1>", "lang=\"en\""] {
        assert!(body.contains(part), "{path}: {part}");
    }
}

#[test]
fn no_page_lets_a_text_of_a_run_out_of_its_place() {
    let place = runs();
    let window = Window::open(place.path(), None);
    for path in PAGES {
        holds_its_texts(path, &window.get(path));
    }
    // The text is there, escaped.
    assert!(
        window
            .page("/runs/r/programs/1")
            .contains("&lt;script&gt;alert(1)")
    );
    assert!(
        window
            .page("/runs/r/steps/1")
            .contains("&lt;script&gt;alert(1)")
    );
}

#[test]
fn pages_show_the_numbers_of_the_run() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let run = window.page("/runs/r");
    // The map has the confirmed speed of one set, and of the other one that nobody confirmed.
    let simd: TechniqueSet = "simd".parse().unwrap();
    let cells = [
        (simd, "9.50 GFLOPS, 1 of 2 correct"),
        (
            TechniqueSet::EMPTY,
            "20.0 GFLOPS, measured once, not confirmed, 1 of 1 correct",
        ),
    ];
    for (set, told) in cells {
        let (name, anchor) = (heat::name(set), heat::anchor(set));
        for part in [
            format!("<a href=\"#{anchor}\"><rect class=\""),
            format!("<title>{name}: {told}</title>"),
            format!("<tr id=\"{anchor}\"><th scope=\"row\">{name}</th>"),
        ] {
            assert!(run.contains(&part), "{part}: {run}");
        }
    }
    // The newest of the programs measured is the repetition.
    let examples = [("measured", 4), ("jail", 3), ("compile error", 1)];
    for (reason, number) in examples {
        let example = format!(
            "<a href=\"&#x2f;runs&#x2f;r&#x2f;programs&#x2f;{number}\">program<span class=\"unseen\"> with the verdict {reason}</span></a>"
        );
        assert!(run.contains(&example), "{example}: {run}");
    }
    for part in [
        "<svg class=\"heat\"",
        "2 sets as a table",
        "Newest example",
        "</a> 9.50 GFLOPS</td>",
        "</a> &lt;&#x2f;pre",
        "Changes of stage",
        "<tr><th scope=\"row\">1</th><td class=\"words\">dgemm</td><td>0</td><td>1</td><td class=\"words wide-text\">&lt;&#x2f;pre",
        "data-events=\"&#x2f;runs",
    ] {
        assert!(run.contains(part), "{part}: {run}");
    }
    // Lists renew themselves where that takes nothing away from their reader.
    for (path, is_live) in [
        ("programs", true),
        ("programs?sort=speed&page=1", true),
        ("programs?text=int", false),
        ("programs?page=2", false),
        ("tree", true),
        ("steps", true),
        ("nodes", true),
        ("certificates", true),
        ("programs/1", false),
    ] {
        let page = window.page(&format!("/runs/r/{path}"));
        assert_eq!(page.contains("data-events="), is_live, "{path}");
    }
    let programs = window.page("/runs/r/programs");
    assert!(programs.contains("1 to 5 of 5 programs."), "{programs}");
    let fastest = window.page("/runs/r/programs?sort=speed");
    let at = |number: u64| fastest.find(&format!("programs&#x2f;{number}\"")).unwrap();
    assert!(at(2) < at(0) && at(0) < at(4) && at(4) < at(1));
    let found = window.page("/runs/r/programs?text=int+c");
    assert!(
        found.contains("1 found; searched 5 of 5 programs."),
        "{found}"
    );
    // The follow-up differs from its parent in one line, and the repetition in none.
    let follow_up = window.page("/runs/r/programs/2");
    assert!(
        follow_up.contains("<span class=\"removed\">− int b;"),
        "{follow_up}"
    );
    assert!(follow_up.contains("<span class=\"added\">+ int c;"));
    let clock = flopsmith_report::clock::Clock::of(&Measured::at(20.0).measurement());
    let [_, minimum, median, spread] = clock.cells();
    for (name, cell) in [
        ("Fastest call", minimum),
        ("Median call", median),
        ("Spread of the calls", spread),
    ] {
        let pair = format!("<dt>{name}</dt><dd>{cell}</dd>");
        assert!(follow_up.contains(&pair), "{pair}: {follow_up}");
    }
    assert!(
        window
            .page("/runs/r/programs/4")
            .contains("The two programs have the same lines.")
    );
    let step = window.page("/runs/r/steps/1");
    for part in ["Prompt", "its answer", "its program", "-0.400"] {
        assert!(step.contains(part), "{part}: {step}");
    }
    let compared = window.page("/compare?run=r&run=other");
    assert!(
        compared.contains("r and 1 more seed<") && compared.contains("<polygon"),
        "{compared}"
    );
    let certified = window.page("/runs/r/certificates/r-s1-g0-c1");
    assert!(
        certified.contains("The record agrees with the run."),
        "{certified}"
    );
    let lead = window.get("/runs/r/candidates/r-s2-g0-c0");
    assert_eq!(lead.status, 303);
    assert!(
        lead.head.contains("location: /runs/r/programs/2"),
        "{}",
        lead.head
    );
}

#[test]
fn a_certificate_that_does_not_fit_its_record_fails() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let folder = place.path().join("r");
    let page = "/runs/r/certificates/r-s1-g0-c1";
    let record = folder.join("certified/r-s1-g0-c1.json");
    let whole = std::fs::read_to_string(&record).unwrap();
    for (old, new) in [
        ("int a;", "int x;"),
        (ATTESTED, "other"),
        ("\"calls\":64", "\"calls\":65"),
    ] {
        assert!(whole.contains(old), "{old}: {whole}");
        std::fs::write(&record, whole.replace(old, new)).unwrap();
        let body = window.page(page);
        assert!(
            body.contains("does not agree") && body.contains("failed"),
            "{body}"
        );
    }
    // A record outside the folder of records is not read.
    std::fs::write(&record, &whole).unwrap();
    let facts = folder.join("run.json");
    let text = std::fs::read_to_string(&facts).unwrap();
    for trick in [
        "/etc/passwd",
        "certified/../run.json",
        "certified//run.json",
        "../r/run.json",
    ] {
        let path = text.replace("certified/r-s1-g0-c1.json", trick);
        std::fs::write(&facts, path).unwrap();
        let body = window.page(page);
        assert!(body.contains("run.json names no record"), "{trick}: {body}");
    }
}

#[test]
fn addresses_with_tricks_lead_nowhere() {
    let place = runs();
    std::fs::write(place.path().join("config.toml"), "").unwrap();
    let runs = place.path().join("r");
    let window = Window::open(&runs, None);
    // Here `r` is no folder of runs, so `..` would lead to one.
    for path in [
        "/runs/..",
        "/runs/%2e%2e",
        "/runs/%2e%2e%2fother",
        "/runs/..%2fother/programs",
        "/runs/.%2fcertified",
        "/runs/%00",
        "/runs/certified",
        "/runs//programs",
        "/runs/%2e%2e/steps/1",
        "/runs/../events",
        "/nothing",
    ] {
        let status = window.get(path).status;
        assert!(status == 404 || status == 400, "{path}: {status}");
    }
    drop(window);
    let window = Window::open(place.path(), None);
    for (path, status) in [
        ("/runs/%FF", 404),
        ("/runs/r/programs/5", 404),
        ("/runs/r/programs/-1", 404),
        ("/runs/r/programs/x", 404),
        ("/runs/r/steps/99999999999", 404),
        ("/runs/r/steps/3", 404),
        ("/runs/r/certificates/..%2f..%2frun", 404),
        ("/runs/r/candidates/none", 404),
        ("/runs/r/programs?page=0", 400),
        ("/runs/r/programs?page=201", 400),
        ("/runs/r/programs?sort=size", 400),
        ("/runs/r/programs?technique=%3Cb%3E", 400),
        ("/runs/r/programs?step=one", 400),
        ("/runs/r/programs/1?against=9", 404),
        ("/runs/r/tree?problem=%3Cb%3E", 404),
        ("/runs/r/tree?colour=%3Cb%3E", 400),
        ("/runs/r/tree?page=x", 400),
        ("/runs/none/nodes", 404),
        ("/cluster", 404),
        ("/compare", 400),
        ("/compare?run=none", 404),
    ] {
        let reply = window.get(path);
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
        assert!(!reply.body.contains("<b>"), "{path}");
    }
    let long = format!("/?a={}", "x".repeat(3000));
    assert_eq!(window.get(&long).status, 414);
    assert_eq!(
        window.get(&format!("/runs/{}", "r".repeat(600))).status,
        414
    );
}

#[test]
fn a_line_that_is_cut_off_is_no_program_yet() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let log = place.path().join("r/outcomes.jsonl");
    let whole = std::fs::read(&log).unwrap();
    let more = lines(&[first(3, "int d;", "unroll", measured(5.0))]);
    let half = [&whole[..], &more.as_bytes()[..more.len() / 2]].concat();
    std::fs::write(&log, half).unwrap();
    assert!(window.page("/runs/r/programs").contains("of 5 programs"));
    std::fs::write(&log, [&whole[..], more.as_bytes()].concat()).unwrap();
    assert!(window.page("/runs/r/programs").contains("of 6 programs"));
    assert!(window.page("/runs/r/programs/5").contains("unroll"));
    // A run without outcomes has pages, too.
    std::fs::remove_file(place.path().join("other/outcomes.jsonl")).unwrap();
    assert!(window.page("/runs/other").contains("<h1>other</h1>"));
    assert_eq!(window.get("/runs/other/programs").status, 404);
    // Nor is there a page of a log that cannot be read.
    std::fs::create_dir_all(place.path().join("other/outcomes.jsonl/folder")).unwrap();
    let refused = window.get("/runs/other/programs");
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(refused.body.contains("cannot be read"), "{}", refused.body);
}

#[test]
fn a_comparison_says_that_it_draws_only_some_curves() {
    let place = runs();
    let mut query = String::new();
    for number in 0..9 {
        let folder = place.path().join(format!("n{number}"));
        std::fs::create_dir(&folder).unwrap();
        let settings = Settings {
            max_steps: 100 + number,
            ..Settings::default()
        };
        let config = toml::to_string(&settings).unwrap();
        std::fs::write(folder.join("config.toml"), config).unwrap();
        let log = place.path().join("r/outcomes.jsonl");
        std::fs::copy(log, folder.join("outcomes.jsonl")).unwrap();
        query.push_str(&format!("&run=n{number}"));
    }
    let window = Window::open(place.path(), None);
    let words = "At most 8 curves are drawn in a chart";
    let nine = window.page(&format!("/compare?{}", &query[1..]));
    assert!(nine.contains(words), "{nine}");
    let eight = window.page(&format!("/compare?{}", &query[8..]));
    assert!(!eight.contains(words), "{eight}");
}
