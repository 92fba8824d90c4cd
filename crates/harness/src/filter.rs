//! The second, tighter system call filter. The harness installs it after it has loaded everything and before the
//! candidate's first instruction.
//!
//! It permits only what a numerical kernel needs: its own memory, sleeping on words, and ending. The process cannot
//! open a file or make memory executable, and it can start threads only if the problem permits them. The jail's own
//! filter also stays in force.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// The filter could not be installed.
#[derive(Debug)]
pub struct Error(seccompiler::Error);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the system call filter could not be installed: {}",
            self.0
        )
    }
}

impl std::error::Error for Error {}

fn backend<E: Into<seccompiler::Error>>(error: E) -> Error {
    Error(error.into())
}

/// Restricts the rest of this process to the needs of a kernel. A call outside the list kills the process.
pub fn install(threads: u32) -> Result<(), Error> {
    let allowed = SeccompFilter::new(
        rules(threads)?,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        arch(),
    )
    .map_err(backend)?;
    if threads > 1 {
        // The C library falls back to the older call, whose flags a filter can see.
        let absent = SeccompFilter::new(
            BTreeMap::from([(libc::SYS_clone3, vec![])]),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
            arch(),
        )
        .map_err(backend)?;
        apply_filter(&BpfProgram::try_from(absent).map_err(backend)?).map_err(Error)?;
    }
    apply_filter(&BpfProgram::try_from(allowed).map_err(backend)?).map_err(Error)
}

#[cfg(target_arch = "x86_64")]
fn arch() -> TargetArch {
    TargetArch::x86_64
}

#[cfg(target_arch = "aarch64")]
fn arch() -> TargetArch {
    TargetArch::aarch64
}

fn only(argument: u8, width: Width, op: Op, value: u64) -> Result<Vec<SeccompRule>, Error> {
    let condition = SeccompCondition::new(argument, width, op, value).map_err(backend)?;
    Ok(vec![SeccompRule::new(vec![condition]).map_err(backend)?])
}

/// Advice that only concerns the caller's own page tables and heap: allocators and thread stacks need it. Other advice
/// reaches beyond the process: `MADV_REMOVE` takes pages out of the shared buffers, `MADV_PAGEOUT` and `MADV_COLD` push
/// them out of memory, `MADV_COLLAPSE` moves them in physical memory, and `MADV_MERGEABLE` reveals by its timing the
/// memory of other processes.
const ADVICE: [i32; 7] = [
    libc::MADV_NORMAL,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    MADV_GUARD_INSTALL,
    MADV_GUARD_REMOVE,
];
/// Guard pages of thread stacks, in C libraries since 2024.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

fn advice() -> Result<Vec<SeccompRule>, Error> {
    let mut rules = Vec::with_capacity(ADVICE.len());
    for kind in ADVICE {
        rules.extend(only(2, Width::Dword, Op::Eq, kind.unsigned_abs().into())?);
    }
    Ok(rules)
}

fn rules(threads: u32) -> Result<BTreeMap<i64, Vec<SeccompRule>>, Error> {
    let free = [
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        // abort() raises a signal in its own process.
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_tgkill,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigreturn,
    ];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        free.into_iter().map(|call| (call, vec![])).collect();
    let exec = libc::PROT_EXEC.unsigned_abs().into();
    let never_executable = || only(2, Width::Dword, Op::MaskedEq(exec), 0);
    rules.insert(libc::SYS_mmap, never_executable()?);
    rules.insert(libc::SYS_mprotect, never_executable()?);
    rules.insert(libc::SYS_madvise, advice()?);
    // Starting a thread reads limits and does not set them.
    rules.insert(libc::SYS_prlimit64, only(2, Width::Qword, Op::Eq, 0)?);
    // The C library writes to stderr why it aborts.
    for call in [libc::SYS_write, libc::SYS_writev] {
        let mut both = only(0, Width::Dword, Op::Eq, 1)?;
        both.extend(only(0, Width::Dword, Op::Eq, 2)?);
        rules.insert(call, both);
    }
    if threads > 1 {
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).unsigned_abs();
        rules.insert(
            libc::SYS_clone,
            only(0, Width::Qword, Op::MaskedEq(thread.into()), thread.into())?,
        );
        for call in [libc::SYS_clone3, libc::SYS_set_robust_list, libc::SYS_rseq] {
            rules.insert(call, vec![]);
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_looked_at() {
        for threads in [1, 2] {
            let rules = rules(threads).expect("the rules are sound");
            assert_eq!(rules[&libc::SYS_madvise].len(), ADVICE.len());
        }
        for harmful in [libc::MADV_REMOVE, libc::MADV_MERGEABLE, libc::MADV_HWPOISON] {
            assert!(!ADVICE.contains(&harmful));
        }
    }
}
