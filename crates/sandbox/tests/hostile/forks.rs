//! Jails whose program forks: copies give up what the program may do.

use super::*;

/// The signal of a forbidden system call.
const SIGSYS: i32 = 31;

const FORK: Kind = Kind::Fork { threads: 1 };

/// Forks a copy that loads the filter in `/work/filter` and then executes `then`. Exits with 0 if the copy ended by
/// itself with 0, and with the number of the signal that ended it otherwise.
fn copy_that(then: &str) -> Exit {
    let program = Program::new(&format!(
        r#"
#include <linux/seccomp.h>
#include <linux/filter.h>
static struct sock_filter filter[4096];
int main() {{
    int fd = open("/work/filter", O_RDONLY);
    long bytes = read(fd, filter, sizeof filter);
    if (bytes <= 0 || bytes % 8) return 100;
    pid_t copy = fork();
    if (copy < 0) return 101;
    if (copy == 0) {{
        struct sock_fprog program = {{ bytes / 8, filter }};
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) _exit(102);
        {then}
        _exit(0);
    }}
    int status;
    if (waitpid(copy, &status, 0) != copy) return 103;
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}}"#
    ));
    let filter = program.folder.path().join("filter");
    std::fs::write(&filter, sandbox().run_filter(1).unwrap()).unwrap();
    let mut job = program.job(FORK);
    job.read_only.push((filter, "/work/filter".into()));
    sandbox().run(&job).unwrap().exit
}

#[test]
fn a_copy_computes_and_ends() {
    assert_eq!(
        copy_that("char *p = malloc(1 << 20); p[7] = 1; free(p);"),
        Exit::Code(0)
    );
}

#[test]
fn a_copy_starts_no_other() {
    assert_eq!(copy_that("fork();"), Exit::Code(SIGSYS));
}

#[test]
fn the_program_itself_reaches_no_network() {
    let program = Program::new("int main(){return socket(AF_INET, SOCK_STREAM, 0);}");
    let end = sandbox().run(&program.job(FORK)).unwrap();
    assert_eq!(end.exit, Exit::ForbiddenSyscall);
}
