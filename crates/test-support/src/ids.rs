//! The one run, problem and machine that all messages are of.

use flopsmith_protocol::{MachineClass, NodeId, ProblemId, RunId};

/// The run.
pub fn run_id() -> RunId {
    RunId::new("r").expect("an id")
}

/// The problem: one that is shipped.
pub fn problem_id() -> ProblemId {
    ProblemId::new("dgemm").expect("an id")
}

/// The machine class: that of a run whose settings name none.
pub fn machine_class() -> MachineClass {
    MachineClass::new("local").expect("an id")
}

/// The node.
pub fn node_id() -> NodeId {
    NodeId::new("n").expect("an id")
}
