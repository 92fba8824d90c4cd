//! A cluster at a moment, and how the newest outcomes tell its nodes.

use std::collections::{BTreeMap, VecDeque};

use flopsmith_protocol::{MachineClass, NodeId, Outcome, RunSpec, Verdict};
use serde::Serialize;

use super::runs::{self, Run, Runs};
use crate::console::{Column, table};
use crate::digits::{four, percent};

/// Rates refer to this time, milliseconds.
const WINDOW_MS: u64 = 60_000;
/// A node without an outcome for this long is no longer shown, milliseconds.
const GONE_MS: u64 = 600_000;
/// Most outcomes that are kept, the newest. It bounds memory where the clock of a node is ahead.
const MOST: usize = 50_000;
/// Number of the newest measurements of a node that its noise is judged by.
const MEASUREMENTS: usize = 64;

/// A cluster at a moment.
#[derive(Debug, Serialize)]
pub struct Board {
    /// Version of the broker.
    pub server: String,
    /// Runs that nodes may work for.
    pub runs: Vec<Run>,
    /// How full the queues are.
    pub queues: Vec<Queue>,
    /// The programs of the last minute, counted by verdict.
    pub verdicts: BTreeMap<&'static str, u64>,
    /// The nodes that decided programs.
    pub nodes: Vec<Node>,
    /// Messages that no role could process.
    pub dead_letters: u64,
    /// Outcomes that are kept.
    pub outcomes: u64,
}

/// A queue.
#[derive(Debug, Serialize)]
pub struct Queue {
    /// The stage that takes its messages.
    pub stage: String,
    /// For whom they are.
    pub class: String,
    /// Messages that no worker holds.
    pub waiting: u64,
    /// Messages that a worker holds.
    pub in_hand: u64,
    /// Age of the oldest; none where it is empty.
    pub oldest_seconds: Option<f64>,
}

/// A node, as its outcomes tell.
#[derive(Debug, Serialize, PartialEq)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// The machine class of its last outcome.
    pub class: String,
    /// Programs it decided in the last minute.
    pub last_minute: u64,
    /// Of those, failures that no program is to blame for.
    pub failures: u64,
    /// Since its last outcome, seconds.
    pub silent_seconds: f64,
    /// The fastest program that it has measured of those looked at, 10⁹ operations a second.
    pub best_gflops: Option<f64>,
    /// Median over its newest measurements of the deviation of call times, as a share of the median call; none without a
    /// measurement.
    pub noise: Option<f64>,
    /// Of these measurements, the share that did not become precise; none without one.
    pub imprecise: Option<f64>,
}

/// The newest outcomes.
#[derive(Debug, Default)]
pub struct Recent {
    /// Time, node and verdict of each outcome.
    last: VecDeque<(u64, NodeId, &'static str)>,
    nodes: BTreeMap<NodeId, NodeOutcomes>,
    runs: Runs,
}

/// The outcomes of a node.
#[derive(Debug)]
struct NodeOutcomes {
    /// Time of the last one.
    last_unix_ms: u64,
    class: MachineClass,
    best: Option<f64>,
    /// Deviation of the call times of its newest measurements, and whether each is precise.
    measured: VecDeque<(f64, bool)>,
}

impl NodeOutcomes {
    fn noise(&self) -> Option<f64> {
        let mut noise: Vec<f64> = self.measured.iter().map(|(noise, _)| *noise).collect();
        noise.sort_by(f64::total_cmp);
        noise.get(noise.len() / 2).copied()
    }

    fn imprecise(&self) -> Option<f64> {
        let imprecise = self.measured.iter().filter(|(_, precise)| !precise).count();
        let all = self.measured.len();
        (all > 0).then(|| imprecise as f64 / all as f64)
    }
}

impl Recent {
    /// Counts an outcome.
    pub fn note(&mut self, outcome: &Outcome) {
        self.runs.note(outcome);
        let at = outcome.decided_unix_ms;
        let of_node = self.nodes.entry(outcome.node.clone());
        let of_node = of_node.or_insert_with(|| NodeOutcomes {
            last_unix_ms: at,
            class: outcome.machine_class.clone(),
            best: None,
            measured: VecDeque::new(),
        });
        if at >= of_node.last_unix_ms {
            of_node.last_unix_ms = at;
            of_node.class = outcome.machine_class.clone();
        }
        if let Some(measurement) = outcome.verdict.measurement() {
            // An unconverged measurement may be wrong by any factor.
            let faster = of_node.best.is_none_or(|best| best < measurement.gflops);
            if measurement.converged() && faster {
                of_node.best = Some(measurement.gflops);
            }
            // A cached measurement was made earlier, perhaps by another node.
            if !measurement.reused {
                let noise = (measurement.mdape, measurement.converged());
                of_node.measured.push_back(noise);
                if of_node.measured.len() > MEASUREMENTS {
                    of_node.measured.pop_front();
                }
            }
        }
        if outcome.asked().is_some() {
            // No program, and nothing that this node failed at.
            return;
        }
        let kind = match &outcome.verdict {
            Verdict::Measured { .. } => "measured",
            Verdict::Rejected { .. } => "rejected",
            Verdict::Infrastructure { .. } => "infrastructure",
            Verdict::Unknown { .. } => "unknown",
        };
        self.last.push_back((at, outcome.node.clone(), kind));
        // The clocks of nodes differ, so the outcomes are only nearly sorted by time.
        while self.last.len() > MOST
            || self
                .last
                .front()
                .is_some_and(|(first, ..)| first.saturating_add(GONE_MS) < at)
        {
            self.last.pop_front();
        }
    }

    /// The runs that the bus knows, with their state from the outcomes. Others are forgotten some time after their last outcome.
    pub fn runs(&mut self, known: &[RunSpec], now_unix_ms: u64) -> Vec<Run> {
        self.runs.forget(known, now_unix_ms.saturating_sub(GONE_MS));
        known
            .iter()
            .map(|spec| self.runs.run(spec, now_unix_ms))
            .collect()
    }

    fn of_window(&self, now: u64) -> impl Iterator<Item = &(u64, NodeId, &'static str)> {
        self.last
            .iter()
            .filter(move |(at, ..)| now.saturating_sub(*at) <= WINDOW_MS)
    }

    /// Number of programs of the last minute by verdict.
    pub fn verdicts(&self, now_unix_ms: u64) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (_, _, kind) in self.of_window(now_unix_ms) {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }

    /// The nodes with an outcome in the last ten minutes.
    pub fn nodes(&self, now_unix_ms: u64) -> Vec<Node> {
        let mut nodes: BTreeMap<&NodeId, Node> = self
            .nodes
            .iter()
            .filter(|(_, of_node)| now_unix_ms.saturating_sub(of_node.last_unix_ms) <= GONE_MS)
            .map(|(node, of_node)| {
                let silent = now_unix_ms.saturating_sub(of_node.last_unix_ms);
                let known = Node {
                    node: node.to_string(),
                    class: of_node.class.to_string(),
                    last_minute: 0,
                    failures: 0,
                    silent_seconds: silent as f64 / 1000.0,
                    best_gflops: of_node.best,
                    noise: of_node.noise(),
                    imprecise: of_node.imprecise(),
                };
                (node, known)
            })
            .collect();
        for (_, node, kind) in self.of_window(now_unix_ms) {
            if let Some(known) = nodes.get_mut(node) {
                known.last_minute += 1;
                known.failures += u64::from(matches!(*kind, "infrastructure" | "unknown"));
            }
        }
        nodes.into_values().collect()
    }
}

impl Board {
    /// The display as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let verdicts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let mut lines = vec![
            format!(
                "nats-server {}, {} outcomes kept, {}",
                self.server,
                self.outcomes,
                match self.dead_letters {
                    0 => "no dead letters".to_owned(),
                    some => format!("{some} dead letters: `flopsmith dead list` shows them"),
                }
            ),
            format!(
                "last minute: {}",
                match verdicts.is_empty() {
                    true => "no program was decided".to_owned(),
                    false => verdicts.join(", "),
                }
            ),
            String::new(),
        ];
        lines.extend(runs::lines(&self.runs));
        lines.push(String::new());
        lines.extend(table(&Queue::COLUMNS, self.queues.iter().map(Queue::cells)));
        lines.push(String::new());
        lines.extend(table(&Node::COLUMNS, self.nodes.iter().map(Node::cells)));
        if self.nodes.is_empty() {
            lines.push("no node sent an outcome in the last ten minutes".to_owned());
        }
        lines
    }
}

impl Queue {
    /// The headings of [`Queue::cells`], and which of them are above numbers.
    pub const COLUMNS: [Column<'static>; 5] = [
        ("queue", false),
        ("class", false),
        ("waiting", true),
        ("in hand", true),
        ("oldest", true),
    ];

    /// The row of the queue.
    pub fn cells(&self) -> Vec<String> {
        vec![
            self.stage.clone(),
            self.class.clone(),
            self.waiting.to_string(),
            self.in_hand.to_string(),
            self.oldest_seconds.map_or_else(|| "–".into(), age),
        ]
    }
}

impl Node {
    /// The headings of [`Node::cells`], and which of them are above numbers.
    pub const COLUMNS: [Column<'static>; 7] = [
        ("node", false),
        ("class", false),
        ("a minute", true),
        ("failed", true),
        ("silent", true),
        ("best", true),
        ("noise", true),
    ];

    /// The row of the node.
    pub fn cells(&self) -> Vec<String> {
        vec![
            self.node.clone(),
            self.class.clone(),
            self.last_minute.to_string(),
            self.failures.to_string(),
            age(self.silent_seconds),
            self.best_gflops.map_or_else(|| "–".into(), four),
            self.noise.map_or_else(|| "–".into(), percent),
        ]
    }
}

/// A time in one unit: seconds, minutes or hours.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{InfrastructureCause, Request};
    use flopsmith_test_support::{
        Measured, asked, candidate, infrastructure, measured, outcome, wrong,
    };

    use super::*;

    fn at(ms: u64, node: &str, verdict: Verdict) -> Outcome {
        Outcome {
            decided_unix_ms: ms,
            node: NodeId::new(node).unwrap(),
            ..outcome(candidate(0, 0, 0), verdict)
        }
    }

    #[test]
    fn nodes_are_listed_once_heard_of_and_rates_are_of_the_last_minute() {
        let mut recent = Recent::default();
        let now = 1_000_000_000;
        recent.note(&at(now - 700_000, "gone", measured(90.0)));
        recent.note(&at(now - 300_000, "a", measured(50.0)));
        recent.note(&at(now - 30_000, "a", measured(40.0)));
        recent.note(&at(now - 10_000, "b", wrong()));
        let unsure = Measured::at(300.0).se(0.5).unconverged().verdict();
        recent.note(&at(now - 20_000, "a", unsure));
        let jail = infrastructure(InfrastructureCause::Jail);
        recent.note(&at(now - 5_000, "a", jail));
        let document = "gemm.md".to_owned();
        let request = asked(candidate(0, 0, 1), Request::Read { document });
        recent.note(&Outcome {
            request: request.request,
            ..at(now - 5_000, "a", request.verdict)
        });
        let verdicts = recent.verdicts(now);
        assert_eq!(
            verdicts.into_iter().collect::<Vec<_>>(),
            [("infrastructure", 1), ("measured", 2), ("rejected", 1)]
        );
        let nodes = recent.nodes(now);
        let short: Vec<_> = nodes
            .iter()
            .map(|n| (n.node.as_str(), n.last_minute, n.failures, n.best_gflops))
            .collect();
        assert_eq!(
            short,
            [("a", 3, 1, Some(50.0)), ("b", 1, 0, None)],
            "{nodes:?}"
        );
        assert_eq!(nodes[0].silent_seconds, 5.0);
        // Three measurements of 1 %, one of them not precise; no program of the other node was measured.
        let noise: Vec<_> = nodes.iter().map(|n| (n.noise, n.imprecise)).collect();
        assert_eq!(noise, [(Some(0.01), Some(1.0 / 3.0)), (None, None)]);
        assert_eq!(
            nodes[0].class,
            flopsmith_test_support::machine_class().as_str()
        );
    }

    #[test]
    fn a_node_whose_clock_is_ahead_and_runs_that_ended_take_no_more_memory() {
        let mut recent = Recent::default();
        let now = 1_000_000_000;
        recent.note(&at(now + 86_400_000, "ahead", wrong()));
        let early = at(now, "a", wrong());
        for _ in 0..MOST {
            recent.note(&early);
        }
        assert_eq!(recent.last.len(), MOST);
        assert!(recent.runs(&[], now + 90_000_000).is_empty());
        let kept = format!("{:?}", recent.runs);
        assert_eq!(kept, format!("{:?}", Runs::default()));
    }

    #[test]
    fn an_idle_cluster_is_said_to_be_idle() {
        let board = Board {
            server: "2.12".into(),
            runs: Vec::new(),
            queues: vec![Queue {
                stage: "time".into(),
                class: "zen5".into(),
                waiting: 12,
                in_hand: 3,
                oldest_seconds: Some(600.0),
            }],
            verdicts: BTreeMap::new(),
            nodes: Vec::new(),
            dead_letters: 2,
            outcomes: 0,
        };
        let text = board.lines().join("\n");
        for part in [
            "2 dead letters",
            "no program was decided",
            "no run is known",
            "10 min",
            "no node sent an outcome",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
