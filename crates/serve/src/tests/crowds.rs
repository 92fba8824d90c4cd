//! Many clients at once.

use flopsmith_test_support::skipped;
use nix::sys::resource::{Resource, getrlimit};

use super::*;

/// Number of connections that ask for nothing.
const IDLE: usize = 1000;
/// Number of clients at the same time.
const CLIENTS: u32 = 200;

/// Number of open connections, with the one that asks.
fn open_connections(server: &Server) -> usize {
    let text = server.get("/metrics").body;
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("flopsmith_serve_connections "));
    count.unwrap().parse().unwrap()
}

#[test]
fn a_thousand_idle_connections_are_held_and_hold_nobody_up() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    // Both ends are in this process, and other tests run beside.
    let needed = 2 * IDLE as u64 + 1000;
    let (handles, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if handles < needed {
        skipped(&format!(
            "{IDLE} connections need {needed} file handles, and the system allows {handles}; raise the hard limit (ulimit -Hn)"
        ));
        return;
    }
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| server.connect()).collect();
    wait_until(|| open_connections(&server) > IDLE);
    let reply = server.post("/v1/evaluate", &programs(&["right 40"]));
    assert_eq!(column(&reply.lines(), "gflops"), [40.0]);
    // Each of them still is a connection of its own.
    for mut stream in &idle {
        let request = "GET /v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
    }
    for stream in idle {
        assert_eq!(Reply::read(stream).status, 200);
    }
}

#[test]
fn two_hundred_clients_get_their_answers() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let source = format!("right {}", client % 50 + 1);
                let reply = server.post("/v1/evaluate", &programs(&[&source]));
                let gflops = f64::from(client % 50 + 1);
                assert_eq!(column(&reply.lines(), "gflops"), [gflops]);
            });
        }
    });
}

/// The answer to a request with a key for one program; none if the service ends first.
fn answer(at: SocketAddr, key: u32, body: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let request = format!(
        "POST /v1/evaluate HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nIdempotency-Key: {key}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (_, lines) = text.split_once("\r\n\r\n")?;
    let answer: Value = serde_json::from_str(lines.lines().next()?).ok()?;
    // The last line of a service that stops is a refusal.
    answer.get("outcome").is_some().then_some(answer)
}

#[test]
fn two_hundred_clients_lose_nothing_through_a_restart() {
    const BEFORE: usize = 50;
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut first = Server::start(place.path(), options);
    // The processes in turn, and where each listens.
    let serving = Mutex::new((1, first.address));
    let (asked, again) = std::thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let serving = &serving;
            scope.spawn(move || {
                // Each client has a program of its own.
                let source = format!("right {}", f64::from(client) / 4.0);
                let body = programs(&[&source]).to_string();
                let answer = loop {
                    let now = *serving.lock().unwrap();
                    match answer(now.1, client, &body) {
                        Some(answer) => break answer,
                        None => wait_until(|| *serving.lock().unwrap() != now),
                    }
                };
                assert_eq!(answer["id"], format!("of {source}"), "{answer}");
                // Only the reference of this program is provisional.
                let expected = match source.as_str() {
                    "right 2" => "unconverged",
                    _ => "measured",
                };
                assert_eq!(answer["outcome"], expected, "{answer}");
            });
        }
        wait_until(|| first.service.waiting().0 == CLIENTS as usize);
        for _ in 0..BEFORE {
            open.send(()).unwrap();
        }
        wait_until(|| first.seen.lock().unwrap().len() == BEFORE);
        first.service.stopping().cancel();
        drop(open);
        first.stop();
        let asked = first.seen.lock().unwrap().clone();
        // Its folder is free for the next process.
        drop(first);
        let second = Server::start(place.path(), Options::default());
        *serving.lock().unwrap() = (2, second.address);
        wait_until(|| second.service.unfinished() == 0);
        (asked, second)
    });
    let mut all = asked;
    all.extend(again.seen.lock().unwrap().iter().cloned());
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (200, 200), "{all:?}");
}
