//! Refusals of all requests and of single ones, and what users hear of failures.

use super::*;

/// The reason of each answer that failed, by its number.
fn failures(ended: Vec<(u32, Result<Reply, Error>)>) -> Vec<(u32, Reason)> {
    let all = ended.into_iter().filter(|(_, reply)| reply.is_err());
    all.map(|(number, reply)| (number, failed(reply).0))
        .collect()
}

fn one_at_a_time(server: &ScriptedEndpoint) -> Endpoint {
    let mut endpoint = endpoint(server);
    endpoint.concurrency = 1;
    endpoint
}

#[test]
fn a_refusal_after_an_answer_ends_its_request_alone() {
    for status in [401, 403, 404] {
        let server = ScriptedEndpoint::start(move |asked| match asked.number {
            1 => Act::error(status, "", "your input was flagged"),
            _ => Act::streamed("int x;", (10, 20)),
        });
        let server = server.unwrap();
        let tested = open(&one_at_a_time(&server), &Spending::default());
        assert_eq!(
            failures(tested.ask_all(4)),
            [(2, Reason::Denied)],
            "{status}"
        );
        assert!(!tested.client.is_denied());
        assert_eq!(server.asked().len(), 4);
        tested.assert_consistent();
    }
}

#[test]
fn a_refusal_before_any_answer_waits_for_the_requests_under_way() {
    for is_good in [true, false] {
        // The first two requests are under way together. One is refused, and the other one ends once the client knows that.
        let both = Barrier::new(2);
        let refused = Arc::new(Barrier::new(2));
        let seen = Arc::clone(&refused);
        let server = ScriptedEndpoint::start(move |asked| {
            if asked.number < 2 {
                both.wait();
            }
            if asked.number == 0 {
                seen.wait();
            }
            match is_good && asked.number != 1 {
                true => Act::streamed("int x;", (10, 20)),
                false => Act::error(403, "", "no"),
            }
        });
        let server = server.unwrap();
        let mut endpoint = endpoint(&server);
        endpoint.concurrency = 2;
        let tested = open(&endpoint, &Spending::default());
        let mut ended = Vec::new();
        let asks = (1..=6).map(ask).collect();
        runtime().block_on(tested.client.ask_all(asks, |ask, reply| {
            if ended.is_empty() {
                refused.wait();
            }
            ended.push((ask.number, reply));
            ControlFlow::Continue(())
        }));
        assert_eq!(ended.len(), 6);
        assert_eq!(tested.client.is_denied(), !is_good);
        let ended = failures(ended);
        let (failed, sent) = if is_good { (1, 6) } else { (6, 2) };
        assert_eq!(ended.len(), failed, "{ended:?}");
        assert_eq!(server.asked().len(), sent);
        tested.assert_consistent();
    }
}

#[test]
fn a_session_that_asks_again_for_a_refused_answer_does_not_end() {
    let refuses = |status| ScriptedEndpoint::acts(vec![Act::error(status, "", "no")]).unwrap();
    let before = Spending {
        requests: 2,
        failed: 1,
        ..Spending::default()
    };
    let server = refuses(403);
    let tested = open(&one_at_a_time(&server), &before);
    assert_eq!(failures(tested.ask_all(3)).len(), 3);
    assert!(!tested.client.is_denied());
    assert_eq!(server.asked().len(), 3);
    // A key may have been withdrawn in between.
    let server = refuses(401);
    let tested = open(&one_at_a_time(&server), &before);
    assert_eq!(failures(tested.ask_all(3)).len(), 3);
    assert!(tested.client.is_denied());
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn repetitions_are_told_with_their_cause_before_the_wait() {
    let server = ScriptedEndpoint::acts(vec![Act::Never]).unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.retries.most = 2;
    endpoint.concurrency = 4;
    drop(server);
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let mut tested = open(&endpoint, &Spending::default());
    tested.client = tested
        .client
        .telling(Box::new(move |repetition: &Repetition| {
            heard.lock().unwrap().push(repetition.clone());
        }));
    let ended = failures(tested.ask_all(8));
    assert!(
        ended
            .iter()
            .all(|(_, reason)| *reason == Reason::Connection)
    );
    assert_eq!(ended.len(), 8);
    // Sixteen repetitions, of which two say all.
    let told = told.lock().unwrap();
    let numbers: Vec<(u32, u32)> = told.iter().map(|r| (r.attempt, r.left)).collect();
    assert_eq!(numbers, [(1, 2), (2, 1)]);
    let words = told[0].to_string();
    for part in [
        "the server cannot be reached: ",
        "tried again in 0.0 s",
        "2 times",
    ] {
        assert!(words.contains(part), "{words}");
    }
}
