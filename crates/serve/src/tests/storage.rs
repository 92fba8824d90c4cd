//! Disks that fill.

use super::*;

#[test]
fn answers_that_cannot_be_written_are_written_once_there_is_room() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut server = Server::start(place.path(), options);
    let job = server
        .post("/v1/jobs", &programs(&["right 40", "wrong"]))
        .json()["id"]
        .clone();
    let id = job.as_str().unwrap();
    let folder = place.path().join("jobs/open").join(id);
    // No answer can be written, as on a full disk.
    let answers = folder.join("answers.jsonl");
    std::fs::create_dir(&answers).unwrap();
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    let path = format!("/v1/jobs/{id}");
    let done = server.get(&format!("{path}?wait=25"));
    assert_eq!(done.status, 200, "{done:?}");
    // It is not done without its answers.
    assert!(folder.join("order.json").exists());
    std::fs::remove_dir(&answers).unwrap();
    // The next job that ends finds room.
    let next = server.post("/v1/jobs", &programs(&["right 7"])).json()["id"].clone();
    open.send(()).unwrap();
    let next = format!("/v1/jobs/{}?wait=25", next.as_str().unwrap());
    assert_eq!(server.get(&next).status, 200);
    let kept = place.path().join("jobs/done").join(id);
    wait_until(|| kept.join("order.json").exists());
    server.stop();
    drop(server);
    let server = Server::start(place.path(), Options::default());
    let after = server.get(&path);
    assert_eq!((after.status, after.json()), (200, done.json()));
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn a_restart_evaluates_only_programs_without_a_written_answer() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut server = Server::start(place.path(), options);
    let job = server
        .post("/v1/jobs", &programs(&["jail", "wrong"]))
        .json()["id"]
        .clone();
    let id = job.as_str().unwrap();
    let path = format!("/v1/jobs/{id}");
    open.send(()).unwrap();
    wait_until(|| server.get(&path).json()["done"] == 1);
    let folder = place.path().join("jobs/open").join(id);
    let (answers, aside) = (folder.join("answers.jsonl"), folder.join("aside"));
    std::fs::rename(&answers, &aside).unwrap();
    std::fs::create_dir(&answers).unwrap();
    open.send(()).unwrap();
    assert_eq!(server.get(&format!("{path}?wait=25")).status, 200);
    server.stop();
    drop(server);
    std::fs::remove_dir(&answers).unwrap();
    std::fs::rename(&aside, &answers).unwrap();
    let server = Server::start(place.path(), Options::default());
    let done = server.get(&format!("{path}?wait=25"));
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        column(done.json()["results"].as_array().unwrap(), "index"),
        [0, 1]
    );
    let seen = server.seen.lock().unwrap();
    assert!(seen.iter().all(|source| source == "wrong"), "{seen:?}");
}

#[test]
fn no_job_begins_while_the_disk_is_almost_full() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(
        place.path(),
        Options {
            least_free: u64::MAX,
            ..Options::default()
        },
    );
    let reply = server.post("/v1/evaluate", &programs(&["right 40"]));
    assert_eq!(reply.refused(500), "storage");
    assert!(
        reply.json()["detail"].to_string().contains("MiB are free"),
        "{reply:?}"
    );
    assert_eq!(server.get("/v1/health").json()["unfinished_jobs"], 0);
}
