//! Nodes that lack a jail's requirements: hard limits that are too low, forbidden namespaces, a temporary folder that
//! permits no execution. Every command that runs untrusted programs names the cause, and `doctor` finds it as well.

use super::*;

const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}\n";

/// Shell code that changes a node before the program starts there.
struct Node<'a> {
    /// The command line of the shell.
    before: &'a [&'a str],
    /// The first line of the shell's script.
    does: &'a str,
}

impl Node<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut words: Vec<&str> = self.before.to_vec();
        let script = format!("{} exec \"$0\" \"$@\"", self.does);
        words.extend(["sh", "-c", &script, env!("CARGO_BIN_EXE_flopsmith")]);
        let mut command = plain(Command::new(words[0]));
        command.args(&words[1..]).args(arguments);
        command
    }

    /// True if this machine can make such a node.
    fn can_be_made(&self) -> bool {
        let mut words: Vec<&str> = self.before.to_vec();
        words.extend(["sh", "-c"]);
        let script = format!("{} exec true", self.does);
        let done = Command::new(words[0])
            .args(&words[1..])
            .arg(&script)
            .output();
        match done {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                skipped(&format!("no such node can be made here: {}", said.trim()));
                false
            }
            Err(error) => {
                skipped(&format!("{} cannot be run: {error}", words[0]));
                false
            }
        }
    }

    /// The result of `bench` on such a node with a program that does nothing.
    fn bench(&self) -> Ended {
        self.bench_with(&["--problem", "dgemm"])
    }

    /// The same with these options, which name the problem.
    fn bench_with(&self, options: &[&str]) -> Ended {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("program.c");
        fs::write(&file, IDLE).unwrap();
        let mut command = self.command(&["bench", file.to_str().unwrap(), "--purpose", "screen"]);
        command.args(options);
        run(command)
    }

    /// The findings of `doctor` on such a node, and its exit code.
    fn doctor(&self) -> (Vec<Value>, Option<i32>) {
        let ended = run(self.command(&["doctor", "--quick", "--format", "json"]));
        let last = ended.out.lines().last().unwrap_or_default();
        let object: Value =
            serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {}", ended.said()));
        (object["findings"].as_array().unwrap().clone(), ended.code)
    }

    /// Every command that runs untrusted programs prints these words, and `doctor` reports the lack under this name.
    fn refused_everywhere(&self, what: &str, words: &[&str]) {
        self.refused(what, words);
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        let runs = runs.to_str().unwrap();
        let mut all = vec![
            vec!["problem", "check", "dgemm"],
            vec![
                "search",
                "--problem",
                "dgemm",
                "--budget",
                "5s",
                "--runs",
                runs,
            ],
            vec!["worker", "--nats", "nats://127.0.0.1:1", "--store", runs],
        ];
        if cfg!(feature = "torch") {
            all.push(vec!["train", "examples/dgemm.toml", "--runs", runs]);
        }
        for arguments in all {
            let ended = run(self.command(&arguments));
            assert_eq!(ended.code, Some(INFRASTRUCTURE), "{}", ended.said());
            contains(&ended.said(), words);
        }
    }

    /// A command that runs an untrusted program prints these words, and `doctor` reports the lack under this name.
    fn refused(&self, what: &str, words: &[&str]) {
        let bench = self.bench();
        contains(bench.one_error(INFRASTRUCTURE), words);
        let (findings, code) = self.doctor();
        assert_eq!(code, Some(INFRASTRUCTURE));
        let missing: Vec<&Value> = findings
            .iter()
            .filter(|f| f["state"] == "missing")
            .collect();
        let [missing] = missing[..] else {
            panic!("{missing:?}");
        };
        assert_eq!(missing["what"], what, "{missing}");
        let advice = missing["advice"].as_str().unwrap();
        let said = format!("{}; {advice}", missing["found"].as_str().unwrap());
        contains(&said, words);
        // It is there.
        assert!(!said.contains("install bubblewrap"), "{said}");
    }
}

/// A process that may not raise its hard limits.
fn limited(does: &str) -> Node<'_> {
    const UNABLE: &[&str] = &[
        "setpriv",
        "--bounding-set=-sys_resource",
        "--inh-caps=-sys_resource",
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let capabilities = u64::from_str_radix(capabilities.unwrap().trim(), 16).unwrap();
    const SYS_RESOURCE: u64 = 1 << 24;
    let able = capabilities & SYS_RESOURCE != 0;
    Node {
        before: if able { UNABLE } else { &[] },
        does,
    }
}

#[test]
fn a_hard_limit_that_is_too_low_is_named_with_what_raises_it() {
    for (does, name, flag) in [
        ("ulimit -t 9;", "RLIMIT_CPU", "ulimit -Ht "),
        ("ulimit -t 30;", "RLIMIT_CPU", "ulimit -Ht 60"),
        ("ulimit -v 2000000;", "RLIMIT_AS", "ulimit -Hv 2097152"),
        ("ulimit -d 2000000;", "RLIMIT_DATA", "ulimit -Hd 2097152"),
        ("ulimit -n 100;", "RLIMIT_NOFILE", "ulimit -Hn 128"),
        ("ulimit -f 1024;", "RLIMIT_FSIZE", "ulimit -Hf 32768"),
    ] {
        let node = limited(does);
        if !node.can_be_made() {
            continue;
        }
        let bench = node.bench();
        contains(bench.one_error(INFRASTRUCTURE), &[name, flag]);
        let (findings, code) = node.doctor();
        assert_eq!(code, Some(INFRASTRUCTURE), "{does}");
        let missing = findings.iter().find(|f| f["state"] == "missing").unwrap();
        assert_eq!(missing["what"], "limits", "{missing}");
        contains(missing["found"].as_str().unwrap(), &[name]);
        contains(missing["advice"].as_str().unwrap(), &[flag]);
    }
    let words = ["RLIMIT_STACK", "ulimit -Hs 65536"];
    limited("ulimit -s 4096;").refused_everywhere("limits", &words);
}

#[test]
fn verification_at_several_sizes_needs_processor_time_for_each() {
    let node = limited("ulimit -t 100;");
    if !node.can_be_made() {
        return;
    }
    // The shipped dgemm is timed at three sizes, and the one of the other tests at one.
    let shipped = ["--problem", "problems/dgemm"];
    let words = ["RLIMIT_CPU", "100 s", "180 s", "ulimit -Ht 180"];
    contains(node.bench_with(&shipped).one_error(INFRASTRUCTURE), &words);
    // The program computes nothing, and is refused for that.
    let one_size = node.bench_with(&[shipped[0], shipped[1], "--workload", "n=256"]);
    assert_eq!(one_size.code, Some(1), "{}", one_size.said());
    contains(&one_size.said(), &["wrong_result"]);
    let (findings, code) = node.doctor();
    assert_eq!(code, Some(0), "{findings:?}");
    let is_of_verification = |finding: &&Value| {
        let found = finding["found"].as_str().unwrap_or_default();
        finding["what"] == "limits" && found.contains("cannot be verified")
    };
    let limits = findings.iter().find(is_of_verification).unwrap();
    assert_eq!(limits["state"], "advice", "{limits}");
    contains(limits["found"].as_str().unwrap(), &["RLIMIT_CPU", "100 s"]);
    contains(limits["advice"].as_str().unwrap(), &["ulimit -Ht "]);
}

#[test]
fn programs_run_with_the_usual_stack_where_there_is_no_more_and_that_is_said() {
    for (does, name, words) in [
        (
            "ulimit -s 8192;",
            "RLIMIT_STACK",
            "stack of 8 MiB instead of 64 MiB",
        ),
        ("ulimit -t 3600;", "RLIMIT_CPU", "3600 s"),
    ] {
        let node = limited(does);
        if !node.can_be_made() {
            continue;
        }
        let ended = node.bench();
        // The program computes nothing, and is refused for that.
        assert_eq!(ended.code, Some(1), "{}", ended.said());
        contains(&ended.said(), &["wrong_result"]);
        let notes: Vec<&str> = ended.err.lines().filter(|l| l.contains(name)).collect();
        assert_eq!(notes.len(), 1, "{}", ended.said());
        contains(notes[0], &["note: ", words]);
        let (findings, code) = node.doctor();
        assert_eq!(code, Some(0), "{findings:?}");
        let limits = findings.iter().find(|f| f["what"] == "limits").unwrap();
        assert_eq!(limits["state"], "advice", "{limits}");
        contains(limits["found"].as_str().unwrap(), &[name, words]);
    }
}

#[test]
fn a_node_without_user_namespaces_names_the_setting() {
    let node = Node {
        before: &["unshare", "-Ur"],
        does: "echo 0 >/proc/sys/user/max_user_namespaces &&",
    };
    if node.can_be_made() {
        let words = [
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=",
        ];
        node.refused("jail", &words);
    }
}

/// A filter like that of containers, which refuses new user namespaces: four numbers of the kernel's machine a line.
fn filter() -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const HAS: u16 = 0x45;
    const ANSWER: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;
    let lines: [(u16, u8, u8, u32); 8] = [
        (LOAD, 0, 0, 0),
        (IS, 4, 0, libc::SYS_unshare as u32),
        (IS, 1, 0, libc::SYS_clone as u32),
        (ANSWER, 0, 0, ALLOW),
        (LOAD, 0, 0, 16),
        (HAS, 0, 1, libc::CLONE_NEWUSER as u32),
        (ANSWER, 0, 0, REFUSE),
        (ANSWER, 0, 0, ALLOW),
    ];
    let mut bytes = Vec::new();
    for (code, yes, no, number) in lines {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([yes, no]);
        bytes.extend(number.to_ne_bytes());
    }
    bytes
}

#[test]
fn a_container_whose_filter_forbids_user_namespaces_is_told_how_to_start() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("filter");
    fs::write(&file, filter()).unwrap();
    let start = format!(
        "exec 9<{}; exec bwrap --dev-bind / / --seccomp 9 \"$0\" \"$@\"",
        file.display()
    );
    let node = Node {
        before: &["sh", "-c", &start],
        does: "",
    };
    if node.can_be_made() {
        let words = ["system-call filter", "seccomp=docker/seccomp.json"];
        node.refused("jail", &words);
    }
}

#[test]
fn a_temporary_folder_from_which_nothing_can_be_loaded_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let does = format!(
        "mount -t tmpfs -o noexec none {0} && export TMPDIR={0} &&",
        folder.display()
    );
    let node = Node {
        before: &["unshare", "-Urm"],
        does: &does,
    };
    if node.can_be_made() {
        node.refused("jail", &["noexec", folder.to_str().unwrap(), "TMPDIR"]);
    }
}

#[test]
fn a_temporary_folder_that_is_not_there_is_named() {
    let node = Node {
        before: &[],
        does: "export TMPDIR=/no/such/folder;",
    };
    node.refused_everywhere("jail", &["/no/such/folder", "set TMPDIR to"]);
}

#[test]
fn a_harness_that_cannot_be_run_where_it_lies_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let harness = Path::new(env!("CARGO_BIN_EXE_flopsmith")).with_file_name("flopsmith-harness");
    let does = format!(
        "mount -t tmpfs -o noexec none {0} && cp {1} {0} && export FLOPSMITH_HARNESS={0}/flopsmith-harness &&",
        folder.display(),
        harness.display()
    );
    let node = Node {
        before: &["unshare", "-Urm"],
        does: &does,
    };
    if node.can_be_made() {
        let ended = node.bench();
        let words = ["noexec", "FLOPSMITH_HARNESS"];
        contains(ended.one_error(INFRASTRUCTURE), &words);
        let (findings, _) = node.doctor();
        let harness = findings.iter().find(|f| f["what"] == "harness").unwrap();
        assert_eq!(harness["state"], "missing", "{harness}");
    }
}
