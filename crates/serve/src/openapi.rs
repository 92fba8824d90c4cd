//! The OpenAPI document. Its schemas come from the types that requests are read into and answers are written from.

mod gyms;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::describe::{Described, Health, Listed};
use crate::refusal::{KINDS, ProblemDetails};
use crate::trainers::{OpenRlhf, OpenRlhfRewards, Slime};
use crate::wire::{Answer, DryRun, JobState, Request};

/// The document that `GET /v1/openapi.json` returns.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths = paths(&mut generator);
    for operation in paths.values_mut().filter_map(Value::as_object_mut) {
        for (method, described) in operation.iter_mut() {
            if method != "parameters" {
                described["responses"]["default"] =
                    json!({ "$ref": "#/components/responses/Refused" });
            }
        }
    }
    let refused = json!({
        "description": refusals(),
        "content": { "application/problem+json": { "schema": generator.subschema_for::<ProblemDetails>() } },
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Flopsmith",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Evaluates programs: compiles, verifies and times them in a jail, and returns speeds and rewards.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": { "Refused": refused },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

/// The kinds of refusals with their statuses.
fn refusals() -> String {
    let kinds = KINDS.map(|(kind, status, title)| {
        format!(
            "urn:flopsmith:error:{} ({}): {title}",
            kind.name(),
            status.as_u16()
        )
    });
    kinds.join("; ")
}

fn paths(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let request = generator.subschema_for::<Request>();
    let answer = generator.subschema_for::<Answer>();
    let job = generator.subschema_for::<JobState>();
    let foretold = generator.subschema_for::<DryRun>();
    let listed = generator.subschema_for::<Listed>();
    let described = generator.subschema_for::<Described>();
    let health = generator.subschema_for::<Health>();
    let openrlhf = generator.subschema_for::<OpenRlhf>();
    let rewards = generator.subschema_for::<OpenRlhfRewards>();
    let slime = generator.subschema_for::<Slime>();
    let key = json!({
        "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "maxLength": 255 },
        "description": "Requests with the same key and body are one request.",
    });
    let task = ["problem", "workload", "purpose", "language"];
    let task =
        task.map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let all = json!({
        "/v1/evaluate": { "post": {
            "operationId": "evaluate",
            "summary": "Evaluate programs, and wait for the answers",
            "parameters": [key],
            "requestBody": body(&request),
            "responses": { "200": {
                "description": "The answers in the order of the candidates, each as it comes; of a dry run, what would be done",
                "content": {
                    "application/x-ndjson": { "schema": answer },
                    "application/json": { "schema": { "oneOf": [{ "type": "array", "items": answer }, foretold] } },
                },
            } },
        } },
        "/v1/jobs": { "post": {
            "operationId": "beginJob",
            "summary": "Evaluate programs, and ask for the answers later",
            "parameters": [key],
            "requestBody": body(&request),
            "responses": {
                "202": content("The job", &job),
                "200": content("The job, which is done; of a dry run, what would be done", &json!({ "oneOf": [job, foretold] })),
            },
        } },
        "/v1/jobs/{id}": { "delete": {
            "operationId": "withdrawJob",
            "summary": "Withdraw the candidates of a job that have no answer",
            "parameters": [path("id")],
            "responses": { "200": content("The job, which is done", &job) },
        }, "get": {
            "operationId": "showJob",
            "summary": "Show a job of the token and its answers so far",
            "parameters": [
                path("id"),
                {
                    "name": "wait", "in": "query", "schema": { "type": "number", "minimum": 0 },
                    "description": "Wait until the job is done, for at most so many seconds (300 at most).",
                },
            ],
            "responses": { "202": content("The job", &job), "200": content("The job, which is done", &job) },
        } },
        "/v1/problems": { "get": {
            "operationId": "listProblems",
            "summary": "List all problems",
            "responses": { "200": content("The problems", &json!({ "type": "array", "items": listed })) },
        } },
        "/v1/problems/{name}": { "get": {
            "operationId": "describeProblem",
            "summary": "Describe a problem, with the prompt for a model",
            "parameters": [path("name")],
            "responses": { "200": content("The problem", &described) },
        } },
        "/v1/health": { "get": {
            "operationId": "health",
            "summary": "Tell whether the service works, and how much waits; needs no token",
            "security": [{}],
            "responses": { "200": content("The state", &health) },
        } },
        "/v1/openapi.json": { "get": {
            "operationId": "openapi",
            "summary": "This document",
            "responses": { "200": content("An OpenAPI document", &json!({ "type": "object" })) },
        } },
        "/v1/openrlhf": { "post": {
            "operationId": "openrlhf",
            "summary": "OpenRLHF's remote reward call (--reward.remote_url)",
            "parameters": task,
            "requestBody": body(&openrlhf),
            "responses": { "200": content("The rewards", &rewards) },
        } },
        "/v1/slime": { "post": {
            "operationId": "slime",
            "summary": "slime's remote reward call (--rm-type remote_rm --rm-url)",
            "parameters": task,
            "requestBody": body(&slime),
            "responses": { "200": content("The reward", &json!({ "type": "number" })) },
        } },
        "/mcp": { "post": {
            "operationId": "mcp",
            "summary": "A message of the Model Context Protocol, for agents",
            "requestBody": body(&json!({ "type": "object" })),
            "responses": {
                "200": {
                    "description": "The response, or events with the progress of a call and the response",
                    "content": {
                        "application/json": { "schema": { "type": "object" } },
                        "text/event-stream": { "schema": { "type": "string" } },
                    },
                },
                "202": { "description": "The notification was taken" },
            },
        } },
        "/metrics": { "get": {
            "operationId": "metrics",
            "summary": "The metrics, for Prometheus",
            "responses": { "200": {
                "description": "The metrics",
                "content": { "application/openmetrics-text": { "schema": { "type": "string" } } },
            } },
        } },
    });
    let mut paths = match all {
        Value::Object(all) => all,
        _ => Map::new(),
    };
    paths.extend(gyms::paths(generator));
    paths
}

fn body(schema: &impl serde::Serialize) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

fn content(description: &str, schema: &impl serde::Serialize) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|inner| references(inner, found));
            }
            Value::Array(all) => all.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own_and_a_refusal() {
        let document = document();
        let mut names = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let place = format!("{method} {path}");
                assert!(
                    names.insert(operation["operationId"].as_str().unwrap()),
                    "{place}"
                );
                assert!(operation["responses"]["default"].is_object(), "{place}");
            }
        }
        assert_eq!(names.len(), 23);
    }

    #[test]
    fn the_ratio_of_a_module_is_that_to_its_fastest_baseline() {
        let document = document();
        let ratio = document.pointer("/components/schemas/Answer/properties/ratio");
        let said = ratio.unwrap()["description"].as_str().unwrap();
        assert!(said.contains("fastest baseline"), "{said}");
    }

    #[test]
    fn the_reference_page_lists_every_path() {
        let page = include_str!("../../../docs/reference/http.md");
        for (path, operations) in document()["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let named = format!("| `{} {path}` |", method.to_uppercase());
                assert!(
                    page.contains(&named),
                    "docs/reference/http.md lacks {named}"
                );
            }
        }
    }
}
