//! The subjects that the holder of a key may publish and subscribe to on the bus: only those that its roles need.
//!
//! A node that times runs untrusted programs. If a program ever escapes its jail, it finds a key that takes timing work
//! of one class and publishes the outcomes, and that cannot read another node's answers.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};

use flopsmith_actors::role_lease;
use flopsmith_bus::{Key, stream};
use flopsmith_protocol::MachineClass;
use flopsmith_protocol::subjects::{self, Queue};

/// The holders of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Holder {
    /// A node that compiles.
    Compiler,
    /// A node that verifies.
    Verifier,
    /// A node that times.
    Timer,
    /// A node that decides what runs try next.
    Archive,
    /// A node that writes programs.
    Generator,
    /// A node that trains.
    Learner,
    /// A process that starts and follows runs.
    Client,
    /// An administrator that sets up the bus; its key permits everything.
    Admin,
}

/// The permissions of a user of the broker.
pub struct Permissions {
    key: String,
    publish: BTreeSet<String>,
    subscribe: BTreeSet<String>,
}

/// The permissions that roles need. Roles that evaluate programs get permissions for one machine class and its modules.
pub fn of(roles: &[Holder], class: &MachineClass, key: &Key) -> Permissions {
    let mut publish = BTreeSet::new();
    let mut subscribe = BTreeSet::from([format!("{}.>", key.inbox())]);
    let of_modules = class.of_modules().ok();
    for class in std::iter::once(class).chain(&of_modules) {
        for role in roles {
            subscribe.extend(may_hear(*role, class));
            publish.extend(may_say(*role, class));
        }
    }
    Permissions {
        key: key.public(),
        publish,
        subscribe,
    }
}

/// The subjects that a role subscribes to, apart from answers to its own requests.
fn may_hear(role: Holder, class: &MachineClass) -> Vec<String> {
    let room = |queue: Queue| vec![room(&queue)];
    match role {
        Holder::Compiler => room(Queue::compile(class)),
        Holder::Verifier => room(Queue::verify(class)),
        Holder::Timer => room(Queue::time(class)),
        Holder::Generator | Holder::Client => words(&[subjects::ROOM]),
        Holder::Archive | Holder::Learner => Vec::new(),
        Holder::Admin => words(&[">"]),
    }
}

/// The subject on which the workers of a queue announce a free place for a request to each other.
fn room(queue: &Queue) -> String {
    subjects::room(&flopsmith_bus::durable(&queue.all()))
}

fn may_say(role: Holder, class: &MachineClass) -> Vec<String> {
    match role {
        Holder::Compiler => {
            let queue = Queue::compile(class);
            evaluates(&queue, &[&Queue::verify(class).all()])
        }
        Holder::Verifier => {
            let queue = Queue::verify(class);
            evaluates(&queue, &[&Queue::time(class).all()])
        }
        Holder::Timer => {
            let queue = Queue::time(class);
            evaluates(&queue, &["fs.v1.event.*.machine", "$KV.fs_classes.>"])
        }
        Holder::Archive => {
            let mut may = looks(&flopsmith_actors::BUCKETS);
            may.extend(follows(&[
                stream::OUTCOME,
                stream::ROLLOUT,
                stream::EVENT,
                stream::DEAD,
                "KV_fs_runs",
            ]));
            may.extend(words(&[
                "fs.v1.work.generate.*.*",
                "fs.v1.work.compile.*.*",
                "fs.v1.event.*.stage",
                subjects::OUTCOMES,
                "fs.v1.dead.outcome.*",
                "$KV.fs_leases.>",
                "$KV.fs_outcome_cache.>",
                // The archive reads and reports how full the queues are.
                "$JS.API.CONSUMER.LIST.WORK",
                "$JS.API.STREAM.MSG.GET.WORK",
                "$JS.API.DIRECT.GET.WORK.>",
            ]));
            may
        }
        Holder::Generator => {
            let mut may = looks(&flopsmith_actors::BUCKETS);
            may.extend(follows(&[stream::OUTCOME, stream::EVENT, "KV_fs_runs"]));
            // Each run has a queue of its own, whose consumer has the queue's name.
            may.extend(words(&[
                "$JS.API.CONSUMER.CREATE.WORK.*.fs.v1.work.generate.>",
                "$JS.API.CONSUMER.MSG.NEXT.WORK.*",
                "$JS.ACK.WORK.>",
                "$JS.ACK.*.*.WORK.>",
                subjects::ROLLOUTS,
                "fs.v1.work.compile.*.*",
                "fs.v1.dead.work.generate.>",
                subjects::ROOM,
            ]));
            may
        }
        Holder::Learner => {
            let mut may = looks(&flopsmith_actors::BUCKETS);
            may.extend(follows(&[
                stream::OUTCOME,
                stream::ROLLOUT,
                stream::EVENT,
                "KV_fs_runs",
            ]));
            may.extend(words(&["fs.v1.event.*.policy", "$KV.fs_leases.>"]));
            may
        }
        Holder::Client => words(&[
            subjects::ALL,
            "$KV.>",
            "$JS.API.INFO",
            "$JS.API.STREAM.INFO.>",
            "$JS.API.STREAM.NAMES",
            "$JS.API.STREAM.MSG.GET.>",
            "$JS.API.STREAM.PURGE.>",
            "$JS.API.DIRECT.GET.>",
            "$JS.API.CONSUMER.>",
            "$JS.ACK.>",
            "$JS.FC.>",
        ]),
        Holder::Admin => words(&[">"]),
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The permissions to check that streams and buckets exist, and to read buckets.
fn looks(buckets: &[&str]) -> Vec<String> {
    let mut may = words(&["$JS.API.INFO"]);
    may.extend(stream::ALL.map(|name| format!("$JS.API.STREAM.INFO.{name}")));
    for bucket in buckets {
        may.push(format!("$JS.API.STREAM.INFO.KV_{bucket}"));
        may.push(format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"));
        may.push(format!("$JS.API.DIRECT.GET.KV_{bucket}.>"));
    }
    may
}

/// The permissions to take work off one queue and to publish the results.
fn evaluates(queue: &Queue, more: &[&str]) -> Vec<String> {
    let durable = flopsmith_bus::durable(&queue.all());
    let mut buckets = flopsmith_actors::BUCKETS.to_vec();
    buckets.retain(|bucket| *bucket != role_lease::BUCKET);
    let mut may = looks(&buckets);
    may.extend(words(more));
    may.extend([
        format!("$JS.API.CONSUMER.CREATE.WORK.{durable}.{queue}.*"),
        format!("$JS.API.CONSUMER.MSG.NEXT.WORK.{durable}"),
        format!("$JS.ACK.WORK.{durable}.>"),
        format!("$JS.ACK.*.*.WORK.{durable}.>"),
        room(queue),
    ]);
    may.push(subjects::dead(&queue.all()));
    may.extend(words(&[subjects::OUTCOMES, "$KV.fs_outcome_cache.>"]));
    may
}

/// The permissions to read logs from their beginning.
fn follows(streams: &[&str]) -> Vec<String> {
    let of = |name: &&str| {
        [
            format!("$JS.API.CONSUMER.CREATE.{name}.>"),
            format!("$JS.API.CONSUMER.CREATE.{name}"),
            format!("$JS.API.CONSUMER.INFO.{name}.*"),
            format!("$JS.API.CONSUMER.DELETE.{name}.*"),
            format!("$JS.API.CONSUMER.MSG.NEXT.{name}.*"),
            format!("$JS.API.STREAM.MSG.GET.{name}"),
            format!("$JS.API.DIRECT.GET.{name}"),
            format!("$JS.API.DIRECT.GET.{name}.>"),
            format!("$JS.ACK.{name}.>"),
            format!("$JS.FC.{name}.>"),
        ]
    };
    streams.iter().flat_map(of).collect()
}

/// The form that the configuration of a NATS server has.
impl Display for Permissions {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let list = |all: &BTreeSet<String>| {
            let quoted: Vec<String> = all.iter().map(|word| format!("\"{word}\"")).collect();
            quoted.join(", ")
        };
        write!(
            f,
            "{{ nkey: {}, permissions: {{ publish: {{ allow: [{}] }}, subscribe: {{ allow: [{}] }} }} }}",
            self.key,
            list(&self.publish),
            list(&self.subscribe)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_may_take_timing_work_of_its_class_and_say_what_came_of_it() {
        let key = Key::generate();
        let class = MachineClass::new("zen5").expect("a name");
        let of = |roles: &[Holder]| of(roles, &class, &key);
        let timer = of(&[Holder::Timer]);
        assert!(
            timer
                .publish
                .contains("$JS.API.CONSUMER.MSG.NEXT.WORK.fs-v1-work-time-zen5")
        );
        assert!(timer.publish.contains("fs.v1.outcome.*"));
        for word in &timer.publish {
            assert!(
                !word.contains("compile")
                    && !word.contains("verify")
                    && !word.contains(role_lease::BUCKET),
                "{word}"
            );
            assert!(
                !word.starts_with('>') && !word.contains("STREAM.CREATE"),
                "{word}"
            );
        }
        let inbox = format!("{}.>", key.inbox());
        let room = "fs.v1.room.fs-v1-work-time-zen5";
        let of_modules = format!("{room}_modules");
        let heard = [inbox.as_str(), room, &of_modules];
        assert!(timer.subscribe.iter().all(|s| heard.contains(&s.as_str())));
        let text = timer.to_string();
        assert!(
            text.starts_with(&format!("{{ nkey: {}", key.public())),
            "{text}"
        );
        // A holder of several roles has the permissions of each.
        let both = of(&[Holder::Timer, Holder::Compiler]);
        assert!(both.publish.is_superset(&timer.publish));
        assert!(of(&[Holder::Admin]).publish.contains(">"));
    }
}
