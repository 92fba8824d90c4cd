//! The books under any interleaving, and beside the books of providers.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

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

/// The reaction of a server to a request, and whether its provider may charge for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Answer,
    Error(u16, bool),
    /// A gateway's page.
    Page(u16, bool),
    Cut,
    Close,
}

fn reaction() -> impl Strategy<Value = Reaction> {
    use Reaction::{Answer, Close, Cut, Error, Page};
    prop::sample::select(vec![
        Answer,
        Cut,
        Close,
        Page(502, true),
        Page(504, true),
        Page(503, true),
        Page(524, true),
        Error(500, true),
        Error(408, true),
        Error(503, false),
        Error(429, false),
        Error(400, false),
        Error(403, false),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A provider charges for all on which a model may have worked, also where a gateway lost the answer.
    #[test]
    fn no_provider_charges_more_than_the_books_have_or_the_budget_permits(
        reactions in prop::collection::vec((reaction(), 0u64..=100, 0u64..=100), 1..12),
        budget in 628u64..4000,
        concurrency in 1usize..4,
    ) {
        // The prompt with the template, and the limit on the answer.
        let most = Amount::of(16 + 512, 100, None);
        let charged = Arc::new(AtomicU64::new(0));
        let charging = Arc::clone(&charged);
        let server = ScriptedEndpoint::start(move |asked| {
            let (reaction, input, output) = reactions[asked.number % reactions.len()];
            let used = (most.input_tokens * input / 100, most.output_tokens * output / 100);
            let charges = match reaction {
                Reaction::Answer | Reaction::Cut | Reaction::Close => true,
                Reaction::Error(_, charges) | Reaction::Page(_, charges) => charges,
            };
            if charges {
                charging.fetch_add(used.0 + used.1, Ordering::SeqCst);
            }
            match reaction {
                Reaction::Answer => Act::streamed("int x;", used),
                Reaction::Error(status, _) => Act::error(status, "", "sorry"),
                Reaction::Page(status, _) => Act::Answer(status, "", "<html>gateway</html>".into()),
                Reaction::Cut => Act::Cut(Act::pieces("int x")),
                Reaction::Close => Act::Close,
            }
        });
        let server = server.unwrap();
        let mut endpoint = endpoint(&server);
        endpoint.concurrency = concurrency;
        endpoint.budget.tokens = Some(budget);
        endpoint.retries.most = 2;
        let tested = open(&endpoint, &Spending::default());
        prop_assert_eq!(tested.ask_all(12).len(), 12);
        let (charged, spent) = (charged.load(Ordering::SeqCst), tested.client.spent().tokens());
        prop_assert!(charged <= spent, "{charged} charged, {spent} in the books");
        prop_assert!(spent <= budget, "{spent} of {budget}");
        tested.assert_consistent();
    }
}
