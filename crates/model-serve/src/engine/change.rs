//! Adapters that come and go while the service runs. They change while nothing is written, because a batch holds its model.

use tokio::sync::oneshot;

use super::{Command, Engine, Opened, words};
use crate::refusal::Refusal;
use crate::served::{self, MOST_ADAPTERS, Named, Names};

/// A change of the adapters, which is made while nothing is written.
pub(super) enum Change {
    Load {
        adapter: Named,
        /// It may take the place of an adapter of its name.
        replaces: bool,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    Unload {
        name: String,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
}

impl Engine {
    /// Serves an adapter from now on, once the answers under way have ended. Requests that come meanwhile wait.
    ///
    /// # Errors
    /// If its name is taken, there are too many, it does not fit the model, or the thread has ended.
    pub async fn load(&self, adapter: Named, replaces: bool) -> Result<(), Refusal> {
        let (reply, done) = oneshot::channel();
        self.tell(Command::Change(Change::Load {
            adapter,
            replaces,
            reply,
        }))?;
        done.await.unwrap_or_else(|_| Err(Refusal::stopping()))
    }

    /// Forgets an adapter, once the answers under way have ended.
    ///
    /// # Errors
    /// If there is none of this name, or the thread has ended.
    pub async fn unload(&self, name: String) -> Result<(), Refusal> {
        let (reply, done) = oneshot::channel();
        self.tell(Command::Change(Change::Unload { name, reply }))?;
        done.await.unwrap_or_else(|_| Err(Refusal::stopping()))
    }
}

impl Opened {
    /// Makes a change. Nothing is being written.
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Load {
                adapter,
                replaces,
                reply,
            } => {
                let _gone = reply.send(self.load(&adapter, replaces));
            }
            Change::Unload { name, reply } => {
                let _gone = reply.send(self.unload(&name));
            }
        }
    }

    fn load(&mut self, adapter: &Named, replaces: bool) -> Result<(), Refusal> {
        let names = &self.served.names;
        let known = names.number(&adapter.name);
        if known == Some(Names::OWN) || (known.is_some() && !replaces) {
            let message = format!(
                "there is a model {} here already; give the adapter another name, or send `load_inplace`: true for an adapter",
                adapter.name
            );
            return Err(Refusal::invalid("lora_name", message));
        }
        if known.is_none() && self.models.len() > MOST_ADAPTERS {
            let message =
                format!("the service has {MOST_ADAPTERS} adapters, the most it takes; unload one");
            return Err(Refusal::invalid("lora_name", message));
        }
        let Some((_, model)) = self.models.first() else {
            return Err(Refusal::failed("the service has lost its model"));
        };
        let adapted = served::adapted(model, &adapter.folder)
            .map_err(|error| Refusal::invalid("lora_path", words(error)))?;
        if let Some(known) = known {
            self.forget(known);
        }
        self.models.push((self.next, adapted));
        self.served.names.add(self.next, adapter.name.clone());
        self.next += 1;
        Ok(())
    }

    fn unload(&mut self, name: &str) -> Result<(), Refusal> {
        match self.served.names.number(name) {
            None => Err(Refusal::no_model(name, &self.served.names.list())),
            Some(Names::OWN) => {
                let message = "this is the model itself and no adapter; stop the service instead";
                Err(Refusal::invalid("lora_name", message))
            }
            Some(number) => {
                self.forget(number);
                Ok(())
            }
        }
    }

    fn forget(&mut self, number: usize) {
        self.served.names.remove(number);
        self.models.retain(|(known, _)| *known != number);
    }
}
