//! The answers that several settings of a run give together.

use flopsmith_protocol::FIRST_WORKLOAD;

use super::{GeneratorKind, Hosted, Settings};
use crate::device::Device;

impl Settings {
    /// The suite of a run whose training tasks have fresh random loop nests.
    pub const STREAM: &str = "random";

    /// True for a run over many problems.
    pub fn has_many(&self) -> bool {
        !self.problems.is_empty() || self.is_stream()
    }

    /// True for a run whose training tasks each have a fresh random loop nest.
    pub fn is_stream(&self) -> bool {
        self.suite == Self::STREAM
    }

    /// True if tasks of training steps have fresh random loop nests.
    pub fn has_fresh(&self) -> bool {
        self.is_stream() || self.random > 0
    }

    /// True if `workloads` chooses other sizes than the first one of each problem. Fresh nests have sizes of their own, and no name of others.
    pub fn names_sizes(&self) -> bool {
        match self.workloads.as_slice() {
            [] => false,
            [one] => one != FIRST_WORKLOAD,
            _ => true,
        }
    }

    /// Number of tasks with fresh nests among so many tasks of a training step.
    pub fn fresh_of(&self, tasks: u32) -> u32 {
        if self.is_stream() {
            return tasks;
        }
        let share = u64::from(self.random) * u64::from(tasks) / u64::from(self.tasks.max(1));
        u32::try_from(share).unwrap_or(tasks).min(tasks)
    }

    /// Number of the problems that a run shows by themselves: all that it trains on, or those of a stream's evaluations.
    pub fn problem_count(&self) -> usize {
        match self.is_stream() {
            true => self.evaluate_tasks as usize,
            false => self.named_problems().len(),
        }
    }

    /// The problems, by name or by folder, in the order in which the tasks of a run take turns. A stream names none.
    pub fn named_problems(&self) -> &[String] {
        match self.problems.as_slice() {
            [] => std::slice::from_ref(&self.problem),
            many => many,
        }
    }

    /// The problems in a few words, for titles.
    pub fn about_problems(&self) -> String {
        match self.problems.as_slice() {
            [] if self.is_stream() => "fresh random nests".to_owned(),
            [] => self.problem.clone(),
            many => format!("{} problems", many.len()),
        }
    }

    /// Number of tasks of each evaluation of a run over so many problems: each problem has equally many, at least one.
    pub fn evaluation_tasks(&self, problems: usize) -> u32 {
        let problems = u32::try_from(problems).unwrap_or(u32::MAX).max(1);
        let of_each = self.evaluate_tasks.div_ceil(problems);
        of_each.saturating_mul(problems)
    }

    /// Number of tasks of a search step, and number of samples of each. The last step of a search over the configurations of
    /// parameters has as many samples as configurations are left; its tasks have one each, so that any number fits.
    pub fn search_step(&self, step: u64) -> (u32, u32) {
        let whole = u64::from(self.tasks) * u64::from(self.group_size);
        let configurations = self.start.as_ref().map_or(0, |start| start.configurations);
        let left = match configurations {
            0 => whole,
            all => all.saturating_sub(step.saturating_mul(whole)),
        };
        match u32::try_from(left) {
            Ok(left) if u64::from(left) < whole => (left.max(1), 1),
            _ => (self.tasks, self.group_size),
        }
    }

    /// Share of a search's answers that vary the user's own program: 0 in a search without one, over its parameters, or where a
    /// model writes the programs.
    pub fn start_share(&self) -> f64 {
        let plain = self.start.as_ref().filter(|s| !s.has_parameters());
        match plain.is_some() && self.generator.has_space() {
            true => self.generator.start_share,
            false => 0.0,
        }
    }

    /// True if an endpoint draws the samples of a training with these settings: the learner has a model, and the generator
    /// has none. Only an adapter is trained so.
    pub fn trains_through_endpoint(&self) -> bool {
        self.generator.kind == GeneratorKind::Endpoint && self.algorithm().lora().is_some()
    }

    /// True if a role of a run with these settings computes with a model.
    pub fn has_models(&self) -> bool {
        self.generator.kind.has_policy() || self.trains_through_endpoint()
    }

    /// The device that the settings name for a role with a model; none for a role without one.
    pub fn device_of(&self, role: Hosted) -> Option<Device> {
        let named = match role {
            Hosted::Archive => return None,
            Hosted::Generator if self.generator.kind == GeneratorKind::Endpoint => return None,
            Hosted::Learner => self.learner.device,
            Hosted::Generator => self.generator.device,
        };
        Some(named.or_gpu(self.require_gpu))
    }

    /// True if a node of the cluster has this role.
    pub fn is_hosted(&self, role: Hosted) -> bool {
        self.hosted.contains(&role)
    }

    /// The largest number of rounds that follow the first round of a training step: groups that are drawn again, or the
    /// further turns of conversations.
    pub fn rounds(&self) -> u32 {
        match self.turns.most {
            0 | 1 => self.advantage.dynamic_sampling,
            most => most - 1,
        }
    }

    /// Number of exploration samples in each training group. At least two samples of a group follow the policy. Only a
    /// policy has exploration samples.
    pub fn exploration_samples(&self) -> u32 {
        match self.generator.kind {
            GeneratorKind::Policy => {
                let most = self.group_size.saturating_sub(2);
                self.generator.exploration_samples.min(most)
            }
            GeneratorKind::Schedule | GeneratorKind::Endpoint | GeneratorKind::Agent => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Start;
    use super::*;

    #[test]
    fn the_steps_of_a_search_have_as_many_programs_as_there_are_configurations() {
        for configurations in 1..70 {
            let settings = Settings {
                tasks: 2,
                group_size: 8,
                start: Some(Start {
                    configurations,
                    ..Start::default()
                }),
                ..Settings::default()
            };
            let steps = configurations.div_ceil(16);
            let samples = |step| {
                let (tasks, size) = settings.search_step(step);
                u64::from(tasks) * u64::from(size)
            };
            assert_eq!((0..steps).map(samples).sum::<u64>(), configurations);
        }
        let settings = Settings::default();
        assert_eq!(settings.search_step(1000), (8, 8), "without parameters");
    }

    #[test]
    fn a_run_that_needs_a_gpu_names_one_for_each_role_with_a_model() {
        let mut settings = Settings::default();
        assert_eq!(settings.device_of(Hosted::Learner), Some(Device::Auto));
        settings.require_gpu = true;
        settings.generator.device = Device::Cuda(1);
        assert_eq!(settings.device_of(Hosted::Learner), Some(Device::Cuda(0)));
        assert_eq!(settings.device_of(Hosted::Generator), Some(Device::Cuda(1)));
        assert_eq!(settings.device_of(Hosted::Archive), None);
    }
}
