//! The jobs of KernelGYM's tasks, by the ids that clients give them. Pure.

use std::collections::{HashMap, VecDeque};

use crate::auth::Holder;

/// The most tasks of one holder that can be asked for. The oldest one makes room for the next.
const MOST: usize = 1024;

/// The jobs `J` of recent tasks. Holders do not see each other's tasks; their number is that of the tokens.
#[derive(Debug)]
pub struct Tasks<J = std::sync::Arc<crate::job::Job>> {
    of: HashMap<Holder, Recent<J>>,
}

#[derive(Debug)]
struct Recent<J> {
    jobs: HashMap<String, J>,
    /// The ids, the oldest first.
    order: VecDeque<String>,
}

impl<J> Default for Tasks<J> {
    fn default() -> Self {
        Self { of: HashMap::new() }
    }
}

impl<J: Clone> Tasks<J> {
    /// Notes the job of a task. A task that comes again with the same id has the newer job.
    pub fn note(&mut self, holder: Holder, id: &str, job: J) {
        let recent = self.of.entry(holder).or_insert_with(|| Recent {
            jobs: HashMap::new(),
            order: VecDeque::new(),
        });
        if recent.jobs.insert(id.to_owned(), job).is_some() {
            return;
        }
        recent.order.push_back(id.to_owned());
        if recent.order.len() > MOST
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.jobs.remove(&oldest);
        }
    }

    /// The job of a task.
    pub fn find(&self, holder: Holder, id: &str) -> Option<J> {
        self.of.get(&holder)?.jobs.get(id).cloned()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::auth::Token;

    #[test]
    fn a_holder_finds_its_own_recent_tasks_only() {
        let token = Token::new("0123456789abcdef").unwrap();
        let other = token.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let mine = Holder::default();
        let mut tasks = Tasks::default();
        tasks.note(mine, "task", 1);
        assert_eq!(tasks.find(mine, "task"), Some(1));
        assert_eq!(tasks.find(other, "task"), None);
        tasks.note(other, "task", 2);
        tasks.note(mine, "task", 3);
        assert_eq!(tasks.find(mine, "task"), Some(3));
        for n in 1..MOST {
            tasks.note(mine, &n.to_string(), n);
        }
        assert_eq!(tasks.find(mine, "task"), Some(3));
        tasks.note(mine, "last", 0);
        assert_eq!(tasks.find(mine, "task"), None);
        assert_eq!(tasks.find(other, "task"), Some(2));
        let recent = &tasks.of[&mine];
        assert_eq!((recent.jobs.len(), recent.order.len()), (MOST, MOST));
    }
}
