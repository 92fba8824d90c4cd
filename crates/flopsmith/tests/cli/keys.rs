//! A broker with TLS that knows each node by its key: the permissions of a role are sufficient, and minimal.

use std::net::TcpListener;

use flopsmith_bus::{Auth, Bus, Options, Server, Tls, WorkerOptions};
use flopsmith_protocol::{Candidate, Outcome, RunId, Verified, subjects};
use flopsmith_test_support::{candidate, outcome, wrong};

use super::*;

/// A separate nats-server, and the keys of its users.
struct Broker {
    server: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

const HOLDERS: [(&str, &str); 6] = [
    ("admin", "admin"),
    ("client", "client"),
    ("bench", "compiler,verifier,timer"),
    ("keeper", "archive"),
    ("trainer", "learner,generator"),
    ("timer", "timer"),
];

impl Broker {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        certificates(place);
        let mut users = Vec::new();
        for (name, roles) in HOLDERS {
            let file = place.join(format!("{name}.nk"));
            let file = file.to_str().unwrap();
            let made = run(&["cluster", "key", file, "--roles", roles]);
            assert_eq!(made.status.code(), Some(0), "{made:?}");
            users.push(String::from_utf8(made.stdout).unwrap());
            // A second key in the same file would lock out the first one's holder.
            let again = run(&["cluster", "key", file, "--roles", roles]);
            assert_eq!(again.status.code(), Some(2), "{again:?}");
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             authorization {{ users: [\n{}] }}\n\
             tls {{ cert_file: \"{place}/server.pem\", key_file: \"{place}/server.key\" }}\n\
             jetstream {{ store_dir: \"{place}/nats\" }}\n",
            users.concat(),
            place = place.display()
        );
        let path = place.join("nats.conf");
        std::fs::write(&path, config).unwrap();
        let (binary, _) = Server::installed(None).await.unwrap();
        let log = std::fs::File::create(place.join("nats.log")).unwrap();
        let server = Command::new(binary)
            .arg("-c")
            .arg(path)
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            server,
            url: format!("tls://127.0.0.1:{port}"),
            folder,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn as_holder(&self, name: &str, command: &mut Command) {
        command
            .env("FLOPSMITH_NATS", &self.url)
            .env("FLOPSMITH_NATS_CA", self.file("ca.pem"))
            .env("FLOPSMITH_NATS_NKEY", self.file(&format!("{name}.nk")))
            .env("FLOPSMITH_STORE", self.file("store"));
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = flopsmith();
        command.args(arguments);
        self.as_holder(name, &mut command);
        command
    }

    async fn bus(&self, name: &str) -> Bus {
        let mut options = Options::new(self.url.clone());
        options.auth = Auth::NKey(self.file(&format!("{name}.nk")));
        options.tls = Tls {
            roots: Some(self.file("ca.pem")),
            own: None,
        };
        options.publish_limit = Duration::from_secs(1);
        Bus::connect(options).await.unwrap()
    }

    /// A run on the nodes, until its end. Returns its folder.
    async fn followed(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let runs = self.file(name);
        let mut command = self.command("client", arguments);
        command.args(["--budget", "10m", "--format", "json", "--cluster"]);
        command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
        command.arg("--runs").arg(&runs);
        let ended = tokio::task::spawn_blocking(move || command.output());
        let ended = tokio::time::timeout(Duration::from_secs(240), ended).await;
        let ended = ended.expect("it takes too long").unwrap().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{said}{}", self.said());
        only_run(&runs).unwrap()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.file("nats.log")).unwrap()
    }
}

/// The test's own authority, and the server's certificate.
fn certificates(place: &Path) {
    let openssl = |arguments: &str| {
        let done = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(place)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"
    ));
    openssl(&format!(
        "req {key} -keyout server.key -out server.csr -subj /CN=broker"
    ));
    std::fs::write(place.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
    );
}

/// A process that ends with its test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute or more: make long"]
async fn nodes_with_keys_of_their_own_can_do_their_work_and_no_more() {
    if Command::new("openssl").arg("version").output().is_err() {
        flopsmith_test_support::skipped("keys and TLS: no openssl to make certificates with");
        return;
    }
    let broker = Broker::start().await;
    let set_up = broker.command("admin", &["cluster", "init"]).output();
    let set_up = set_up.unwrap();
    assert_eq!(set_up.status.code(), Some(0), "{set_up:?}");

    // The whole of a run, with a key for each part.
    let worker = |name: &str, roles: &str| {
        let arguments = ["worker", "--node", name, "--roles", roles];
        let child = broker.command(name, &arguments).spawn();
        Node(child.unwrap())
    };
    let _bench = worker("bench", "compiler,verifier,timer");
    let _keeper = worker("keeper", "archive");
    let writes = if cfg!(feature = "torch") {
        "learner,generator"
    } else {
        "generator"
    };
    let _trainer = worker("trainer", writes);
    let search = ["search", "--problem", "dgemm", "--evaluations", "8"];
    let searched = broker.followed("search", &search).await;
    assert!(outcomes(&searched).len() >= 8);
    if cfg!(feature = "torch") {
        let settings = ["tasks=1", "group_size=4", "evaluate_tasks=1", "max_steps=1"];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let train: Vec<&str> = ["train", "examples/dgemm.toml"]
            .into_iter()
            .chain(settings)
            .collect();
        let trained = broker.followed("train", &train).await;
        assert!(trained.join("model/model.safetensors").exists());
        // A step, and the evaluations before and after it.
        assert!(outcomes(&trained).len() >= 12);
    }
    // No role needed more than its permissions.
    let refused = broker.said();
    assert!(!refused.contains("Violation"), "{refused}");

    // An attack that a compromised timer could try.
    let bus = broker.bus("timer").await;
    let run = RunId::new("someone").unwrap();
    let class = flopsmith_test_support::machine_class();
    let queue = subjects::Queue::compile(&class);
    let options = WorkerOptions::new(queue.all(), 1);
    assert!(bus.worker::<Candidate>(options).await.is_err());
    let options = WorkerOptions::new(subjects::Queue::time(&class).all(), 1);
    assert!(bus.worker::<Verified>(options).await.is_ok());
    let message = Candidate {
        candidate: candidate(0, 0, 0),
        source: String::new(),
        answer: None,
    };
    assert!(bus.publish(&queue.of(&run), &message).await.is_err());
    let decided = outcome(candidate(0, 0, 0), wrong());
    bus.publish(&subjects::outcome(&run), &decided)
        .await
        .unwrap();
    assert!(
        bus.log::<Outcome>(&subjects::outcome(&run), 0)
            .await
            .is_err()
    );
    // It may publish neither messages of other roles, nor dead letters that a later retry would publish in its place.
    let time = subjects::Queue::time(&class);
    let died = subjects::dead(&time.of(&run));
    bus.publish(&died, &message).await.unwrap();
    let other = subjects::Queue::time(&flopsmith_protocol::MachineClass::new("other").unwrap());
    for place in [
        other.of(&run),
        subjects::dead(&other.of(&run)),
        subjects::dead(&queue.of(&run)),
        subjects::dead(&subjects::policy(&run)),
        subjects::policy(&run),
        "$KV.fs_runs.someone".to_owned(),
        "$KV.fs_leases.someone-archive".to_owned(),
    ] {
        assert!(bus.publish(&place, &message).await.is_err(), "{place}");
    }
    assert!(broker.said().contains("Violation"));
    // A node with a role that its key does not permit ends and prints the reason.
    let mut mistaken = broker.command("timer", &["worker", "--roles", "compiler"]);
    let ended = tokio::task::spawn_blocking(move || mistaken.output());
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let ended = ended.expect("it goes on for ever").unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("does not let this key use"), "{said}");
    let top = broker.command("timer", &["top", "--once"]).output();
    let said = String::from_utf8_lossy(&top.unwrap().stderr).into_owned();
    assert!(said.contains("does not let this key use"), "{said}");
    // A run that it may not start leaves nothing to resume.
    let runs = broker.file("runs");
    let search = ["search", "--problem", "dgemm", "--cluster"];
    let begun = broker
        .command("timer", &search)
        .arg("--runs")
        .arg(&runs)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&begun.stderr).into_owned();
    assert_eq!(begun.status.code(), Some(3), "{said}");
    assert!(said.contains("does not let this key use"), "{said}");
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0, "{said}");
    // The same without a key.
    let mut stranger = flopsmith();
    stranger.args(["cluster", "check", "--nats", &broker.url]);
    stranger.env("FLOPSMITH_NATS_CA", broker.file("ca.pem"));
    let refused = stranger.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("refuses these credentials"), "{said}");
    let unknown = broker
        .command("client", &["cluster", "check"])
        .env("FLOPSMITH_NATS_NKEY", broker.file("nowhere.nk"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("nowhere.nk"), "{said}");
}
