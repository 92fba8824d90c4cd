//! OpenEnv's socket, by frames that the tests write themselves.

use std::io::ErrorKind;
use std::net::Shutdown;

use super::*;

/// The key of RFC 6455's example, and the answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pplmbitxaq9kygzzhzrbk+xoo=";

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A client on a socket.
struct Socket(TcpStream);

/// The request of a client, with more headers.
fn handshake(more: &str) -> String {
    format!(
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n"
    )
}

impl Socket {
    /// Sends a request, and reads the head of the response.
    fn request(server: &Server, request: &str) -> (TcpStream, String) {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        (stream, head.to_ascii_lowercase())
    }

    fn open(server: &Server, more: &str) -> Self {
        let (stream, head) = Self::request(server, &handshake(more));
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        let accept = format!("sec-websocket-accept: {ACCEPT}\r\n");
        assert!(head.contains(&accept), "{head}");
        Self(stream)
    }

    /// Sends a frame, masked as those of clients are.
    fn frame(&mut self, first: u8, content: &[u8]) {
        let mask = [7, 11, 13, 17];
        let length = u16::try_from(content.len()).unwrap();
        let mut frame = vec![first, 0x80 | 126];
        if length < 126 {
            frame[1] = 0x80 | u8::try_from(length).unwrap();
        } else {
            frame.extend(length.to_be_bytes());
        }
        frame.extend(mask);
        let masked = content.iter().zip(mask.iter().cycle());
        frame.extend(masked.map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.frame(0x80 | TEXT, message.to_string().as_bytes());
    }

    /// The kind and the content of the next frame; none if the connection ends before it.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        if let Err(error) = self.0.read_exact(&mut head) {
            let waited = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
            assert!(!waited.contains(&error.kind()), "no frame and no end");
            return None;
        }
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).unwrap();
                usize::from(u16::from_be_bytes(length))
            }
            short => usize::from(short),
        };
        assert!(length < 1 << 16 && head[1] < 127, "{head:?}");
        let mut content = vec![0; length];
        self.0.read_exact(&mut content).unwrap();
        Some((head[0] & 15, content))
    }

    fn answer(&mut self) -> Value {
        let (kind, content) = self.receive().unwrap();
        assert_eq!(kind, TEXT, "{content:?}");
        serde_json::from_slice(&content).unwrap()
    }

    fn ask(&mut self, kind: &str, data: Value) -> Value {
        self.send(&json!({ "type": kind, "data": data }));
        self.answer()
    }

    /// Waits until the service ends the connection. Returns the code of its frame, if there was one.
    fn ended(&mut self) -> Option<u16> {
        let mut code = None;
        while let Some((kind, content)) = self.receive() {
            if kind == CLOSE {
                code = content
                    .first_chunk::<2>()
                    .map(|code| u16::from_be_bytes(*code));
                // The service waits for the client's end a while. It may have closed the connection already.
                let _ = self.0.shutdown(Shutdown::Write);
            }
        }
        code
    }
}

fn code(answer: &Value) -> &str {
    assert_eq!(answer["type"], "error", "{answer}");
    answer["data"]["code"].as_str().unwrap()
}

fn with(limits: crate::gyms::Limits) -> Options {
    Options {
        gyms: limits,
        ..Options::default()
    }
}

#[test]
fn a_socket_is_a_session() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let mut socket = Socket::open(&server, "");
    let early = socket.ask("step", json!({ "source": "right 40" }));
    assert_eq!(code(&early), "SESSION_ERROR");
    let begun = socket.ask(
        "reset",
        json!({ "problem": "dgemm", "max_steps": 2, "seed": 1 }),
    );
    assert_eq!(begun["type"], "observation");
    assert_eq!(
        (&begun["data"]["reward"], &begun["data"]["done"]),
        (&json!(null), &json!(false))
    );
    let first = socket.ask("step", json!({ "source": "right 40", "metadata": {} }));
    assert_eq!(
        (&first["data"]["reward"], &first["data"]["done"]),
        (&json!(0.5), &json!(false))
    );
    // A failure of the machine is an error, and no step.
    let failed = socket.ask("step", json!({ "source": "jail" }));
    assert_eq!(code(&failed), "EXECUTION_ERROR");
    assert_eq!(failed["data"].get("reward"), None);
    socket.send(&json!({ "type": "state" }));
    let state = socket.answer();
    assert_eq!(
        (&state["type"], &state["data"]["step_count"]),
        (&json!("state"), &json!(1))
    );
    let last = socket.ask("step", json!({ "answer": "No program." }));
    assert_eq!(
        (&last["data"]["reward"], &last["data"]["done"]),
        (&json!(-1.0), &json!(true))
    );
    let over = socket.ask("step", json!({ "source": "right 1" }));
    assert_eq!(code(&over), "VALIDATION_ERROR");
    assert_eq!(*server.seen.lock().unwrap(), ["right 40", "jail"]);
    // The connection outlives mistakes.
    for (text, expected) in [
        ("{", "INVALID_JSON"),
        ("[]", "UNKNOWN_TYPE"),
        (r#"{"type":"delete"}"#, "UNKNOWN_TYPE"),
        (
            r#"{"type":"reset","data":{"problem":"../dgemm"}}"#,
            "VALIDATION_ERROR",
        ),
        (r#"{"type":"step","data":{"code":"x"}}"#, "VALIDATION_ERROR"),
    ] {
        socket.frame(0x80 | TEXT, text.as_bytes());
        assert_eq!(code(&socket.answer()), expected, "{text}");
    }
    // OpenEnv's own fields are enough to begin an episode.
    let drawn = socket.ask("reset", json!({ "seed": 1, "episode_id": "own" }));
    assert_eq!(drawn["type"], "observation", "{drawn}");
    assert_eq!(drawn["data"]["observation"]["episode_id"], "own");
    socket.send(&json!({ "type": "close" }));
    assert_eq!(socket.ended(), Some(1000));
}

#[test]
fn pings_are_answered_during_an_evaluation() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let mut socket = Socket::open(&server, "");
    socket.ask("reset", json!({ "problem": "dgemm" }));
    socket.send(&json!({ "type": "step", "data": { "source": "right 40" } }));
    wait_until(|| server.service.waiting() == (1, true));
    socket.frame(0x80 | PING, b"there?");
    assert_eq!(socket.receive(), Some((PONG, b"there?".to_vec())));
    // A message that comes too early is answered in its turn.
    socket.send(&json!({ "type": "state" }));
    open.send(()).unwrap();
    assert_eq!(socket.answer()["data"]["reward"], 0.5);
    assert_eq!(socket.answer()["data"]["step_count"], 1);
}

#[test]
fn pings_whose_answers_nobody_reads_do_not_pile_up() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let mut socket = Socket::open(&server, "");
    let mut ping = vec![0x80 | PING, 0x80 | 125];
    ping.resize(2 + 4 + 125, 0);
    let pings = ping.repeat(8192);
    let wait = Some(Duration::from_millis(500));
    socket.0.set_write_timeout(wait).unwrap();
    // The service reads no more once the buffers of the connection are full.
    let error = (0..256).find_map(|_| socket.0.write_all(&pings).err());
    let waited = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
    assert!(waited.contains(&error.unwrap().kind()));
}

#[test]
fn a_message_in_pieces_is_read_and_one_of_a_gigabyte_is_not() {
    let place = tempfile::tempdir().unwrap();
    let limits = crate::gyms::Limits {
        message: 1000,
        ..Default::default()
    };
    let server = Server::start(place.path(), with(limits));
    let mut socket = Socket::open(&server, "");
    socket.frame(TEXT, br#"{"type":"#);
    socket.frame(0x80, br#""state"}"#);
    assert_eq!(code(&socket.answer()), "SESSION_ERROR");
    // The length of a frame alone is too much.
    let mut frame = vec![0x80 | TEXT, 0x80 | 127];
    frame.extend((1_u64 << 30).to_be_bytes());
    frame.extend([7, 11, 13, 17]);
    socket.0.write_all(&frame).unwrap();
    assert_eq!(socket.ended(), Some(1009));
    // So is the sum of many pieces.
    let mut socket = Socket::open(&server, "");
    let piece = [b' '; 600];
    socket.frame(TEXT, &piece);
    socket.frame(0, &piece);
    socket.ended();
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_socket_that_says_nothing_ends_whatever_it_pings() {
    let place = tempfile::tempdir().unwrap();
    let limits = crate::gyms::Limits {
        idle: Duration::from_millis(300),
        ..Default::default()
    };
    let server = Server::start(place.path(), with(limits));
    let mut silent = Socket::open(&server, "");
    let mut pinging = Socket::open(&server, "");
    let mut half = Socket::open(&server, "");
    pinging.frame(0x80 | PING, b"");
    half.0.write_all(&[0x80 | TEXT, 0x80 | 100, 7]).unwrap();
    for socket in [&mut silent, &mut pinging, &mut half] {
        socket.ended();
    }
    let limits = crate::gyms::Limits {
        age: Duration::from_millis(300),
        ..Default::default()
    };
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), with(limits));
    Socket::open(&server, "").ended();
}

#[test]
fn only_so_many_sockets_are_open_at_once() {
    let place = tempfile::tempdir().unwrap();
    let limits = crate::gyms::Limits {
        sockets: 2,
        ..Default::default()
    };
    let server = Server::start(place.path(), with(limits));
    let mut first = Socket::open(&server, "");
    let _second = Socket::open(&server, "");
    let (_, head) = Socket::request(&server, &handshake(""));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert!(head.contains("\r\nretry-after: "), "{head}");
    first.send(&json!({ "type": "close" }));
    first.ended();
    drop(first);
    wait_until(|| Socket::request(&server, &handshake("")).1.contains(" 101 "));
}

#[test]
fn each_token_has_a_share_of_the_sockets() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some("0123456789abcdef\nfedcba9876543210"),
        ..with(crate::gyms::Limits {
            sockets: 2,
            ..Default::default()
        })
    };
    let server = Server::start(place.path(), options);
    let header = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let (first, second) = (header("0123456789abcdef"), header("fedcba9876543210"));
    let mut one = Socket::open(&server, &first);
    let (_, head) = Socket::request(&server, &handshake(&first));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    Socket::open(&server, &second);
    one.send(&json!({ "type": "close" }));
    one.ended();
    drop(one);
    wait_until(|| {
        let (_, head) = Socket::request(&server, &handshake(&first));
        head.contains(" 101 ")
    });
}

#[test]
fn a_token_takes_places_that_no_other_one_needs() {
    let place = tempfile::tempdir().unwrap();
    let names = ["0123456789abcdef", "fedcba9876543210", "00112233445566778"];
    let options = Options {
        token: Some("0123456789abcdef\nfedcba9876543210\n00112233445566778"),
        ..with(crate::gyms::Limits {
            sockets: 4,
            ..Default::default()
        })
    };
    let server = Server::start(place.path(), options);
    let [first, second, third] = names.map(|name| format!("Authorization: Bearer {name}\r\n"));
    let _one = Socket::open(&server, &first);
    let _two = Socket::open(&server, &first);
    let (_, head) = Socket::request(&server, &handshake(&first));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    let _second = Socket::open(&server, &second);
    let _third = Socket::open(&server, &third);
}

#[test]
fn a_page_in_a_browser_gets_no_socket() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let request = handshake("Origin: https://attacker.example\r\n");
    let (_, head) = Socket::request(&server, &request);
    assert!(head.starts_with("http/1.1 403 "), "{head}");
    Socket::open(&server, "Origin: http://localhost:3000\r\n");
    let plain = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, head) = Socket::request(&server, plain);
    assert!(head.starts_with("http/1.1 400 "), "{head}");
}

#[test]
fn a_socket_needs_a_token_and_reaches_no_other_session() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some(TOKEN),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let (_, head) = Socket::request(&server, &handshake(""));
    assert!(head.starts_with("http/1.1 401 "), "{head}");
    let header = format!("Authorization: Bearer {TOKEN}\r\n");
    let task = json!({ "problem": "dgemm", "episode_id": "mine", "max_steps": 9 });
    let mut one = Socket::open(&server, &header);
    one.ask("reset", task.clone());
    one.ask("step", json!({ "source": "right 40" }));
    // Another socket, and a request without one, have episodes of their own by the same name.
    let mut two = Socket::open(&server, &header);
    two.ask("reset", task);
    two.send(&json!({ "type": "state" }));
    assert_eq!(two.answer()["data"]["step_count"], 0);
    let plain = server.ask("GET /state?episode_id=mine", &[header.trim_end()], "");
    assert_eq!(plain.refused(404), "not-found");
    let named = json!({ "source": "right 1", "episode_id": "mine" });
    assert_eq!(code(&two.ask("step", named)), "VALIDATION_ERROR");
    two.send(&json!({ "type": "close" }));
    two.ended();
    one.send(&json!({ "type": "state" }));
    assert_eq!(one.answer()["data"]["step_count"], 1);
}

#[test]
fn a_stop_of_the_service_ends_sockets() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut server = Server::start(place.path(), options);
    let mut idle = Socket::open(&server, "");
    let mut busy = Socket::open(&server, "");
    busy.ask("reset", json!({ "problem": "dgemm" }));
    busy.send(&json!({ "type": "step", "data": { "source": "right 40" } }));
    wait_until(|| server.service.waiting() == (1, true));
    let ends = std::thread::spawn(move || {
        let refused = busy.answer();
        busy.ended();
        idle.ended();
        refused
    });
    server.service.stopping().cancel();
    let refused = ends.join().unwrap();
    assert_eq!(code(&refused), "CAPACITY_REACHED");
    drop(open);
    server.stop();
}
