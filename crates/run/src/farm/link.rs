//! A connection to a cluster beside those of its farms.

use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::supervisor::words;
use flopsmith_bus::{Bus, Options, RunSetup};
use flopsmith_measure::Chains;
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::{self, Queue};
use flopsmith_protocol::{MachineClass, MachineFacts, RunId};
use flopsmith_store::Store;
use tokio::runtime::Runtime;

use super::{Ways, runtime};
use crate::broker;
use crate::console::usage;

/// Time for which the bus is asked for something.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before a second look at queues without a worker: a worker that has just got work asks for more a moment later.
const AGAIN: Duration = Duration::from_millis(300);

/// A connection to a cluster. Its calls block, except [`Link::is_connected`].
pub struct Link {
    /// None once the link is dropped.
    runtime: Option<Runtime>,
    bus: Bus,
    class: MachineClass,
}

impl Link {
    /// Connects, and checks that farms can be opened.
    ///
    /// # Errors
    /// The bus or the store cannot be used, or the class is no name of one.
    pub fn open(ways: &Ways) -> Result<Self> {
        let class = MachineClass::new(&ways.machine_class).map_err(|e| usage(e.to_string()))?;
        Store::open(&ways.store).map_err(|e| usage(words(&e)))?;
        Self::with(broker::options(&ways.nats), class)
    }

    pub(super) fn with(options: Options, class: MachineClass) -> Result<Self> {
        let runtime = runtime()?;
        let bus = runtime.block_on(async {
            let bus = Bus::connect(options).await?;
            bus.ensure_streams(&RunSetup::default()).await?;
            anyhow::Ok(bus)
        })?;
        Ok(Self {
            runtime: Some(runtime),
            bus,
            class,
        })
    }

    /// True if the connection is up now.
    pub fn is_connected(&self) -> bool {
        self.bus.is_connected()
    }

    /// The class whose queues take the programs for a problem: those for modules are for workers with PyTorch only.
    ///
    /// # Errors
    /// The name of the machine class is too long.
    pub fn class_for(&self, problem: &Problem) -> Result<MachineClass> {
        match problem.needs_pytorch() {
            true => self.class.of_modules().map_err(|e| usage(e.to_string())),
            false => Ok(self.class.clone()),
        }
    }

    /// True if workers take programs for a problem now, at each stage.
    ///
    /// # Errors
    /// The bus does not answer.
    pub fn has_workers(&self, problem: &Problem) -> Result<bool> {
        let class = self.class_for(problem)?;
        let queues = [
            Queue::compile(&class),
            Queue::verify(&class),
            Queue::time(&class),
        ];
        self.wait_for(async {
            if self.bus.have_workers(&queues).await? {
                return anyhow::Ok(true);
            }
            tokio::time::sleep(AGAIN).await;
            anyhow::Ok(self.bus.have_workers(&queues).await?)
        })
    }

    /// The ratios of plain reference and baseline that all machines of the class use for a problem of a run, and the facts
    /// of the first of these machines, which have the peak that rewards refer to; none before a machine has measured them.
    ///
    /// # Errors
    /// The bus does not answer, or has something that cannot be read.
    pub fn reference(
        &self,
        run: &RunId,
        problem: &Problem,
    ) -> Result<Option<(Chains, MachineFacts)>> {
        let (problem, class) = (&problem.id, self.class_for(problem)?);
        self.wait_for(async {
            let registry = RunRegistry::open(&self.bus).await?;
            let chains = registry.common::<Chains>(run, problem, &class);
            let chains = chains.await?;
            let subject = subjects::machine(run);
            let mut log = self.bus.log::<MachineFacts>(&subject, 0).await?;
            let mut said = log.replay().await?.into_iter().map(|(_, facts)| facts);
            let first = said.find(|facts| {
                let of = facts.problem.as_ref();
                facts.machine_class == class && of.is_none_or(|of| of == problem)
            });
            anyhow::Ok(chains.zip(first))
        })
    }

    /// Ends a run that a farm of a killed process left.
    ///
    /// # Errors
    /// The bus does not answer.
    pub fn withdraw(&self, run: &RunId) -> Result<()> {
        self.wait_for(async {
            RunRegistry::open(&self.bus).await?.withdraw(run).await?;
            self.bus.drop_queued(run).await?;
            anyhow::Ok(())
        })
    }

    fn wait_for<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        let runtime = self.runtime.as_ref().context("the link was dropped")?;
        runtime.block_on(async {
            let answered = tokio::time::timeout(PATIENCE, asked).await;
            answered.context("the bus does not answer")?
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A runtime that is dropped by a task of another one panics.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
