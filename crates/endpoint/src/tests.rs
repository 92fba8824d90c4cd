//! The client with real connections to a server that follows a script.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier, Mutex};

use flopsmith_config::endpoint::{Budget, Price};
use flopsmith_config::{Endpoint, Money};
use flopsmith_protocol::Sampling;
use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};
use futures::FutureExt;

use super::*;

mod access;
mod adapters;
mod books;

const SECRET: &str = "sk-very-secret";

/// A client with the journal that it writes.
struct Tested {
    client: Client,
    journal: Arc<Mutex<Vec<Entry>>>,
}

/// An endpoint whose time-outs and waits are as short as a test may have them.
fn endpoint(server: &ScriptedEndpoint) -> Endpoint {
    let mut endpoint = Endpoint::new(&server.url(), "m");
    endpoint.retries.first_wait_seconds = 0.0;
    endpoint.retries.longest_wait_seconds = 0.5;
    endpoint.price = Some(Price {
        input: Money::micros(1_000_000),
        output: Money::micros(4_000_000),
    });
    endpoint
}

fn open(endpoint: &Endpoint, before: &Spending) -> Tested {
    endpoint.check().unwrap();
    let sampling = Sampling {
        temperature: 0.2,
        top_p: 0.95,
        top_k: 0,
        max_tokens: 100,
    };
    let journal = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&journal);
    let client = Client::with_key(
        endpoint,
        Key::new(SECRET),
        &sampling,
        before,
        Box::new(move |entry| {
            written.lock().unwrap().push(entry.clone());
            Ok(())
        }),
    );
    Tested {
        client: client.unwrap(),
        journal,
    }
}

fn ask(number: u32) -> Ask {
    Ask {
        problem: "dot".into(),
        number,
        prompt: "Write a program.".into(),
        seed: u64::from(number),
    }
}

impl Tested {
    fn ask(&self) -> Result<Reply, Error> {
        runtime().block_on(self.client.ask(&ask(1)))
    }

    /// All answers and failures, by number.
    fn ask_all(&self, most: u32) -> Vec<(u32, Result<Reply, Error>)> {
        let mut ended = Vec::new();
        let asks = (1..=most).map(ask).collect();
        runtime().block_on(self.client.ask_all(asks, |ask, reply| {
            ended.push((ask.number, reply));
            ControlFlow::Continue(())
        }));
        ended.sort_by_key(|(number, _)| *number);
        ended
    }

    fn entries(&self) -> Vec<Entry> {
        self.journal.lock().unwrap().clone()
    }

    fn reasons(&self) -> Vec<Reason> {
        let entries = self.entries().into_iter();
        entries.filter_map(|entry| entry.reason).collect()
    }

    /// The journal and the client agree, and neither says the key.
    fn assert_consistent(&self) {
        let entries = self.entries();
        assert_eq!(Spending::of(&entries).amount, self.client.spent());
        assert!(!format!("{entries:?}").contains(SECRET), "{entries:?}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_server_is_reached_by_a_request_that_asks_for_nothing() {
    let server = ScriptedEndpoint::acts(Vec::new()).unwrap();
    let there = endpoint(&server);
    runtime().block_on(reach(&there)).unwrap();
    assert!(server.asked().is_empty());
    drop(server);
    let error = runtime().block_on(reach(&there)).unwrap_err();
    assert_eq!(error.reason(), Some(Reason::Connection), "{error}");
    // The system takes the connection, and nobody answers.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut silent_there = there;
    silent_there.url = format!("http://{}/v1", silent.local_addr().unwrap());
    silent_there.timeouts.connect_seconds = 1.0;
    runtime().block_on(reach(&silent_there)).unwrap();
}

fn failed(reply: Result<Reply, Error>) -> (Reason, String) {
    let error = reply.unwrap_err();
    let words = error.to_string();
    assert!(!words.contains(SECRET) && !format!("{error:?}").contains(SECRET));
    (error.reason().unwrap(), words)
}

#[test]
fn an_answer_comes_whole_or_in_pieces_and_its_cost_is_counted() {
    for (stream, act) in [
        (true, Act::streamed("für \"x\"\n", (10, 20))),
        (false, Act::whole("für \"x\"\n", (10, 20))),
        // A server that knows no streams.
        (true, Act::whole("für \"x\"\n", (10, 20))),
    ] {
        let server = ScriptedEndpoint::acts(vec![act]).unwrap();
        let mut endpoint = endpoint(&server);
        endpoint.stream = stream;
        let tested = open(&endpoint, &Spending::default());
        let reply = tested.ask().unwrap();
        assert_eq!(reply.text, "für \"x\"\n");
        assert_eq!(reply.finished, Some(true));
        // Ten millionths, and twenty times four.
        assert_eq!(reply.amount.cost, Money::micros(90));
        assert_eq!(tested.client.spent(), reply.amount);
        tested.assert_consistent();
        let [asked] = &server.asked()[..] else {
            panic!("one request")
        };
        assert!(asked.head.starts_with("POST /v1/chat/completions "));
        let head = asked.head.to_ascii_lowercase();
        assert!(
            head.contains(&format!("authorization: bearer {SECRET}")),
            "{head}"
        );
        assert!(
            asked.body.contains("\"Write a program.\""),
            "{}",
            asked.body
        );
        let served = tested.entries().into_iter().find_map(|entry| entry.served);
        assert_eq!(served.as_deref(), Some("served"));
    }
}

#[test]
fn a_failure_that_passes_is_tried_again() {
    for (first, reason) in [
        (Act::error(500, "", "down"), Reason::Server),
        (Act::error(503, "", "overloaded"), Reason::Server),
        (
            Act::Answer(504, "", "<html>gateway</html>".into()),
            Reason::Server,
        ),
        (
            Act::error(429, "Retry-After: 0\r\n", "slow down"),
            Reason::RateLimited,
        ),
        (
            Act::Answer(200, "", "<html>proxy</html>".into()),
            Reason::Malformed,
        ),
        (Act::Cut(Act::pieces("int x")), Reason::Cut),
        (Act::Stream(Act::pieces("int x")), Reason::Cut),
        (
            Act::Stream(vec!["{\"error\":{\"message\":\"lost\"}}".into()]),
            Reason::Server,
        ),
        (Act::Close, Reason::Cut),
    ] {
        let is_free = matches!(first, Act::Answer(429 | 503, ..));
        let acts = vec![first, Act::streamed("int x;", (10, 20))];
        let server = ScriptedEndpoint::acts(acts).unwrap();
        let tested = open(&endpoint(&server), &Spending::default());
        assert_eq!(tested.ask().unwrap().text, "int x;", "{reason:?}");
        assert_eq!(tested.reasons(), [reason]);
        assert_eq!(server.asked().len(), 2);
        tested.assert_consistent();
        // Of a lost answer nobody knows the cost, and an overloaded server charges nothing.
        let assumed = Spending::of(&tested.entries()).assumed;
        assert_eq!(assumed == 0, is_free, "{reason:?}");
    }
}

#[test]
fn a_server_that_asks_for_a_longer_wait_than_permitted_has_failed() {
    let acts = vec![Act::error(429, "Retry-After: 3600\r\n", "quota")];
    let server = ScriptedEndpoint::acts(acts).unwrap();
    let tested = open(&endpoint(&server), &Spending::default());
    let (reason, words) = failed(tested.ask());
    assert_eq!(reason, Reason::RateLimited);
    assert!(
        words.contains("quota") && words.contains("3600 s"),
        "{words}"
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn no_wait_is_endless() {
    for (act, reason) in [
        (Act::Never, Reason::FirstByte),
        (Act::Hang(Vec::new()), Reason::FirstByte),
        (Act::Hang(Act::pieces("int x")), Reason::Idle),
    ] {
        let server = ScriptedEndpoint::acts(vec![act]).unwrap();
        let mut endpoint = endpoint(&server);
        endpoint.retries.most = 1;
        endpoint.timeouts.first_byte_seconds = 0.3;
        endpoint.timeouts.idle_seconds = 0.05;
        let tested = open(&endpoint, &Spending::default());
        assert_eq!(failed(tested.ask()).0, reason);
        assert_eq!(tested.reasons(), [reason, reason]);
        // Each of the two may have cost all that was reserved.
        let most = tested.entries()[0].amount;
        assert_eq!(tested.client.spent(), most.plus(most));
        tested.assert_consistent();
    }
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let mut whole = endpoint(&server);
    whole.stream = false;
    whole.retries.most = 0;
    whole.timeouts.whole_seconds = 0.05;
    assert_eq!(
        failed(open(&whole, &Spending::default()).ask()).0,
        Reason::Whole
    );
}

#[test]
fn a_server_that_is_not_there_costs_nothing() {
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.retries.most = 2;
    drop(server);
    let tested = open(&endpoint, &Spending::default());
    let (reason, words) = failed(tested.ask());
    assert_eq!(reason, Reason::Connection);
    assert!(words.contains("3 sent"), "{words}");
    assert_eq!(tested.client.spent(), Amount::NOTHING);
    tested.assert_consistent();
}

#[test]
fn a_refused_request_is_not_repeated_and_a_refused_key_ends_all() {
    let acts = vec![Act::error(400, "", "the prompt is too long")];
    let server = ScriptedEndpoint::acts(acts).unwrap();
    let (reason, words) = failed(open(&endpoint(&server), &Spending::default()).ask());
    assert_eq!(reason, Reason::Refused);
    assert!(words.contains("400: the prompt is too long"), "{words}");

    let message = format!("the key {SECRET} is wrong");
    let server = ScriptedEndpoint::acts(vec![Act::error(401, "", &message)]).unwrap();
    let mut one = endpoint(&server);
    one.concurrency = 1;
    let tested = open(&one, &Spending::default());
    let ended = tested.ask_all(20);
    assert_eq!(ended.len(), 20);
    for (_, reply) in ended {
        assert_eq!(failed(reply).0, Reason::Denied);
    }
    assert!(tested.client.is_denied());
    assert_eq!(server.asked().len(), 1);
    let entries = tested.entries();
    assert!(
        entries[1].detail.contains("the key [key] is wrong"),
        "{entries:?}"
    );
    tested.assert_consistent();

    let acts = vec![Act::Answer(
        302,
        "Location: http://127.0.0.1:1/\r\n",
        String::new(),
    )];
    let server = ScriptedEndpoint::acts(acts).unwrap();
    let (reason, words) = failed(open(&endpoint(&server), &Spending::default()).ask());
    assert!(
        reason == Reason::Refused && words.contains("a redirection"),
        "{words}"
    );
}

#[test]
fn as_many_requests_are_under_way_as_permitted() {
    // Each answer waits until four requests are there.
    let together = Barrier::new(4);
    let server = ScriptedEndpoint::start(move |_| {
        together.wait();
        Act::streamed("int x;", (10, 20))
    });
    let server = server.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.concurrency = 4;
    let tested = open(&endpoint, &Spending::default());
    let ended = tested.ask_all(12);
    assert!(ended.iter().all(|(_, reply)| reply.is_ok()));
    assert_eq!(ended.len(), 12);
    assert_eq!(server.busiest(), 4);
    tested.assert_consistent();
}

#[test]
fn requests_end_where_the_budget_does() {
    let server = ScriptedEndpoint::acts(vec![Act::streamed("int x;", (10, 20))]).unwrap();
    let mut endpoint = endpoint(&server);
    // The reservation of one request, and five times what it costs.
    let most = Amount::of(16 + 512, 100, endpoint.price);
    let cost = Amount::of(10, 20, endpoint.price).cost;
    let five = (0..5).fold(Money::ZERO, |sum, _| sum.plus(cost));
    endpoint.budget = Budget {
        money: Some(most.cost.plus(five)),
        ..Budget::default()
    };
    let tested = open(&endpoint, &Spending::default());
    let ended = tested.ask_all(20);
    let answered = ended.iter().filter(|(_, reply)| reply.is_ok()).count();
    // Six fit, whatever the order: after each, what is left must hold a whole reservation.
    assert_eq!(answered, 6);
    for (_, reply) in ended.into_iter().filter(|(_, reply)| reply.is_err()) {
        let (reason, words) = failed(reply);
        assert_eq!(reason, Reason::Budget);
        assert!(words.contains("money"), "{words}");
    }
    assert_eq!(server.asked().len(), 6);
    assert!(tested.client.spent().cost <= most.cost.plus(five));
    tested.assert_consistent();

    // The next session goes on with what is left: nothing.
    let before = Spending::of(&tested.entries());
    assert_eq!((before.requests, before.failed), (6, 0));
    let again = open(&endpoint, &before);
    assert_eq!(failed(again.ask()).0, Reason::Budget);
    assert_eq!(server.asked().len(), 6);

    // The same in tokens.
    endpoint.budget = Budget {
        tokens: Some(most.tokens() + 30),
        ..Budget::default()
    };
    let tested = open(&endpoint, &Spending::default());
    let ended = tested.ask_all(5);
    assert_eq!(ended.iter().filter(|(_, reply)| reply.is_ok()).count(), 2);
    assert!(tested.client.spent().tokens() <= most.tokens() + 30);
}

#[test]
fn a_request_that_is_given_up_counts_and_holds_up_no_other() {
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let mut endpoint = endpoint(&server);
    let most = Amount::of(16 + 512, 100, endpoint.price);
    endpoint.budget.money = Some(most.cost);
    let tested = open(&endpoint, &Spending::default());
    let next = runtime().block_on(async {
        assert!(tested.client.ask(&ask(1)).now_or_never().is_none());
        let longest = std::time::Duration::from_secs(60);
        tokio::time::timeout(longest, tested.client.ask(&ask(2))).await
    });
    assert_eq!(failed(next.unwrap()).0, Reason::Budget);
    assert_eq!(tested.client.spent(), most);
    tested.assert_consistent();
}

#[test]
fn a_server_that_counts_more_than_permitted_ends_the_requests() {
    let server = ScriptedEndpoint::acts(vec![Act::streamed("int x;", (10, 5000))]).unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.budget.tokens = Some(4000);
    endpoint.concurrency = 1;
    let tested = open(&endpoint, &Spending::default());
    let ended = tested.ask_all(3);
    assert!(ended[0].1.is_ok());
    assert_eq!(tested.client.spent().tokens(), 5010);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn no_request_lasts_longer_than_the_budget_in_time() {
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.budget.seconds = Some(0.1);
    let tested = open(&endpoint, &Spending::default());
    let (reason, words) = failed(tested.ask());
    assert!(
        reason == Reason::Budget && words.contains("time"),
        "{words}"
    );
    assert_eq!(server.asked().len(), 1);
    // A later session has no time left.
    let before = Spending::of(&tested.entries());
    assert!(before.elapsed_ms >= 100, "{before:?}");
    assert_eq!(failed(open(&endpoint, &before).ask()).0, Reason::Budget);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn an_answer_without_counts_costs_the_most_that_it_can() {
    let body = r#"{"choices":[{"message":{"content":"int x;"}}]}"#;
    let server = ScriptedEndpoint::acts(vec![Act::Answer(200, "", body.into())]).unwrap();
    let tested = open(&endpoint(&server), &Spending::default());
    let reply = tested.ask().unwrap();
    assert_eq!((reply.finished, reply.amount.output_tokens), (None, 100));
    assert_eq!(Spending::of(&tested.entries()).assumed, 1);
    tested.assert_consistent();
}

#[test]
fn a_journal_that_cannot_be_written_sends_nothing() {
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let endpoint = endpoint(&server);
    let sampling = Sampling {
        temperature: 0.2,
        top_p: 0.95,
        top_k: 0,
        max_tokens: 100,
    };
    let full = Box::new(|_: &Entry| Err(std::io::Error::other("no space")));
    let client = Client::with_key(&endpoint, None, &sampling, &Spending::default(), full).unwrap();
    let error = runtime().block_on(client.ask(&ask(1))).unwrap_err();
    assert!(matches!(error, Error::Journal(_)), "{error:?}");
    assert!(server.asked().is_empty());
}

#[test]
fn a_key_must_be_in_the_environment() {
    let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
    assert!(Key::of(&endpoint).unwrap().is_none());
    endpoint.key = Some("FLOPSMITH_TEST_NO_SUCH_KEY".into());
    let error = Key::of(&endpoint).unwrap_err();
    assert!(matches!(error, Error::NoKey(_)), "{error:?}");
    assert!(error.to_string().contains("FLOPSMITH_TEST_NO_SUCH_KEY"));
}

#[test]
fn addresses_end_with_the_path_of_chat_completions() {
    for base in [
        "http://127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1/",
        "http://127.0.0.1:8000/v1/chat/completions",
    ] {
        let address = address(base).unwrap();
        assert_eq!(
            address.as_str(),
            "http://127.0.0.1:8000/v1/chat/completions"
        );
    }
    for wrong in [
        "",
        "127.0.0.1:8000",
        "file:///v1",
        "https://h/v1?a=b",
        "https://u:p@h/v1",
    ] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn reasons_have_the_same_names_in_files_and_results() {
    for reason in [
        Reason::Connection,
        Reason::FirstByte,
        Reason::Idle,
        Reason::Whole,
        Reason::Cut,
        Reason::Malformed,
        Reason::TooLong,
        Reason::RateLimited,
        Reason::Server,
        Reason::Refused,
        Reason::Denied,
        Reason::Budget,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
}
