//! The parts of a run that repeats a recorded run.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_actors::recorded::Recorded;
use flopsmith_bus::Bus;
use flopsmith_config::Settings;
use flopsmith_protocol::{MachineClass, MachineFacts, RunId, subjects};

use crate::folder::Folder;
use crate::summary::Facts;

/// The recorded run that this run repeats, if there is one.
pub(super) fn recorded(settings: &Settings) -> Result<Option<Arc<Recorded>>> {
    if !settings.evaluate.replays() {
        return Ok(None);
    }
    let recorded = Recorded::read(&settings.evaluate.recorded)?;
    Ok(Some(Arc::new(recorded)))
}

/// Publishes the recorded machines' facts: rewards depend on their peaks.
pub(super) async fn say_machine(
    bus: &Bus,
    run: &RunId,
    recorded: &Recorded,
    class: &MachineClass,
) -> Result<()> {
    for machine in recorded.machines(class) {
        let facts = MachineFacts {
            run: run.clone(),
            ..machine.clone()
        };
        bus.publish(&subjects::machine(run), &facts).await?;
    }
    Ok(())
}

/// Marks the run as concluded: nothing is measured, so there is no work after the last step.
pub(super) fn conclude(folder: &Folder, facts: &mut Facts) -> Result<bool> {
    facts.concluded = true;
    folder.write_facts(facts)?;
    Ok(true)
}
