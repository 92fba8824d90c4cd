//! Faults of a cluster. Each seed draws its own frequency for each kind of fault; some kinds are frequent and others
//! absent.

use crate::config::{Config, Mutation, terms};
use crate::event::Event;
use crate::fact::Fact;
use crate::message::{MILLI, Micros, NodeId, SECOND, Work, micros, span};
use crate::node::Cut;
use crate::program::mix;
use crate::random::Chance;
use crate::world::World;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident: $told:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[doc = $doc])+ $name,)+ }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name in reports.
            pub fn told(self) -> &'static str {
                match self { $(Self::$name => $told,)+ }
            }
        }
    };
}

kinds! {
    /// A process is killed, and restarted after a while.
    NodeKilled: "nodes killed",
    /// The broker is killed, and restarted after a while.
    BrokerKilled: "broker killed",
    /// The artifact store does not answer for a while.
    StoreAway: "store away",
    /// A node is cut off from the broker, for 1 to 30 s.
    CutOff: "nodes cut off",
    /// A process is suspended, and then continues without noticing.
    StoodStill: "nodes stood still",
    /// The broker's disk is full for a while.
    DiskFull: "disk full",
    /// A role fails by itself.
    RoleFailed: "roles failed",
    /// A packet, or the confirmation of its arrival, is lost.
    Lost: "packets lost",
    /// A packet comes late.
    Late: "packets late",
    /// A packet comes twice.
    Twice: "packets twice",
    /// A stage panicked while it worked on a message.
    Dropped: "jobs dropped",
    /// A stage does not finish for minutes.
    Hung: "jobs hung",
    /// A stage failed at a message for a reason of its own.
    StageFailure: "stage failures",
}

/// How often each fault occurs, and until when.
#[derive(Debug)]
pub(crate) struct Faults {
    until: Micros,
    seed: u64,
    /// Kinds that strike at random times, one after the other.
    sudden: Vec<Kind>,
    mean: Micros,
    /// Number of nodes that one such fault strikes.
    strikes: usize,
    lost: u32,
    late: u32,
    twice: u32,
    dropped: u32,
    hung: u32,
    stage_failures: u32,
    /// One in this many messages makes every worker drop it. None: no message does.
    poison: Option<u64>,
    /// The dedupe window of the broker.
    pub window: Micros,
    pub counts: [u64; Kind::ALL.len()],
}

/// The dedupe window of a real bus. Within this time the broker recognizes a message that is published again.
const LONG_WINDOW: Micros = 7_200 * SECOND;

impl Faults {
    pub fn drawn(config: &Config, seed: u64, chance: &mut Chance) -> Self {
        let calm = config.faults_for == 0;
        let sudden = [
            Kind::NodeKilled,
            Kind::BrokerKilled,
            Kind::StoreAway,
            Kind::CutOff,
            Kind::StoodStill,
            Kind::DiskFull,
            Kind::RoleFailed,
        ];
        let sudden: Vec<Kind> = sudden
            .into_iter()
            .filter(|kind| {
                let drawn = chance.one_in_million(600_000);
                !calm && (drawn && config.only.is_empty() || config.only.contains(kind))
            })
            .collect();
        let mut often = |kind: Kind, some: [u32; 4]| {
            let drawn = some[chance.below(4)];
            let wanted = config.only.is_empty() || config.only.contains(&kind);
            if calm || !wanted { 0 } else { drawn }
        };
        let (lost, late, twice) = (
            often(Kind::Lost, [0, 200, 3_000, 20_000]),
            often(Kind::Late, [0, 200, 3_000, 20_000]),
            often(Kind::Twice, [0, 200, 3_000, 20_000]),
        );
        let (dropped, hung, stage_failures) = (
            often(Kind::Dropped, [0, 500, 5_000, 30_000]),
            often(Kind::Hung, [0, 0, 2_000, 10_000]),
            often(Kind::StageFailure, [0, 500, 5_000, 50_000]),
        );
        let poison = often(Kind::Dropped, [0, 0, 40, 150]);
        let window = match chance.below(4) {
            0 if !calm => 3 * SECOND,
            1 if !calm => 30 * SECOND,
            _ => LONG_WINDOW,
        };
        let nodes = config.roles().len();
        Self {
            until: config.faults_for,
            seed,
            sudden,
            mean: chance.spread(400 * MILLI, 15 * SECOND),
            strikes: 1 + nodes / 100,
            lost,
            late,
            twice,
            dropped,
            hung,
            stage_failures,
            poison: (poison > 0).then_some(u64::from(poison)),
            window,
            counts: [0; Kind::ALL.len()],
        }
    }

    fn happens(&mut self, kind: Kind, now: Micros, in_million: u32, chance: &mut Chance) -> bool {
        let happens = now < self.until && chance.one_in_million(in_million);
        if happens {
            self.note(kind);
        }
        happens
    }

    pub fn note(&mut self, kind: Kind) {
        self.counts[kind as usize] += 1;
    }

    pub fn loses(&mut self, now: Micros, chance: &mut Chance) -> bool {
        self.happens(Kind::Lost, now, self.lost, chance)
    }

    pub fn delays(&mut self, now: Micros, chance: &mut Chance) -> Option<Micros> {
        self.happens(Kind::Late, now, self.late, chance)
            .then(|| chance.spread(10 * MILLI, 8 * SECOND))
    }

    pub fn repeats(&mut self, now: Micros, chance: &mut Chance) -> bool {
        self.happens(Kind::Twice, now, self.twice, chance)
    }

    pub fn hangs(&mut self, now: Micros, chance: &mut Chance) -> bool {
        self.happens(Kind::Hung, now, self.hung, chance)
    }

    pub fn fails(&mut self, now: Micros, chance: &mut Chance) -> bool {
        self.happens(Kind::StageFailure, now, self.stage_failures, chance)
    }

    /// True if the worker drops this message. Some messages are dropped by every worker, always.
    pub fn drops(&mut self, now: Micros, work: &Work, chance: &mut Chance) -> bool {
        let poisonous = self.poison.is_some_and(|one_in| {
            let drawn = mix(&[self.seed, work.queue as u64, u64::from(work.number), 5]);
            drawn.is_multiple_of(one_in)
        });
        if poisonous {
            self.note(Kind::Dropped);
        }
        poisonous || self.happens(Kind::Dropped, now, self.dropped, chance)
    }
}

impl World {
    /// Plans the next fault that strikes at a random time.
    pub(crate) fn await_fault(&mut self) {
        let wait = self
            .chance
            .between(self.faults.mean / 4, self.faults.mean * 7 / 4);
        let at = self.now + wait;
        if at < self.faults.until && !self.faults.sudden.is_empty() {
            self.agenda.plan(at, Event::Fault);
        }
    }

    pub(crate) fn strike(&mut self) {
        let kind = self.faults.sudden[self.chance.below(self.faults.sudden.len())];
        match kind {
            Kind::BrokerKilled => self.kill_broker(),
            Kind::StoreAway if self.store.up => {
                self.faults.note(kind);
                self.store.up = false;
                let back = self.now + self.chance.spread(SECOND, 20 * SECOND);
                self.agenda.plan(back, Event::StoreUp);
            }
            Kind::DiskFull if !self.broker.full => {
                self.faults.note(kind);
                self.broker.full = true;
                let back = self.now + self.chance.spread(SECOND, 20 * SECOND);
                self.agenda.plan(back, Event::DiskFree);
            }
            Kind::StoreAway | Kind::DiskFull => {}
            _ => {
                let (rare, all): (Vec<NodeId>, usize) =
                    (self.config.rare().collect(), self.nodes.len());
                for strike in 0..self.faults.strikes {
                    // Few nodes have a role that exists once per run. These nodes are struck as often as all others
                    // together.
                    let node = match strike == 0 && self.chance.one_in_million(500_000) {
                        true => rare[self.chance.below(rare.len())],
                        false => NodeId(self.chance.below(all) as u32),
                    };
                    self.strike_node(node, kind);
                }
            }
        }
        self.await_fault();
    }

    fn strike_node(&mut self, node: NodeId, kind: Kind) {
        let there = self.node(node);
        if !there.up || there.cut.is_some() || there.stands_until > self.now {
            return;
        }
        self.faults.note(kind);
        self.facts.push(Fact::Disturbed { node });
        match kind {
            Kind::CutOff => {
                let lasts = self.chance.spread(SECOND, 30 * SECOND);
                // The client notices a dead connection within nine seconds. A longer cut therefore loses the
                // connection. Half of the shorter cuts do too; in the other half the packets arrive after the cut.
                let loses = lasts > 9 * SECOND || self.chance.one_in_million(500_000);
                let (now, until) = (self.now, self.now + lasts);
                let notices = self.chance.between(6 * SECOND, 9 * SECOND);
                let there = self.node_mut(node);
                there.cuts += 1;
                let cut = there.cuts;
                there.cut = Some(Cut {
                    number: cut,
                    until,
                    loses,
                });
                there.connected &= !loses;
                there.unnoticed_until = match loses {
                    true => now + notices,
                    false => 0,
                };
                self.agenda.plan(until, Event::Heal { node, cut });
            }
            Kind::StoodStill => {
                let until = self.now + self.chance.spread(SECOND, 30 * SECOND);
                self.node_mut(node).stands_until = until;
            }
            Kind::RoleFailed => self.role_failed(node),
            _ => {
                let down = self.chance.spread(200 * MILLI, 20 * SECOND);
                self.kill_node(node, down);
            }
        }
    }

    fn kill_broker(&mut self) {
        if !self.broker.up {
            return;
        }
        self.faults.note(Kind::BrokerKilled);
        let forgets = self.config.has(Mutation::BrokerForgetsConfirmed);
        let mut out = Vec::new();
        self.broker
            .kill(self.now, forgets, &mut self.chance, &mut out);
        self.perform(out);
        for node in 0..self.nodes.len() {
            let node = NodeId(node as u32);
            self.node_mut(node).connected = false;
            self.facts.push(Fact::Disturbed { node });
        }
        let back = self.now + self.chance.spread(100 * MILLI, 5 * SECOND);
        self.agenda.plan(back, Event::BrokerUp);
    }

    pub(crate) fn broker_up(&mut self) {
        let mut out = Vec::new();
        self.broker.restart(self.now, &mut out);
        self.perform(out);
        for node in 0..self.nodes.len() {
            self.plan_reconnect(NodeId(node as u32));
        }
    }

    pub(crate) fn plan_reconnect(&mut self, node: NodeId) {
        let at = self.now + self.chance.between(20 * MILLI, 2 * SECOND);
        self.agenda.plan(at, Event::Reconnect { node });
    }

    pub(crate) fn heal(&mut self, node: NodeId, cut: u32) {
        let there = self.node_mut(node);
        if there.cut.is_some_and(|there| there.number == cut) {
            there.cut = None;
            self.facts.push(Fact::Disturbed { node });
            if !self.node(node).connected {
                self.plan_reconnect(node);
            }
        }
    }

    pub(crate) fn reconnect(&mut self, node: NodeId) {
        let broker_up = self.broker.up;
        let there = self.node_mut(node);
        let cut_off = there.cut.is_some_and(|cut| cut.loses);
        if !broker_up || there.connected || cut_off {
            return;
        }
        there.connected = true;
        there.epoch += 1;
        there.inbox += 1;
        there.outstanding = 0;
        self.facts.push(Fact::Disturbed { node });
        self.flush(node);
        if self.node(node).up {
            self.resume_requests(node);
            if !self.config.has(Mutation::DoesNotAskAnew) {
                self.ask_for_work(node);
            }
        }
    }

    /// A role failed: its held messages are dropped, and the role restarts after a while.
    pub(crate) fn role_failed(&mut self, node: NodeId) {
        if !self.node(node).up {
            return;
        }
        self.role_failures += 1;
        let numbers: Vec<u32> = self.node(node).jobs.keys().copied().collect();
        // A falling role requests no messages.
        self.node_mut(node).up = false;
        for number in numbers {
            self.drop_job(node, number);
        }
        let now = self.now;
        let there = self.node_mut(node);
        there.forget_role();
        let wait = if there.connected {
            match there.fell.add(span(now), &terms::ROLES) {
                Some(delay) => micros(delay),
                None => {
                    there.new_process();
                    terms::PAUSE
                }
            }
        } else {
            micros(terms::ROLES.outage)
        };
        self.plan_start(node, wait);
    }

    /// A process lost its lease, by a refused write or by silence. It waits for a while before it competes for the
    /// lease again.
    pub(crate) fn replaced(&mut self, node: NodeId, refused: bool) {
        if let Some(single) = self.single(node) {
            let holder = self.node(node).holder();
            let still_its_own = self.broker.kv.record(single).holder == Some(holder);
            self.losses.leases += 1;
            self.losses.to_nobody += u64::from(still_its_own);
            self.losses.to_its_own_write += u64::from(still_its_own && refused);
        }
        let there = self.node_mut(node);
        there.up = false;
        there.forget_role();
        self.plan_start(node, terms::PAUSE);
    }

    fn kill_node(&mut self, node: NodeId, down: Micros) {
        let there = self.node_mut(node);
        there.up = false;
        there.forget_role();
        there.new_process();
        there.unsent.clear();
        let inbox = there.inbox;
        // The end of the connection tells the server that the node's inbox has no subscriber.
        self.broker.work.listen(node, inbox);
        self.plan_start(node, down);
    }

    fn plan_start(&mut self, node: NodeId, wait: Micros) {
        let life = self.node(node).life;
        self.agenda
            .plan(self.now + wait, Event::Start { node, life });
    }
}
