//! Hostile programs, compiled here and run in the real jail: each ends with its typed error and has no other effect.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use flopsmith_sandbox::{
    Error, Exit, Finished, Job, Kind, Limits, Measure, MemoryBound, Options, Sandbox,
};

mod forks;
mod lives;

fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| Sandbox::new(Options::default()).unwrap())
}

struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program.c");
        std::fs::write(&file, format!("#define _GNU_SOURCE\n{HEADERS}\n{source}")).unwrap();
        let built = Command::new("gcc")
            .args(["-O1", "-w", "-pthread", "-o"])
            .arg(folder.path().join("program"))
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        Program { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn job(&self, kind: Kind) -> Job {
        let mut job = Job::new(kind, ["/work/program"]);
        job.read_only.push((self.path(), "/work/program".into()));
        job.limits = Limits {
            wall: Duration::from_secs(5),
            cpu: Duration::from_secs(4),
            memory_bytes: 256 << 20,
            file_bytes: 1 << 20,
            output_bytes: 64 << 10,
            ..Limits::default()
        };
        job
    }
}

const HEADERS: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <errno.h>
#include <signal.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
";

const RUN: Kind = Kind::Run { threads: 1 };

fn run(source: &str) -> Finished {
    sandbox().run(&Program::new(source).job(RUN)).unwrap()
}

fn compile_jail(source: &str) -> Finished {
    let program = Program::new(source);
    sandbox().run(&program.job(Kind::Compile)).unwrap()
}

#[test]
fn protection_is_full_and_named() {
    let protection = sandbox().protection();
    assert!(protection.full(), "{protection}");
    for measure in [
        Measure::Namespaces,
        Measure::NoNetwork,
        Measure::SystemCalls,
    ] {
        assert!(protection.has(measure));
    }
    assert!(protection.to_string().contains("no network: yes"));
}

#[test]
fn exit_codes_and_output_come_back() {
    let end = run(r#"int main(){puts("out");fputs("err",stderr);return 3;}"#);
    assert_eq!(end.exit, Exit::Code(3));
    assert_eq!(
        (&end.stdout[..], &end.stderr[..]),
        (&b"out\n"[..], &b"err"[..])
    );
    assert_eq!(run("int main(){return 128;}").exit, Exit::Code(128));
}

#[test]
fn an_exit_code_cannot_pose_as_a_signal() {
    assert_eq!(run("int main(){return 139;}").exit, Exit::ForbiddenSyscall);
    assert_eq!(run("int main(){_exit(255);}").exit, Exit::ForbiddenSyscall);
    let compiler = |source| compile_jail(source).exit;
    assert_eq!(compiler("int main(){return 139;}"), Exit::ForbiddenSyscall);
}

/// Clang does this after a part of it has died.
#[test]
fn a_compiler_may_set_an_alarm_and_end_with_more_than_there_are_signals() {
    let end = compile_jail("#include <unistd.h>\nint main(){alarm(0);return -2;}");
    assert_eq!(end.exit, Exit::Code(254));
}

#[test]
fn signals_are_typed() {
    assert_eq!(
        run("int main(){*(volatile int*)8=1;}").exit,
        Exit::Signal(libc::SIGSEGV)
    );
    assert_eq!(
        run("int main(){__builtin_trap();}").exit,
        Exit::Signal(libc::SIGILL)
    );
    let division = "int main(int n,char**v){volatile int z=0;return n/z;}";
    assert_eq!(run(division).exit, Exit::Signal(libc::SIGFPE));
    // Process 1 of a namespace ignores its own SIGABRT; the C library then executes an illegal instruction.
    assert_eq!(
        run("int main(){abort();}").exit,
        Exit::Signal(libc::SIGSEGV)
    );
}

#[test]
fn endless_loops_end_by_clock_or_processor_time() {
    let spin = Program::new("int main(){for(volatile int i=0;;)i++;}");
    let mut job = spin.job(RUN);
    job.limits.wall = Duration::from_millis(150);
    let end = sandbox().run(&job).unwrap();
    assert_eq!(end.exit, Exit::WallTimeout);
    assert!(end.wall < Duration::from_secs(2), "{:?}", end.wall);

    let mut job = spin.job(RUN);
    job.limits.cpu = Duration::from_millis(100);
    assert_eq!(sandbox().run(&job).unwrap().exit, Exit::CpuTimeout);

    let pause = Program::new("int main(){pause();}");
    let mut job = pause.job(RUN);
    job.limits.wall = Duration::from_millis(100);
    // A kernel does not wait for signals.
    assert_eq!(sandbox().run(&job).unwrap().exit, Exit::ForbiddenSyscall);
}

#[test]
fn a_child_that_uses_up_its_processor_time_ends_by_the_signal_that_says_so() {
    let parent = Program::new(
        r#"
#include <sys/wait.h>
int main() {
  int status;
  if (fork() == 0)
    for (volatile int i = 0;; i++);
  wait(&status);
  printf("%d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}"#,
    );
    let mut job = parent.job(Kind::Compile);
    job.limits.cpu = Duration::from_secs(1);
    let end = sandbox().run(&job).unwrap();
    assert_eq!(end.exit, Exit::Code(0));
    // Any process may have sent SIGKILL.
    assert_eq!(end.stdout, libc::SIGXCPU.to_string().as_bytes());
}

#[test]
fn output_floods_are_cut() {
    let end = run(r#"int main(){for(;;)puts("0123456789012345678901234567890123456789");}"#);
    assert_eq!(end.exit, Exit::OutputLimit);
    assert_eq!(end.stdout.len(), 64 << 10);
    // A flood that fits into the pipe and then ends counts as one.
    let end = run(r#"int main(){static char b[66000];for(int i=0;i<3;i++)write(2,b,66000);}"#);
    assert_eq!(end.exit, Exit::OutputLimit);
}

#[test]
fn a_bound_on_resident_memory_counts_used_pages_and_not_reserved_ones() {
    let resident = |source: &str| {
        let program = Program::new(source);
        let mut job = program.job(RUN);
        job.memory_bound = MemoryBound::Resident;
        sandbox().run(&job).unwrap()
    };
    let reserve = "int main(){return mmap(0,1ul<<40,PROT_READ|PROT_WRITE,\
        MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE,-1,0)==MAP_FAILED;}";
    assert_eq!(run(reserve).exit, Exit::Code(1));
    assert_eq!(resident(reserve).exit, Exit::Code(0));
    let bomb = "int main(){for(;;){volatile char*p=malloc(1<<20);\
        for(int i=0;i<1<<20;i+=4096)p[i]=1;}}";
    let end = resident(bomb);
    assert_eq!(end.exit, Exit::MemoryLimit);
    assert!(end.max_rss_bytes < 2 << 30, "{}", end.max_rss_bytes);
}

#[test]
fn memory_bombs_are_typed() {
    let end = run("int main(){for(;;){char*p=malloc(1<<20);memset(p,1,1<<20);}}");
    assert_eq!(end.exit, Exit::MemoryLimit);
    assert!(end.max_rss_bytes <= 257 << 20, "{}", end.max_rss_bytes);
    let refused = run("int main(){return malloc(1ull<<40)?1:0;}");
    assert_eq!(refused.exit, Exit::Code(0));
}

#[test]
fn deep_recursion_crashes() {
    let source = "int f(int n){volatile char b[4096];b[n&4095]=n;return f(n+1)+b[1];}\
                  int main(){return f(0);}";
    assert_eq!(run(source).exit, Exit::Signal(libc::SIGSEGV));
}

#[test]
fn processes_and_threads_need_permission() {
    assert_eq!(run("int main(){fork();}").exit, Exit::ForbiddenSyscall);
    assert_eq!(run("int main(){vfork();}").exit, Exit::ForbiddenSyscall);
    let threaded = Program::new(
        "void*f(void*p){*(int*)p=7;return 0;}\
         int main(){int v=0;pthread_t t;if(pthread_create(&t,0,f,&v))return 1;pthread_join(t,0);return v;}",
    );
    assert_eq!(
        sandbox().run(&threaded.job(RUN)).unwrap().exit,
        Exit::ForbiddenSyscall
    );
    let two = threaded.job(Kind::Run { threads: 2 });
    assert_eq!(sandbox().run(&two).unwrap().exit, Exit::Code(7));
    // Also then it may make no processes.
    let fork = Program::new("int main(){return fork();}");
    assert_eq!(
        sandbox()
            .run(&fork.job(Kind::Run { threads: 2 }))
            .unwrap()
            .exit,
        Exit::ForbiddenSyscall
    );
}

#[test]
fn forbidden_calls_end_the_program() {
    for source in [
        "int main(){socket(2,1,0);}",
        "int main(){ptrace(PTRACE_TRACEME,0,0,0);}",
        "int main(){kill(-1,9);}",
        "int main(){kill(1,9);}",
        r#"int main(){mount("a","/tmp","tmpfs",0,0);}"#,
        "int main(){unshare(CLONE_NEWUSER);}",
        "int main(){setns(0,0);}",
        "int main(){syscall(SYS_bpf,0,0,0);}",
        "int main(){syscall(SYS_perf_event_open,0,0,0,0,0);}",
        "int main(){syscall(SYS_keyctl,0,0,0);}",
        "int main(){syscall(SYS_userfaultfd,0);}",
        r#"int main(){memfd_create("x",0);}"#,
        "int main(){ftruncate(0,0);}",
        "int main(){fallocate(0,FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE,0,4096);}",
        "int main(){syscall(SYS_personality,0x40000);}",
        "int main(){prctl(PR_SET_PDEATHSIG,0);}",
        "int main(){syscall(SYS_io_uring_setup,1,0);}",
        "int main(){struct rlimit r={1,1};setrlimit(RLIMIT_CPU,&r);}",
        "int main(){cpu_set_t s;CPU_ZERO(&s);CPU_SET(0,&s);sched_setaffinity(0,sizeof s,&s);}",
        "int main(){setpriority(0,0,5);}",
        "int main(){syscall(0x40000000|1,1,\"x\",1);}",
    ] {
        assert_eq!(run(source).exit, Exit::ForbiddenSyscall, "{source}");
    }
}

#[test]
fn a_thread_may_read_its_name() {
    let end = run("int main(){char name[16];return prctl(PR_GET_NAME,name);}");
    assert_eq!(end.exit, Exit::Code(0));
}

#[test]
fn nothing_of_the_host_is_visible() {
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
    for path in [
        "/etc/passwd",
        "/proc",
        "/proc/self/environ",
        "/sys",
        "/dev",
        "/dev/shm",
        "/bin/sh",
        "/usr/bin",
        "/home",
        home.as_str(),
        env!("CARGO_MANIFEST_DIR"),
    ] {
        let end = run(&format!(
            r#"int main(){{return open("{path}",O_RDONLY)>=0;}}"#
        ));
        assert_eq!(end.exit, Exit::Code(0), "{path} is visible");
    }
    let end =
        run(r#"extern char**environ;int main(){for(char**e=environ;*e;e++)puts(*e);return 0;}"#);
    assert_eq!(
        end.stdout, b"PWD=/\n",
        "bubblewrap's own variable and no other"
    );
    let end = run(
        r#"int main(){execl("/bin/sh","sh","-c","exit 9",(char*)0);return errno==ENOENT?0:1;}"#,
    );
    assert_eq!(end.exit, Exit::Code(0));
    let end = run("int main(){return getuid()==0||getpid()!=1;}");
    assert_eq!(end.exit, Exit::Code(0));
    let open_descriptors =
        "int main(){int n=0;for(int i=0;i<64;i++)n+=fcntl(i,F_GETFD)>=0;return n;}";
    assert_eq!(run(open_descriptors).exit, Exit::Code(3));
}

#[test]
fn nothing_can_be_written_outside() {
    for path in ["/x", "/tmp/x", "/work/x", "/work/program", "/lib/x"] {
        let end = run(&format!(
            r#"int main(){{return open("{path}",O_RDWR|O_CREAT,0666)>=0;}}"#
        ));
        assert_eq!(end.exit, Exit::Code(0), "{path}");
    }
}

#[test]
fn a_disk_filler_fills_its_own_disk() {
    let source = r#"int main(){static char b[1<<16];char n[32];long sum=0;
        for(int i=0;i<64;i++){sprintf(n,"/tmp/%d",i);int f=open(n,O_WRONLY|O_CREAT,0600);if(f<0)break;
          ssize_t w;while((w=write(f,b,sizeof b))>0){sum+=w;if(sum%(1<<20)==0)break;}close(f);}
        return sum>>20;}"#;
    let program = Program::new(source);
    let mut job = program.job(RUN);
    job.tmpfs_bytes = 8 << 20;
    let end = sandbox().run(&job).unwrap();
    assert!(matches!(end.exit, Exit::Code(0..=8)), "{:?}", end.exit);
    // A file must not exceed its limit, on any disk.
    let source = r#"int main(){static char b[1<<16];signal(SIGXFSZ,SIG_IGN);
        int f=open("/tmp/f",O_WRONLY|O_CREAT,0600);long s=0;ssize_t w;
        while((w=write(f,b,sizeof b))>0)s+=w;return s>>20;}"#;
    let program = Program::new(source);
    let mut job = program.job(RUN);
    job.tmpfs_bytes = 8 << 20;
    assert_eq!(sandbox().run(&job).unwrap().exit, Exit::Code(1));
}

#[test]
fn a_compile_jail_has_tools_but_nothing_else() {
    let mut job = Job::new(Kind::Compile, ["/bin/sh", "-c", "gcc --version && ls /"]);
    job.env.push(("PATH".into(), "/usr/bin".into()));
    // A separate folder: those of the other tests contain their programs.
    let own = Sandbox::new(Options::default()).unwrap();
    let end = own.run(&job).unwrap();
    assert_eq!(
        end.exit,
        Exit::Code(0),
        "{}",
        String::from_utf8_lossy(&end.stderr)
    );
    let listing = String::from_utf8(end.stdout).unwrap();
    for hidden in ["root", "home", "proc", "dev", "sys", "work"] {
        assert!(
            !listing.lines().any(|l| l == hidden),
            "{hidden} is visible: {listing}"
        );
    }
    for source in [
        "int main(){socket(2,1,0);}",
        "int main(){ptrace(PTRACE_TRACEME,0,0,0);}",
        "int main(){unshare(CLONE_NEWUSER);}",
        r#"int main(){syscall(SYS_clone,CLONE_NEWUSER|SIGCHLD,0,0,0,0);}"#,
        r#"int main(){mount("a","/tmp","tmpfs",0,0);}"#,
    ] {
        assert_eq!(
            compile_jail(source).exit,
            Exit::ForbiddenSyscall,
            "{source}"
        );
    }
}

#[test]
fn missing_files_are_infrastructure_failures() {
    let end = sandbox().run(&Job::new(RUN, ["/work/no-such-program"]));
    assert!(
        matches!(&end, Err(Error::Setup { detail }) if detail.contains("no-such-program")),
        "{end:?}"
    );

    let mut job = Job::new(RUN, ["/work/program"]);
    job.read_only
        .push(("/no/such/file".into(), "/work/program".into()));
    let end = sandbox().run(&job);
    assert!(
        matches!(&end, Err(Error::Setup { detail }) if detail.contains("/no/such/file")),
        "{end:?}"
    );

    let missing = Sandbox::new(Options {
        bwrap: Some("/no/bwrap".into()),
        ..Options::default()
    });
    assert!(matches!(missing, Err(Error::NoBubblewrap { .. })));

    // A program with bubblewrap's messages is still only a program.
    let end = run(
        r#"int main(){fputs("bwrap: setting up uid map: Permission denied\n",stderr);
        fputs("{ \"exit-code\": 0 }\n",stderr);return 1;}"#,
    );
    assert_eq!(end.exit, Exit::Code(1));
}

/// A sandbox whose bubblewrap runs `instead` for jobs named `gone`; `$2` is the descriptor for its reports.
fn failing(folder: &Path, instead: &str) -> Sandbox {
    use std::os::unix::fs::PermissionsExt;
    let script = folder.join("bwrap");
    let text = format!(
        "#!/bin/bash\ncase \"$*\" in *work/gone*) ;; *) exec bwrap \"$@\" ;; esac\n\
         while [ \"$1\" != --json-status-fd ]; do shift; done\n{instead}\n"
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options {
        bwrap: Some(script),
        ..Options::default()
    };
    Sandbox::new(options).unwrap()
}

/// bubblewrap's child may fail, and be waited for, before the sandbox has a handle on it. The reason is the same then.
#[test]
fn a_jail_that_is_gone_before_it_is_looked_at_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = failing(
        folder.path(),
        r#"true & wait $!
echo "bwrap: Can't find source path" >&2
echo "{ \"child-pid\": $! }" >/proc/self/fd/$2
sleep 60"#,
    );
    let end = sandbox.run(&Job::new(RUN, ["/work/gone"]));
    assert!(
        matches!(&end, Err(Error::Setup { detail }) if detail.contains("find source path")),
        "{end:?}"
    );
}

/// The child may also end at any moment while its limits are set. Some of two hundred children do, since each of them
/// lives about as long.
#[test]
fn a_jail_that_is_gone_while_its_limits_are_set_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = failing(
        folder.path(),
        r#"(for ((i = RANDOM % 400; i > 0; i--)); do :; done; echo "bwrap: Can't find source path" >&2) &
echo "{ \"child-pid\": $! }" >/proc/self/fd/$2
wait $!
exit 1"#,
    );
    for number in 0..200 {
        let end = sandbox.run(&Job::new(RUN, ["/work/gone"]));
        assert!(
            matches!(&end, Err(Error::Setup { detail }) if detail.contains("find source path")),
            "{number}: {end:?}"
        );
    }
}

#[test]
fn descriptors_arrive_at_their_numbers() {
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::write(&a, "first").unwrap();
    std::fs::write(&b, "second").unwrap();
    let (a, b) = (
        std::fs::File::open(a).unwrap(),
        std::fs::File::open(b).unwrap(),
    );
    let program = Program::new(
        r#"int main(){char x[16]={0},y[16]={0},z[16]={0};read(7,x,15);read(3,y,15);read(0,z,15);
           printf("%s %s %s",x,y,z);return fcntl(4,F_GETFD)>=0||fcntl(8,F_GETFD)>=0;}"#,
    );
    let mut job = program.job(RUN);
    job.pass_fds = vec![(a.as_raw_fd(), 7), (b.as_raw_fd(), 3)];
    let input = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&input, b"third", 0).unwrap();
    job.stdin = Some(input.as_raw_fd());
    let end = sandbox().run(&job).unwrap();
    assert_eq!(
        (end.exit, &end.stdout[..]),
        (Exit::Code(0), &b"first second third"[..])
    );
}
