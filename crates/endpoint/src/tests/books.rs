//! The books under any interleaving, and beside the books of providers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flopsmith_config::endpoint::{Retries, Timeouts, seconds};
use proptest::prelude::*;
use tokio::time::timeout;

use super::*;
use crate::ledger::{Refusal, Reservation};

/// A step of a client, with a number that chooses what it is about.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request of this many input and output tokens begins.
    Begin(u64, u64),
    /// One under way is answered: it cost these shares of its reservation, in percent.
    Answer(usize, u64, u64),
    /// One under way fails, at no cost or at the cost of its reservation.
    Fail(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..2000, 0u64..2000).prop_map(|(input, output)| Step::Begin(input, output)),
        (any::<usize>(), 0u64..=100, 0u64..=100).prop_map(|(n, i, o)| Step::Answer(n, i, o)),
        (any::<usize>(), any::<bool>()).prop_map(|(n, costs)| Step::Fail(n, costs)),
    ]
}

proptest! {
    /// In whatever order requests begin, end and fail, and wherever the process is killed.
    #[test]
    fn the_budget_is_never_exceeded_and_sums_are_exact(
        steps in prop::collection::vec(step(), 0..120),
        money in prop::option::of(0u64..40_000),
        tokens in prop::option::of(0u64..20_000),
        (input_price, output_price) in (0u64..20_000_000, 0u64..20_000_000),
    ) {
        let price = Some(Price {
            input: Money::micros(input_price),
            output: Money::micros(output_price),
        });
        let limits = Limits { money: money.map(Money::micros), tokens };
        let mut ledger = Ledger::new(limits, Amount::NOTHING);
        let mut open: Vec<(u32, Reservation)> = Vec::new();
        let mut journal: Vec<Entry> = Vec::new();
        let mut numbers = 0;
        // Sums of tokens, and of costs in 10⁻¹² units.
        let (mut input, mut output) = (0u64, 0u64);
        let write = |number: u32, event: Event, amount: Amount| Entry {
            problem: "dot".into(),
            number,
            attempt: 1,
            event,
            amount,
            assumed: false,
            elapsed_ms: 0,
            reason: None,
            detail: String::new(),
            served: None,
        };
        for step in steps {
            match step {
                Step::Begin(i, o) => {
                    let most = Amount::of(i, o, price);
                    match ledger.reserve(most) {
                        Ok(reservation) => {
                            numbers += 1;
                            journal.push(write(numbers, Event::Reserved, most));
                            open.push((numbers, reservation));
                        }
                        Err(Refusal::Later) => prop_assert!(!open.is_empty()),
                        Err(Refusal::Never(_)) => {
                            let all = ledger.spent().plus(most);
                            let fits = limits.money.is_none_or(|limit| all.cost <= limit)
                                && tokens.is_none_or(|limit| all.tokens() <= limit);
                            prop_assert!(!fits);
                        }
                    }
                }
                Step::Answer(n, i, o) if !open.is_empty() => {
                    let (number, reservation) = open.swap_remove(n % open.len());
                    let most = reservation.amount();
                    let used = (most.input_tokens * i / 100, most.output_tokens * o / 100);
                    let cost = Amount::of(used.0, used.1, price);
                    (input, output) = (input + used.0, output + used.1);
                    journal.push(write(number, Event::Answered, cost));
                    ledger.settle(reservation, cost);
                }
                Step::Fail(n, costs) if !open.is_empty() => {
                    let (number, reservation) = open.swap_remove(n % open.len());
                    let cost = if costs { reservation.amount() } else { Amount::NOTHING };
                    (input, output) = (input + cost.input_tokens, output + cost.output_tokens);
                    journal.push(write(number, Event::Failed, cost));
                    ledger.settle(reservation, cost);
                }
                Step::Answer(..) | Step::Fail(..) => {}
            }
            let (spent, reserved) = (ledger.spent(), ledger.reserved());
            let all = spent.plus(reserved);
            prop_assert!(limits.money.is_none_or(|limit| all.cost <= limit));
            prop_assert!(tokens.is_none_or(|limit| all.tokens() <= limit));
            prop_assert_eq!((spent.input_tokens, spent.output_tokens), (input, output));
            prop_assert_eq!(spent, Amount::of(input, output, price));
            // After a kill, the requests under way count with all that they reserved.
            prop_assert_eq!(Spending::of(&journal).amount, all);
        }
    }
}

#[test]
fn a_request_that_the_budget_refuses_does_not_end_one_of_an_earlier_session() {
    let server = ScriptedEndpoint::acts(Vec::new()).unwrap();
    let mut endpoint = endpoint(&server);
    let most = Amount::of(16 + 512, 100, endpoint.price);
    endpoint.budget.tokens = Some(most.tokens());
    // The process was killed while its request was under way.
    let mut journal = vec![Entry {
        problem: "dot".into(),
        number: 1,
        attempt: 1,
        event: Event::Reserved,
        amount: most,
        assumed: false,
        elapsed_ms: 0,
        reason: None,
        detail: String::new(),
        served: None,
    }];
    let tested = open(&endpoint, &Spending::of(&journal));
    assert_eq!(failed(tested.ask()).0, Reason::Budget);
    journal.extend(tested.entries());
    let spent = Spending::of(&journal);
    assert_eq!(spent.amount, most);
    assert_eq!((spent.requests, spent.failed, spent.assumed), (1, 1, 1));
    // A third session has no room either.
    let again = open(&endpoint, &spent);
    assert_eq!(failed(again.ask()).0, Reason::Budget);
    assert!(server.asked().is_empty());
}

/// Asks of each case of the test below.
const ASKS: u32 = 12;
/// Time that a busy machine may add to a limit. A wait without a limit lasts until the server gives up, after two minutes.
const DELAY: Duration = Duration::from_secs(5);

/// The reaction of a server to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// An answer in pieces.
    Answer,
    /// An answer in one piece.
    Whole,
    /// An answer after so many milliseconds.
    Late(u64),
    /// An answer in pieces, with so many milliseconds before each.
    Slow(u64),
    /// Pieces one after the other for longer than an answer may take.
    Endless,
    /// Pieces, and then nothing.
    Hang,
    /// Nothing.
    Never,
    /// Pieces without an end.
    Cut,
    /// Half of an answer in one piece.
    Half,
    /// JSON without an end in place of an answer.
    Malformed,
    /// The same in place of a piece.
    MalformedPiece,
    /// The connection is closed.
    Close,
    /// Too many requests, with these header lines.
    TooMany(&'static str),
    /// An error, and whether the provider may charge for it.
    Error(u16, bool),
    /// Half of an error of a server that failed.
    HalfError,
    /// Half of the refusal of a filter.
    HalfRefusal,
    /// A gateway's page, and whether the provider behind it may charge for it.
    Page(u16, bool),
}

fn reaction() -> impl Strategy<Value = Reaction> {
    use Reaction::{
        Answer, Close, Cut, Endless, Error, Half, HalfError, HalfRefusal, Hang, Late, Malformed,
        MalformedPiece, Never, Page, Slow, TooMany, Whole,
    };
    prop::sample::select(vec![
        Answer,
        Answer,
        Answer,
        Whole,
        Late(50),
        Late(400),
        Slow(10),
        Slow(100),
        Endless,
        Hang,
        Never,
        Cut,
        Half,
        Malformed,
        MalformedPiece,
        Close,
        TooMany(""),
        TooMany("Retry-After: 0\r\n"),
        TooMany("Retry-After: 1\r\n"),
        Error(500, true),
        Error(408, true),
        Error(503, false),
        Error(400, false),
        Error(403, false),
        HalfError,
        HalfRefusal,
        Page(502, true),
        Page(503, true),
        Page(504, true),
        Page(524, true),
    ])
}

impl Reaction {
    /// True if a provider may charge for the request.
    fn charges(self) -> bool {
        match self {
            Self::TooMany(_) => false,
            Self::Error(_, charges) | Self::Page(_, charges) => charges,
            _ => true,
        }
    }

    /// The act of a server that answers with this text and these numbers of tokens.
    fn act(self, text: &str, used: (u64, u64)) -> Act {
        let millis = Duration::from_millis;
        match self {
            Self::Answer => Act::streamed(text, used),
            Self::Whole => Act::whole(text, used),
            Self::Late(delay) => Act::Late(millis(delay), Box::new(Act::streamed(text, used))),
            Self::Slow(pause) => Act::Slow(millis(pause), Act::events(text, used)),
            Self::Endless => {
                let pieces = (0..100).flat_map(|_| Act::pieces(text));
                Act::Slow(millis(10), pieces.collect())
            }
            Self::Hang => Act::Hang(Act::pieces(text)),
            Self::Never => Act::Never,
            Self::Cut => Act::Cut(Act::pieces(text)),
            Self::Half => Act::Half(200, Act::body(text, used)),
            Self::Malformed => Act::Answer(200, "", r#"{"choices":[{"message":"#.into()),
            Self::MalformedPiece => Act::Stream(vec![r#"{"choices":[{"delta":"#.into()]),
            Self::Close => Act::Close,
            Self::TooMany(headers) => Act::error(429, headers, "slow down"),
            Self::Error(status, _) => Act::error(status, "", "sorry"),
            Self::HalfError => Act::Half(500, r#"{"error":{"message":"sorry"}}"#.into()),
            Self::HalfRefusal => Act::Half(400, r#"{"error":{"code":"content_filter"}}"#.into()),
            Self::Page(status, _) => Act::Answer(status, "", "<html>gateway</html>".into()),
        }
    }
}

/// An ask that has ended.
struct Ended {
    number: u32,
    /// The time since the first one began.
    at: Duration,
    reply: Result<Reply, Error>,
}

/// Asks for all answers, and gives those that ended before `limit`, in the order of their ends.
fn ask_until(tested: &Tested, limit: Duration) -> Vec<Ended> {
    let mut ended = Vec::new();
    let asks = (1..=ASKS).map(ask).collect();
    let began = Instant::now();
    let all = tested.client.ask_all(asks, |ask, reply| {
        ended.push(Ended {
            number: ask.number,
            at: began.elapsed(),
            reply,
        });
        ControlFlow::Continue(())
    });
    let _in_time = runtime().block_on(async move { timeout(limit, all).await });
    ended
}

/// The longest time of an ask that waits for no other one.
fn longest(endpoint: &Endpoint) -> Duration {
    let retries = &endpoint.retries;
    let requests = seconds(endpoint.timeouts.whole_seconds) * (retries.most + 1);
    requests + seconds(retries.longest_wait_seconds) * retries.most
}

/// Each ask has ended once, in time, and for a reason that users know.
fn check_ends(ended: &[Ended], endpoint: &Endpoint) -> Result<(), TestCaseError> {
    let mut numbers: Vec<u32> = ended.iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    prop_assert_eq!(numbers, (1..=ASKS).collect::<Vec<u32>>());
    // The budget or a refused key lets an ask wait while another one is under way: at worst for each of them.
    let turns = match endpoint.concurrency {
        1 => 1,
        _ => ASKS,
    };
    let limit = longest(endpoint) * turns + DELAY;
    for one in ended {
        // The first asks begin together, and each later one when another one ends.
        let place = (one.number as usize).checked_sub(endpoint.concurrency + 1);
        let began = place.map_or(Duration::ZERO, |place| ended[place].at);
        let lasted = one.at.saturating_sub(began);
        prop_assert!(lasted <= limit, "{} lasted {lasted:?}", one.number);
        if let Err(error) = &one.reply {
            prop_assert!(error.reason().is_some(), "{error:?}");
        }
    }
    Ok(())
}

/// Each request is reserved with `most`, and ends once, in time, with a cost that fits its end. Gives the number of those that
/// failed at a cost that is not known.
fn check_journal(
    entries: &[Entry],
    most: Amount,
    endpoint: &Endpoint,
) -> Result<u64, TestCaseError> {
    let limit = seconds(endpoint.timeouts.whole_seconds) + DELAY;
    let mut lost = 0;
    let mut under_way = BTreeMap::new();
    let mut reserved = BTreeSet::new();
    for entry in entries {
        let request = (entry.number, entry.attempt);
        if entry.event == Event::Reserved {
            prop_assert_eq!(entry.amount, most);
            prop_assert!(entry.attempt <= endpoint.retries.most + 1, "{entry:?}");
            prop_assert!(reserved.insert(request), "{entry:?}");
            under_way.insert(request, entry.elapsed_ms);
            continue;
        }
        let Some(began) = under_way.remove(&request) else {
            // The budget refused it, so it was not sent.
            prop_assert_eq!(entry.reason, Some(Reason::Budget));
            prop_assert_eq!(entry.amount, Amount::NOTHING);
            continue;
        };
        let lasted = Duration::from_millis(entry.elapsed_ms.saturating_sub(began));
        prop_assert!(lasted <= limit, "{entry:?} after {lasted:?}");
        if entry.event == Event::Answered {
            prop_assert!(!entry.assumed, "{entry:?}");
            continue;
        }
        let is_free = entry.reason == Some(Reason::RateLimited);
        prop_assert!(!(entry.assumed && is_free), "{entry:?}");
        let cost = match entry.assumed {
            true => most,
            false => Amount::NOTHING,
        };
        prop_assert_eq!(entry.amount, cost);
        lost += u64::from(entry.assumed);
    }
    prop_assert!(under_way.is_empty(), "{under_way:?}");
    Ok(lost)
}

proptest! {
    // Cases take about half a second.
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A provider charges for all on which a model may have worked, also where the answer is late, lost or no answer. No check
    /// depends on which limit ends a request, so a busy machine may end it by another one.
    #[test]
    fn no_provider_charges_more_than_the_books_have_or_the_budget_permits(
        script in prop::collection::vec((reaction(), 0u64..=100, 0u64..=100), 1..24),
        // In millionths for one token.
        (input_price, output_price) in (1u64..10, 1u64..30),
        // In percent of the most that one request can use.
        (money, tokens) in (50u64..2500, prop::option::of(50u64..2500)),
        concurrency in 1usize..7,
        stream in any::<bool>(),
    ) {
        let price = Some(Price {
            input: Money::micros(input_price * 1_000_000),
            output: Money::micros(output_price * 1_000_000),
        });
        // The prompt with the template, and the limit on the answer.
        let most = Amount::of(16 + 512, 100, price);
        let micros = move |used: (u64, u64)| used.0 * input_price + used.1 * output_price;
        let most_micros = micros((most.input_tokens, most.output_tokens));
        let script: Arc<[(Reaction, (u64, u64))]> = script
            .into_iter()
            .map(|(reaction, input, output)| {
                (reaction, (most.input_tokens * input / 100, most.output_tokens * output / 100))
            })
            .collect();
        let charged = Arc::new(AtomicU64::new(0));
        let (charging, following) = (Arc::clone(&charged), Arc::clone(&script));
        let server = ScriptedEndpoint::start(move |asked| {
            let (reaction, used) = following[asked.number % following.len()];
            if reaction.charges() {
                charging.fetch_add(micros(used), Ordering::SeqCst);
            }
            // An answer says to which request it belongs.
            reaction.act(&asked.number.to_string(), used)
        });
        let server = server.unwrap();
        let mut endpoint = endpoint(&server);
        endpoint.concurrency = concurrency;
        endpoint.stream = stream;
        endpoint.timeouts = Timeouts {
            first_byte_seconds: 0.2,
            idle_seconds: 0.05,
            whole_seconds: 0.3,
            ..Timeouts::default()
        };
        endpoint.retries = Retries {
            most: 2,
            first_wait_seconds: 0.01,
            longest_wait_seconds: 0.02,
        };
        endpoint.price = price;
        let budget = most_micros * money / 100;
        let token_budget = tokens.map(|share| most.tokens() * share / 100);
        endpoint.budget = Budget {
            money: Some(Money::micros(budget)),
            tokens: token_budget,
            ..Budget::default()
        };
        let tested = open(&endpoint, &Spending::default());

        let ended = ask_until(&tested, longest(&endpoint) * ASKS + DELAY);
        check_ends(&ended, &endpoint)?;
        let lost = check_journal(&tested.entries(), most, &endpoint)?;

        // No request answers two asks, and each answer costs as much as the server counted.
        let mut answered = BTreeSet::new();
        let mut counted = 0;
        for reply in ended.iter().filter_map(|one| one.reply.as_ref().ok()) {
            let request: usize = reply.text.parse().unwrap();
            prop_assert!(answered.insert(request), "{request} answers twice");
            let (_, used) = script[request % script.len()];
            prop_assert_eq!(reply.amount, Amount::of(used.0, used.1, price));
            counted += micros(used);
        }
        // The books have each other request that the provider may charge for as lost, whatever the sums are.
        let unanswered = (0..server.asked().len()).filter(|request| {
            script[request % script.len()].0.charges() && !answered.contains(request)
        });
        let unanswered = unanswered.count() as u64;
        prop_assert!(unanswered <= lost, "{unanswered} without an answer, {lost} in the books");

        let (charged, spent) = (charged.load(Ordering::SeqCst), tested.client.spent());
        prop_assert_eq!(spent.cost, Money::micros(counted + lost * most_micros));
        prop_assert!(Money::micros(charged) <= spent.cost, "{charged} charged, {spent:?}");
        prop_assert!(spent.cost <= Money::micros(budget), "{spent:?} of {budget}");
        prop_assert!(token_budget.is_none_or(|limit| spent.tokens() <= limit), "{spent:?}");
        tested.assert_consistent();
    }
}
