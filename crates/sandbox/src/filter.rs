//! The system-call filters.
//!
//! A job gets two filters. The first answers `clone3` with "not implemented", so the C library falls back to `clone`,
//! whose flags a filter can read. The second is the allow-list, which kills the process on every other call. bubblewrap
//! loads them in this order right before it starts the program; the kernel takes the stricter verdict of the two.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::error::Error;
use crate::job::Kind;

/// System calls that any compute kernel, the C library's start and the harness need.
const PLAIN: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_openat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_ppoll,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getrandom,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_execve,
    // The first filter answers this call with "not implemented".
    libc::SYS_clone3,
];

/// The older forms of these calls that x86-64 still has.
#[cfg(target_arch = "x86_64")]
const PLAIN_OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const PLAIN_OLD: &[c_long] = &[];

/// Further calls that compiler drivers, assemblers and linkers need.
const COMPILE: &[c_long] = &[
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pipe2,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_umask,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_flock,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_utimensat,
    libc::SYS_truncate,
    // Compile jobs only: a run program must not truncate the memory that it shares with its supervisor.
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_kill,
    libc::SYS_getpgid,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_getpriority,
    // Python, which compiles kernels of Triton, and ptxas.
    libc::SYS_epoll_create1,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_close_range,
];

#[cfg(target_arch = "x86_64")]
const COMPILE_OLD: &[c_long] = &[
    libc::SYS_vfork,
    libc::SYS_fork,
    libc::SYS_pipe,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_rmdir,
    libc::SYS_chmod,
    libc::SYS_setrlimit,
    libc::SYS_select,
    libc::SYS_getpgrp,
    libc::SYS_creat,
    // After a crash, clang sets an alarm to bound the symbolizer, which names the functions on the stack.
    libc::SYS_alarm,
];
#[cfg(not(target_arch = "x86_64"))]
const COMPILE_OLD: &[c_long] = &[];

/// Further calls that an interpreter and its libraries need while they start, and for its copies.
const FORK: &[c_long] = &[
    libc::SYS_wait4,
    libc::SYS_epoll_create1,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_setaffinity,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    // OpenBLAS, which comes with NumPy, says where its buffers should lie.
    libc::SYS_mbind,
];

const THREAD: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD) as u64;

const NEW_NAMESPACE: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_PTRACE) as u64;

/// Option of `prctl`: newer C libraries' allocators use it to name their anonymous memory.
const PR_SET_VMA: c_int = 0x5356_4d41;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Both filters of a jail as bytes for the kernel, in the order of loading.
pub(crate) struct Filters {
    pub not_implemented: Vec<u8>,
    pub allow_list: Vec<u8>,
}

/// Builds the filters for jobs of `kind`.
pub(crate) fn build(kind: Kind) -> Result<Filters, Error> {
    let not_implemented = SeccompFilter::new(
        Rules::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch()?,
    );
    let allow_list = SeccompFilter::new(
        rules(kind).map_err(Error::Filter)?,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        arch()?,
    );
    Ok(Filters {
        not_implemented: bytes(not_implemented)?,
        allow_list: bytes(allow_list)?,
    })
}

/// A filter that kills on `exit_group`: a program that exits normally under it proves that filters are not in effect.
pub(crate) fn probe() -> Result<Vec<u8>, Error> {
    bytes(SeccompFilter::new(
        Rules::from([
            (libc::SYS_exit_group, Vec::new()),
            (libc::SYS_exit, Vec::new()),
        ]),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        arch()?,
    ))
}

fn rules(kind: Kind) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let mut allow = |calls: &[c_long]| {
        for call in calls {
            rules.insert(*call, Vec::new());
        }
    };
    allow(PLAIN);
    allow(PLAIN_OLD);
    if kind == Kind::Compile {
        allow(COMPILE);
        allow(COMPILE_OLD);
    }
    if matches!(kind, Kind::Fork { .. }) {
        allow(FORK);
    }

    // bubblewrap reports "killed by signal n" as 128 + n, so a program must not exit with such a status itself.
    for call in [libc::SYS_exit, libc::SYS_exit_group] {
        let mut ends = vec![
            when(&[(0, masked(0x80), 0)])?,
            when(&[(0, masked(0xff), 0x80)])?,
        ];
        if kind == Kind::Compile {
            // There are 64 signals, so statuses above 192 are not ambiguous; the mask lets 192 and above pass. Clang
            // exits with 254 when one of its processes has died.
            ends.push(when(&[(0, masked(0xc0), 0xc0)])?);
        }
        rules.insert(call, ends);
    }
    match kind {
        Kind::Compile => {
            rules.insert(
                libc::SYS_clone,
                vec![when(&[(0, masked(NEW_NAMESPACE), 0)])?],
            );
            rules.insert(libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME)?]);
        }
        Kind::Run { threads } | Kind::Fork { threads } => {
            if matches!(kind, Kind::Fork { .. }) {
                rules.insert(
                    libc::SYS_clone,
                    vec![when(&[(0, masked(NEW_NAMESPACE), 0)])?],
                );
            } else if threads > 1 {
                let flags = masked(THREAD | NEW_NAMESPACE);
                rules.insert(libc::SYS_clone, vec![when(&[(0, flags, THREAD)])?]);
            }
            // The harness tightens the filter once it has loaded the candidate.
            rules.insert(
                libc::SYS_seccomp,
                vec![when(&[
                    (
                        0,
                        SeccompCmpOp::Eq,
                        u64::from(libc::SECCOMP_SET_MODE_FILTER),
                    ),
                    (1, SeccompCmpOp::Le, libc::SECCOMP_FILTER_FLAG_TSYNC),
                ])?],
            );
            rules.insert(
                libc::SYS_prctl,
                [
                    libc::PR_SET_NAME,
                    // PyTorch's profiler reads the name of its thread.
                    libc::PR_GET_NAME,
                    libc::PR_SET_NO_NEW_PRIVS,
                    PR_SET_VMA,
                ]
                .into_iter()
                .map(|option| equal(0, option))
                .collect::<Result<_, _>>()?,
            );
            // A process may read its own limits only.
            rules.insert(
                libc::SYS_prlimit64,
                vec![when(&[(0, SeccompCmpOp::Eq, 0), (2, SeccompCmpOp::Eq, 0)])?],
            );
        }
    }
    let mut controls = vec![when(&[(1, SeccompCmpOp::Eq, libc::TCGETS)])?];
    if matches!(kind, Kind::Compile | Kind::Fork { .. }) {
        // Python tries once whether it can mark a descriptor in this way.
        controls.push(when(&[(1, SeccompCmpOp::Eq, libc::FIOCLEX)])?);
    }
    rules.insert(libc::SYS_ioctl, controls);
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_SET_FS: u64 = 0x1002;
        const ARCH_CET_STATUS: u64 = 0x3001;
        rules.insert(
            libc::SYS_arch_prctl,
            vec![
                when(&[(0, SeccompCmpOp::Eq, ARCH_SET_FS)])?,
                when(&[(0, SeccompCmpOp::Eq, ARCH_CET_STATUS)])?,
            ],
        );
    }
    Ok(rules)
}

fn masked(mask: u64) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(mask)
}

fn when(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(
        conditions
            .iter()
            .map(|(argument, op, value)| {
                SeccompCondition::new(*argument, SeccompCmpArgLen::Qword, op.clone(), *value)
            })
            .collect::<Result<_, _>>()?,
    )
}

fn equal(argument: u8, value: c_int) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        value as u64,
    )?])
}

fn arch() -> Result<TargetArch, Error> {
    std::env::consts::ARCH.try_into().map_err(Error::Filter)
}

fn bytes(filter: Result<SeccompFilter, BackendError>) -> Result<Vec<u8>, Error> {
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(Error::Filter)?;
    // The layout is struct sock_filter { u16 code; u8 jt, jf; u32 k; } in the machine's byte order.
    Ok(program
        .iter()
        .flat_map(|i| {
            let mut record = [0_u8; 8];
            record[..2].copy_from_slice(&i.code.to_ne_bytes());
            record[2] = i.jt;
            record[3] = i.jf;
            record[4..].copy_from_slice(&i.k.to_ne_bytes());
            record
        })
        .collect())
}
