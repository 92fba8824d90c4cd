//! The run, problem and machine of all messages.

use flopsmith_protocol::{MachineClass, NodeId, ProblemId, RunId};

/// The run.
pub fn run_id() -> RunId {
    RunId::new("r").expect("an id")
}

/// The problem, one of the shipped ones.
pub fn problem_id() -> ProblemId {
    ProblemId::new("dgemm").expect("an id")
}

/// The default machine class of runs.
pub fn machine_class() -> MachineClass {
    MachineClass::new("local").expect("an id")
}

/// The node.
pub fn node_id() -> NodeId {
    NodeId::new("n").expect("an id")
}
