//! Tokens, addresses, and the end of the window.

use std::io::Read;

use super::*;

#[test]
fn a_window_with_a_token_shows_nothing_without_it() {
    let place = runs();
    let token = "0123456789abcdef";
    let window = Window::open(place.path(), Some(token));
    for path in ["/", "/ui.css", "/runs/r", "/runs/r/events", "/nothing"] {
        let reply = window.get(path);
        assert_eq!(reply.status, 401, "{path}");
        assert!(
            reply.head.contains("www-authenticate: basic"),
            "{}",
            reply.head
        );
    }
    let bearer = format!("Host: example.org\r\nAuthorization: Bearer {token}\r\n");
    assert_eq!(window.ask("/runs/r", &bearer).status, 200);
    let basic = "Authorization: Basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n";
    assert_eq!(window.ask("/ui.js", basic).status, 200);
    drop(window);
    let window = Window::open(place.path(), None);
    assert_eq!(window.ask("/", "Host: example.org\r\n").status, 403);
    assert_eq!(window.get("/ui.css").status, 200);
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let plan = Plan {
        runs: "runs".into(),
        cache: None,
        listen: "0.0.0.0:0".parse().unwrap(),
        token: None,
        nats: None,
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("--token-file"), "{error:#}");
}

#[test]
fn quotas_of_tokens_are_refused() {
    let plan = Plan {
        runs: "runs".into(),
        cache: None,
        // Nobody can listen there.
        listen: "192.0.2.1:0".parse().unwrap(),
        token: Some(Token::new("0123456789abcdef 5/day").unwrap()),
        nats: None,
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("quotas"), "{error:#}");
}

#[test]
fn events_end_with_the_window() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let mut events = window.send("/runs/r/events", "Host: localhost\r\n");
    let mut begin = Vec::new();
    while !String::from_utf8_lossy(&begin).contains("retry:") {
        let mut bytes = [0; 256];
        let read = events.read(&mut bytes).unwrap();
        assert!(read > 0);
        begin.extend_from_slice(&bytes[..read]);
    }
    assert!(String::from_utf8_lossy(&begin).contains("text/event-stream"));
    window.stopping.cancel();
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("data:"));
}
