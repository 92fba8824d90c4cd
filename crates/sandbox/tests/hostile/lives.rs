//! The ends of jails, and of everything in them.

use super::*;

#[test]
fn a_fork_bomb_ends_with_its_jail() {
    let program = Program::new("int main(){for(;;)fork();}");
    let mut job = program.job(Kind::Compile);
    job.limits.wall = Duration::from_millis(300);
    let started = Instant::now();
    let end = sandbox().run(&job).unwrap();
    assert_eq!(end.exit, Exit::WallTimeout);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(processes_of(&program.path()), 0, "bombs are left");
}

#[test]
fn a_detached_process_ends_with_its_jail() {
    // The parent ends at once; its daemon would live on.
    let program =
        Program::new("int main(){if(fork()==0){if(fork()==0)for(;;)sleep(1000);}return 0;}");
    let end = sandbox().run(&program.job(Kind::Compile)).unwrap();
    assert_eq!(end.exit, Exit::Code(0));
    assert_eq!(processes_of(&program.path()), 0);
}

/// Processes that run this file.
fn processes_of(program: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|e| std::fs::read_link(e.path().join("exe")).is_ok_and(|exe| exe == program))
        .count()
}

#[test]
fn a_child_can_be_watched_and_killed() {
    let program = Program::new("int main(){for(volatile int i=0;;)i++;}");
    let mut job = program.job(RUN);
    job.cores = Some(vec![0]);
    let mut child = sandbox().spawn(&job).unwrap();
    // Until its processor time grows, it may still be starting.
    let end = Instant::now() + Duration::from_secs(5);
    let exe = format!("/proc/{}/exe", child.pid());
    while std::fs::read_link(&exe).is_ok_and(|e| e != Path::new("/work/program")) {
        assert!(Instant::now() < end, "it did not start");
        assert!(
            child
                .wait_timeout(Duration::from_millis(1))
                .unwrap()
                .is_none()
        );
    }
    assert_eq!(child.threads(), Some(1));
    let allowed = std::fs::read_to_string(format!("/proc/{}/status", child.pid())).unwrap();
    assert!(
        allowed
            .lines()
            .any(|l| l.starts_with("Cpus_allowed_list:") && l.ends_with("\t0"))
    );
    for (field, value) in [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
    ] {
        assert!(
            allowed
                .lines()
                .any(|l| l.starts_with(field) && l.ends_with(value)),
            "{field}: {allowed}"
        );
    }
    let before = child.cpu_time().unwrap();
    assert!(
        child
            .wait_timeout(Duration::from_millis(50))
            .unwrap()
            .is_none()
    );
    assert!(child.cpu_time().unwrap() > before);
    child.kill();
    let end = child.wait_timeout(Duration::from_secs(5)).unwrap().unwrap();
    assert_eq!(end.exit, Exit::Signal(libc::SIGKILL));
    assert_eq!(child.cpu_time(), None);
    // Asking again gives the same answer.
    assert_eq!(child.try_wait().unwrap().unwrap().exit, end.exit);

    let child = sandbox().spawn(&program.job(RUN)).unwrap();
    let pid = child.pid();
    drop(child);
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "dropping left the program running"
    );
}

#[test]
fn a_jail_does_not_die_with_the_thread_that_asked_for_it() {
    let job = Program::new("int main(){char c;read(0,&c,1);return 5;}");
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let mut child = std::thread::spawn(move || {
        use std::os::fd::AsRawFd;
        let mut wanted = job.job(RUN);
        wanted.stdin = Some(reader.as_raw_fd());
        (sandbox().spawn(&wanted).unwrap(), job)
    })
    .join()
    .unwrap();
    assert!(
        child
            .0
            .wait_timeout(Duration::from_millis(50))
            .unwrap()
            .is_none()
    );
    nix::unistd::write(&writer, b"x").unwrap();
    assert_eq!(child.0.wait().unwrap().exit, Exit::Code(5));
}

/// A helper: the supervisor that the next test kills.
#[test]
#[ignore = "run by killing_the_supervisor_ends_its_jails"]
fn supervisor_to_be_killed() {
    let program = Program::new("int main(){for(volatile int i=0;;)i++;}");
    let mut job = program.job(RUN);
    job.limits.wall = Duration::from_secs(60);
    job.limits.cpu = Duration::from_secs(60);
    let mut child = sandbox().spawn(&job).unwrap();
    // The tests of orphans cover the tenth of a millisecond before the program starts.
    let exe = format!("/proc/{}/exe", child.pid());
    while std::fs::read_link(&exe).is_ok_and(|e| e != Path::new("/work/program")) {
        assert!(
            child
                .wait_timeout(Duration::from_millis(1))
                .unwrap()
                .is_none()
        );
    }
    println!("jailed {}", child.pid());
    let end = child.wait().unwrap();
    panic!("the jail ended before its supervisor: {end:?}");
}

#[test]
fn killing_the_supervisor_ends_its_jails() {
    use std::io::BufRead;
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lives::supervisor_to_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(supervisor.stdout.take().unwrap());
    let pid: i32 = output
        .lines()
        .map_while(Result::ok)
        .find_map(|l| l.split("jailed ").nth(1).map(|p| p.trim().parse().unwrap()))
        .unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < end, "the jail outlived its supervisor");
        std::thread::yield_now();
    }
}
