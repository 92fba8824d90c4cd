//! The protective measures and their state on this machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One measure of the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Own user, process, mount, IPC and host name namespaces; root folder of its own.
    Namespaces,
    /// Own control group namespace.
    CgroupNamespace,
    /// A network namespace with nothing in it.
    NoNetwork,
    /// System-call allow-list.
    SystemCalls,
    /// Kernel limits on memory, processor time, files and stack.
    Limits,
    /// A control group around the compile jobs: a backstop that many machines do not let us have.
    ControlGroup,
}

impl Measure {
    /// True if untrusted programs must not run without the measure. Only the control group, a backstop, is optional.
    pub fn required(self) -> bool {
        self != Measure::ControlGroup
    }

    fn what(self) -> &'static str {
        match self {
            Measure::Namespaces => "namespaces",
            Measure::CgroupNamespace => "control group namespace",
            Measure::NoNetwork => "no network",
            Measure::SystemCalls => "system-call filter",
            Measure::Limits => "limits",
            Measure::ControlGroup => "control group for compile jobs",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())
    }
}

/// A measure and whether it is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The measure.
    pub measure: Measure,
    /// True if it is in effect.
    pub in_effect: bool,
    /// The reason why it is not in effect; none if it is.
    pub why_not: Option<String>,
}

/// Every measure, with its state on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Protection(pub Vec<State>);

impl Protection {
    /// True if all required measures are in effect.
    pub fn full(&self) -> bool {
        self.0.iter().all(|s| s.in_effect || !s.measure.required())
    }

    /// True if `measure` is in effect.
    pub fn has(&self, measure: Measure) -> bool {
        self.0.iter().any(|s| s.measure == measure && s.in_effect)
    }

    pub(crate) fn set(&mut self, measure: Measure, why_not: Option<String>) {
        self.0.push(State {
            measure,
            in_effect: why_not.is_none(),
            why_not,
        });
    }

    /// The required measures that are not in effect, in words.
    pub fn missing(&self) -> String {
        let missing = self
            .0
            .iter()
            .filter(|s| !s.in_effect && s.measure.required());
        missing
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why_not {
            None => write!(f, "{}: yes", self.measure),
            Some(why) => write!(f, "{}: no ({why})", self.measure),
        }
    }
}

impl fmt::Display for Protection {
    /// One line per measure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, state) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{state}")?;
        }
        Ok(())
    }
}
