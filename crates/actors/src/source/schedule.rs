//! The schedule space as a source: a classic autotuner that a policy has to beat at the same budget.

use std::collections::HashMap;

use async_trait::async_trait;
use flopsmith_generator::schedule::{Schedule, Search};
use flopsmith_problem::Problem;
use flopsmith_protocol::{ArtifactRef, PolicyVersion, Task};

use crate::answer::{Answer, Source};
use crate::error::Error;

/// Proposes schedules and learns from their measured speed.
pub struct ScheduleSource {
    search: Search,
    proposed: HashMap<String, Schedule>,
}

impl ScheduleSource {
    /// A search that starts from `seed`.
    pub fn new(search: Search) -> Self {
        Self {
            search,
            proposed: HashMap::new(),
        }
    }
}

#[async_trait]
impl Source for ScheduleSource {
    fn version(&self) -> Option<PolicyVersion> {
        None
    }

    async fn update(&mut self, _: PolicyVersion, _: &ArtifactRef) -> Result<(), Error> {
        Ok(())
    }

    async fn answer(&mut self, _: &Problem, tasks: &[Task]) -> Result<Vec<Vec<Answer>>, Error> {
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            let mut group = Vec::with_capacity(task.group_size as usize);
            for schedule in self
                .search
                .propose(task.group_size as usize, task.permitted)
            {
                let source = schedule.render();
                self.proposed.insert(source.clone(), schedule);
                group.push(Answer {
                    source,
                    sampled: None,
                });
            }
            answers.push(group);
        }
        Ok(answers)
    }

    fn heard(&mut self, source: &str, gflops: Option<f64>) {
        if let Some(schedule) = self.proposed.get(source) {
            self.search.report(schedule, gflops);
        }
    }
}
