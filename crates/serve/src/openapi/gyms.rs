//! The routes of other tools' environments.

use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::{body, content, path};
use crate::gyms::kernelgym::{Evaluated, Evaluation, TaskStatus};
use crate::gyms::nemo_gym::Verify;
use crate::gyms::openenv::{Beginning, EpisodeState, Reply, Reset, Schemas, Seen, StepRequest};

/// Their paths.
pub fn paths(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let task = ["problem", "workload", "purpose", "language"];
    let task =
        task.map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let of_episode = json!({
        "name": "episode_id", "in": "query", "required": true, "schema": { "type": "string" },
    });
    let object = json!({ "type": "object" });
    let kernelgym = json!({
        "/evaluate": { "post": {
            "operationId": "kernelgymEvaluate",
            "summary": "KernelGYM's evaluation of a task",
            "parameters": task,
            "requestBody": body(&generator.subschema_for::<Evaluation>()),
            "responses": { "200": content("The result", &generator.subschema_for::<Evaluated>()) },
        } },
        "/status/{id}": { "get": {
            "operationId": "kernelgymStatus",
            "summary": "The state of a task of KernelGYM, by its task_id",
            "parameters": [path("id")],
            "responses": { "200": content("The state", &generator.subschema_for::<TaskStatus>()) },
        } },
        "/results/{id}": { "get": {
            "operationId": "kernelgymResults",
            "summary": "The result of a task of KernelGYM, by its task_id",
            "parameters": [path("id")],
            "responses": { "200": content("The result", &generator.subschema_for::<Evaluated>()) },
        } },
    });
    let nemo_gym = json!({
        "/seed_session": { "post": {
            "operationId": "nemoGymSeedSession",
            "summary": "Begin a session of NeMo Gym, which has no state",
            "requestBody": body(&object),
            "responses": { "200": content("Nothing", &object) },
        } },
        "/verify": { "post": {
            "operationId": "nemoGymVerify",
            "summary": "NeMo Gym's verification of a rollout",
            "parameters": task,
            "requestBody": body(&generator.subschema_for::<Verify>()),
            "responses": { "200": content("The request with `reward`, `correct` and `ratio`", &object) },
        } },
    });
    let openenv = json!({
        "/reset": { "post": {
            "operationId": "openenvReset",
            "summary": "Begin an episode of OpenEnv",
            "requestBody": body(&generator.subschema_for::<Reset>()),
            "responses": { "200": content("The task", &generator.subschema_for::<Reply<Beginning>>()) },
        } },
        "/step": { "post": {
            "operationId": "openenvStep",
            "summary": "Evaluate a program in an episode of OpenEnv",
            "requestBody": body(&generator.subschema_for::<StepRequest>()),
            "responses": { "200": content("The result", &generator.subschema_for::<Reply<Seen>>()) },
        } },
        "/state": { "get": {
            "operationId": "openenvState",
            "summary": "Show an episode of OpenEnv",
            "parameters": [of_episode],
            "responses": { "200": content("The state", &generator.subschema_for::<EpisodeState>()) },
        } },
        "/schema": { "get": {
            "operationId": "openenvSchema",
            "summary": "The JSON schemas of OpenEnv's actions, observations and states",
            "responses": { "200": content("The schemas", &generator.subschema_for::<Schemas>()) },
        } },
        "/health": { "get": {
            "operationId": "openenvHealth",
            "summary": "Tell whether the service works; needs no token",
            "security": [{}],
            "responses": { "200": content("The state", &object) },
        } },
        "/ws": { "get": {
            "operationId": "openenvSocket",
            "summary": "OpenEnv's socket: a session of messages `reset`, `step`, `state` and `close`",
            "responses": { "101": { "description": "The connection becomes a WebSocket" } },
        } },
    });
    let all = [kernelgym, nemo_gym, openenv].into_iter();
    let all = all.filter_map(|paths| match paths {
        Value::Object(paths) => Some(paths),
        _ => None,
    });
    all.flatten().collect()
}
