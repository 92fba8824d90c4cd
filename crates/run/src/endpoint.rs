//! The endpoint of a run: checks before the run, and what it has cost. And requests of commands that wait for the answers.

use std::ops::ControlFlow;

use anyhow::{Context, Result, bail};
use flopsmith_config::{Endpoint, Hosted, Money, Settings};
use flopsmith_endpoint::{Ask, Client, Error, Key, Reply, Spending, address};
use tokio_util::sync::CancellationToken;

use crate::console::usage;
use crate::digits::counted;

/// Checks that this process can ask the endpoint of a run, if the run has one, and names the folders of documents and of
/// adapters by their whole paths, by which a run that goes on from another working folder finds them.
///
/// # Errors
/// Wrong usage: its URL cannot be used, the environment has no key, or its documents are no folder.
pub fn prepare(settings: &mut Settings) -> Result<()> {
    for (table, documents) in [
        ("generator.agent", &mut settings.generator.agent.documents),
        ("turns", &mut settings.turns.documents),
    ] {
        let Some(folder) = documents else { continue };
        if !folder.is_dir() {
            return Err(usage(format!(
                "[{table}] `documents` is {}, which is no folder; name a folder of documents, or leave it out",
                folder.display()
            )));
        }
        *folder = std::path::absolute(&*folder)?;
    }
    let Some(endpoint) = &mut settings.generator.endpoint else {
        return Ok(());
    };
    if let Some(folder) = &mut endpoint.adapter_folder {
        *folder = std::path::absolute(&*folder)?;
    }
    address(&endpoint.url).map_err(|e| usage(e.to_string()))?;
    Key::of(endpoint).map_err(|e| usage(e.to_string()))?;
    Ok(())
}

/// Checks that the server of a run's endpoint can be reached, if the run has one and this process asks it.
///
/// # Errors
/// There is no connection.
pub async fn reach(settings: &Settings) -> Result<()> {
    let asked_here = !settings.is_hosted(Hosted::Generator);
    let endpoint = settings.generator.endpoint.as_deref();
    let Some(endpoint) = endpoint.filter(|_| asked_here) else {
        return Ok(());
    };
    match flopsmith_endpoint::reach(endpoint).await {
        Ok(()) => Ok(()),
        Err(Error::Failed { words, .. }) => bail!(
            "the endpoint {} cannot be reached: {words}; start its server, or name another URL",
            endpoint.url
        ),
        Err(error) => Err(unusable(error)),
    }
}

/// Gives a run that goes on other settings of its endpoint, such as a larger budget.
///
/// # Errors
/// Wrong usage: the run has no endpoint, or asks another model.
pub fn change(settings: &mut Settings, endpoint: Endpoint) -> Result<()> {
    let Some(begun) = &mut settings.generator.endpoint else {
        return Err(usage(
            "--endpoint cannot be given together with --resume for a search that was begun without it; leave it out, or start a new search",
        ));
    };
    // First, because the messages below repeat the URL, which may hold a password.
    address(&endpoint.url).map_err(|e| usage(e.to_string()))?;
    for (name, then, now) in [
        ("url", &begun.url, &endpoint.url),
        ("model", &begun.model, &endpoint.model),
    ] {
        if then != now {
            return Err(usage(format!(
                "--endpoint with --resume changes settings such as the budget, but not `{name}`: it is `{then}` in this search and `{now}` here; start a new search"
            )));
        }
    }
    **begun = endpoint;
    Ok(())
}

/// Asks for all answers, and hands over each as it ends, until `take` breaks or a stop is requested; false then.
///
/// # Errors
/// No thread can wait for the answers.
pub fn ask_all(
    client: &Client,
    asks: Vec<Ask>,
    stopped: &CancellationToken,
    take: impl FnMut(Ask, Result<Reply, Error>) -> ControlFlow<()>,
) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the requests")?;
    Ok(runtime.block_on(async {
        tokio::select! {
            () = client.ask_all(asks, take) => true,
            () = stopped.cancelled() => false,
        }
    }))
}

/// The error of an endpoint that cannot be asked at all: wrong usage.
pub fn unusable(error: Error) -> anyhow::Error {
    match error {
        Error::Url(_) | Error::NoKey(_) | Error::BadKey(_) => usage(error.to_string()),
        other => other.into(),
    }
}

/// The cost of the requests to an endpoint so far, as one line.
pub fn spent(spending: &Spending) -> String {
    let amount = spending.amount;
    let mut line = format!(
        "{} to the endpoint ({} failed), {} tokens of prompts and {} of answers",
        counted(spending.requests, "request"),
        spending.failed,
        amount.input_tokens,
        amount.output_tokens
    );
    if amount.cost != Money::ZERO {
        line.push_str(&format!(", cost {}", amount.cost));
    }
    if spending.assumed > 0 {
        line.push_str(&format!(
            "; the cost of {} is not known and counts with the most that it can be",
            counted(spending.assumed, "request")
        ));
    }
    line
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_endpoint::Amount;

    use super::*;

    #[test]
    fn a_search_goes_on_with_another_budget_and_with_no_other_model() {
        let url = "http://127.0.0.1:1/v1";
        let mut settings = Settings::default();
        assert!(change(&mut settings, Endpoint::new(url, "m")).is_err());
        settings.generator.endpoint = Some(Box::new(Endpoint::new(url, "m")));
        let error = change(&mut settings, Endpoint::new(url, "n")).unwrap_err();
        assert!(error.to_string().contains("`model`: it is `m`"), "{error}");
        let mut reading = Settings::default();
        reading.generator.agent.documents = Some("/no/such/folder".into());
        let error = prepare(&mut reading).unwrap_err();
        assert!(error.to_string().contains("is no folder"), "{error}");
        let mut trained = Settings::default();
        trained.turns.documents = Some("/no/such/folder".into());
        let error = prepare(&mut trained).unwrap_err();
        assert!(error.to_string().contains("[turns] `documents`"), "{error}");
        let secret = Endpoint::new("http://me:secret@127.0.0.1:1/v1", "m");
        let error = change(&mut settings, secret).unwrap_err().to_string();
        assert!(error.contains("password"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        let mut richer = Endpoint::new(url, "m");
        richer.budget.tokens = Some(7);
        change(&mut settings, richer).unwrap();
        let budget = &settings.generator.endpoint.unwrap().budget;
        assert_eq!(budget.tokens, Some(7));
    }

    #[test]
    fn the_documents_of_an_agent_are_found_from_every_working_folder() {
        let mut settings = Settings::default();
        settings.generator.agent.documents = Some("src".into());
        settings.turns.documents = Some("src".into());
        prepare(&mut settings).unwrap();
        let here = std::env::current_dir().unwrap();
        let whole = Some(here.join("src"));
        assert_eq!(settings.generator.agent.documents, whole);
        assert_eq!(settings.turns.documents, whole);
    }

    #[test]
    fn the_adapters_of_a_training_are_found_from_every_working_folder() {
        let mut settings = Settings::default();
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
        endpoint.adapter_folder = Some("adapters".into());
        settings.generator.endpoint = Some(Box::new(endpoint));
        prepare(&mut settings).unwrap();
        let here = std::env::current_dir().unwrap();
        let folder = settings.generator.endpoint.unwrap().adapter_folder;
        assert_eq!(folder, Some(here.join("adapters")));
    }

    #[test]
    fn costs_are_one_line() {
        let mut spending = Spending {
            requests: 3,
            failed: 1,
            assumed: 1,
            amount: Amount {
                input_tokens: 10,
                output_tokens: 20,
                cost: "0.5".parse().unwrap(),
            },
            elapsed_ms: 1,
        };
        assert_eq!(
            spent(&spending),
            "3 requests to the endpoint (1 failed), 10 tokens of prompts and 20 of answers, cost 0.5; the cost of 1 request is not known and counts with the most that it can be"
        );
        spending.amount.cost = Money::ZERO;
        spending.assumed = 0;
        assert!(spent(&spending).ends_with("20 of answers"));
    }
}
