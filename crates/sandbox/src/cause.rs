#![expect(
    unsafe_code,
    reason = "a namespace is tried out in a process that does nothing else"
)]
//! Finds why no jail can be set up on a machine, and advises how to change that.
//!
//! bubblewrap reports which step failed but rarely the reason. This module therefore asks the kernel which namespaces
//! it makes, what its settings are, and whether a system-call filter applies to this process. The judgement ([`judge`])
//! itself reads nothing, so tests can pass it the description of any machine.

use std::fmt;
use std::fs;

/// The reason why no jail can be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A kernel setting forbids namespaces.
    Setting {
        /// The setting's name for `sysctl`.
        name: String,
        /// The setting's value.
        value: u64,
        /// A value of the setting that permits namespaces.
        better: u64,
    },
    /// The number of namespaces of a kind has reached the kernel's limit.
    UsedUp {
        /// The setting that limits the number.
        name: String,
        /// The setting's value.
        value: u64,
    },
    /// AppArmor removes capabilities from processes in user namespaces.
    AppArmor,
    /// A system-call filter on this process forbids namespaces.
    Filter,
    /// The kernel was built without a kind of namespace.
    NotBuilt {
        /// The missing kind.
        kind: &'static str,
    },
    /// The kernel refuses namespaces, because of a security module or because this process lives in a changed root.
    Forbidden {
        /// The refused kind.
        kind: &'static str,
    },
    /// The kernel makes namespaces but refuses mounts in them.
    Mounts,
    /// Another, unknown reason.
    Unknown,
}

/// Prints a clause that the caller can continue.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Setting { name, value, .. } => write!(
                f,
                "this machine forbids the namespaces that a jail needs (sysctl {name} is {value})"
            ),
            Cause::UsedUp { name, value } => write!(
                f,
                "all namespaces that this machine permits are in use (sysctl {name} is {value})"
            ),
            Cause::AppArmor => f.write_str(
                "AppArmor takes all capabilities from processes in user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns is 1)",
            ),
            Cause::Filter => f.write_str(
                "this process runs under a system-call filter that forbids user namespaces, as the filters of containers and systemd units do",
            ),
            Cause::NotBuilt { kind } => write!(f, "this kernel has no {kind} namespaces"),
            Cause::Forbidden { kind } => write!(
                f,
                "this machine does not permit {kind} namespaces to this process: a security module forbids them, or the process lives in a chroot"
            ),
            Cause::Mounts => f.write_str(
                "the kernel refuses mounts in the namespaces that this process makes, as in containers under AppArmor, SELinux or a system-call filter",
            ),
            Cause::Unknown => f.write_str("bubblewrap fails here for a reason that only its error text shows"),
        }
    }
}

impl Cause {
    /// The change of the machine that would remove the cause.
    pub fn advice(&self) -> String {
        match self {
            Cause::Setting { name, better, .. } => format!(
                "as root on the host, run `sysctl -w {name}={better}`; to keep the setting, put it into a file in /etc/sysctl.d"
            ),
            Cause::UsedUp { name, value } => format!(
                "end processes that hold namespaces (`lsns` lists them), or run `sysctl -w {name}={}` as root on the host",
                value.saturating_mul(4).max(15_000)
            ),
            Cause::AppArmor => "as root on the host, run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or load an AppArmor profile for bwrap that has `userns,`".into(),
            Cause::Filter => "in a container, use `--security-opt seccomp=docker/seccomp.json` with the file from Flopsmith's sources (Kubernetes: `seccompProfile`), or \
                 `seccomp=unconfined`; in a systemd unit, set no RestrictNamespaces= and no SystemCallFilter= that forbids `clone` and `unshare`"
                .into(),
            Cause::NotBuilt { .. } => {
                "use a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_CGROUPS".into()
            }
            Cause::Forbidden { .. } => {
                "permit this user or container to make user namespaces (SELinux, AppArmor or another security module decides; `dmesg` may name it), and start outside of a chroot".into()
            }
            Cause::Mounts => "in a container, use `--security-opt apparmor=unconfined` and `--security-opt seccomp=docker/seccomp.json` with the file from Flopsmith's sources, \
                 with SELinux `--security-opt label=disable` (Kubernetes: `appArmorProfile`, `seccompProfile`)"
                .into(),
            Cause::Unknown => {
                "run `bwrap --unshare-all --ro-bind / / true` to see bubblewrap's error; a jail needs bubblewrap 0.8 or newer, and a kernel that permits its namespaces".into()
            }
        }
    }
}

/// Kinds of namespaces, with the flag of each and the setting that limits its number.
const KINDS: [(&str, i32, &str); 7] = [
    ("user", libc::CLONE_NEWUSER, "user.max_user_namespaces"),
    ("mount", libc::CLONE_NEWNS, "user.max_mnt_namespaces"),
    ("process", libc::CLONE_NEWPID, "user.max_pid_namespaces"),
    ("IPC", libc::CLONE_NEWIPC, "user.max_ipc_namespaces"),
    ("host name", libc::CLONE_NEWUTS, "user.max_uts_namespaces"),
    ("network", libc::CLONE_NEWNET, "user.max_net_namespaces"),
    (
        "control group",
        libc::CLONE_NEWCGROUP,
        "user.max_cgroup_namespaces",
    ),
];

const UNPRIVILEGED: &str = "kernel.unprivileged_userns_clone";
const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

/// The facts about a machine that [`judge`] needs.
struct Machine<'a> {
    /// The value of a kernel setting; none where the kernel has no such setting.
    setting: &'a dyn Fn(&str) -> Option<u64>,
    /// The error with which the kernel refuses a namespace with these flags; none where it makes the namespace.
    refusal: &'a dyn Fn(i32) -> Option<i32>,
    /// True if this process has the capability CAP_SYS_ADMIN.
    privileged: bool,
    /// True if a system-call filter applies to this process.
    filtered: bool,
}

/// The reason why bubblewrap failed on this machine with the error text `said`.
pub(crate) fn find(said: &str) -> Cause {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim().to_owned())
    };
    let capabilities = field("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    const SYS_ADMIN: u64 = 1 << 21;
    judge(
        &Machine {
            setting: &setting,
            refusal: &refusal,
            privileged: capabilities.is_some_and(|all| all & SYS_ADMIN != 0),
            filtered: field("Seccomp").is_some_and(|mode| mode == "2"),
        },
        said,
    )
}

fn judge(machine: &Machine<'_>, said: &str) -> Cause {
    let set = |name: &str, value: u64| (machine.setting)(name) == Some(value);
    let restricted = set(APPARMOR, 1) && !machine.privileged;
    let user = KINDS[0].1;
    for (kind, flag, bound) in KINDS {
        let Some(error) = (machine.refusal)(user | flag) else {
            continue;
        };
        return match error {
            libc::ENOSPC | libc::EUSERS => match (machine.setting)(bound) {
                Some(0) => Cause::Setting {
                    name: bound.into(),
                    value: 0,
                    better: 15_000,
                },
                Some(value) => Cause::UsedUp {
                    name: bound.into(),
                    value,
                },
                None => Cause::Forbidden { kind },
            },
            libc::EINVAL | libc::ENOSYS if !machine.filtered => Cause::NotBuilt { kind },
            _ if set(UNPRIVILEGED, 0) && !machine.privileged => Cause::Setting {
                name: UNPRIVILEGED.into(),
                value: 0,
                better: 1,
            },
            _ if restricted => Cause::AppArmor,
            _ if machine.filtered => Cause::Filter,
            _ => Cause::Forbidden { kind },
        };
    }
    let denied = ["Permission denied", "Operation not permitted"];
    if !denied.iter().any(|words| said.contains(words)) {
        return Cause::Unknown;
    }
    if restricted {
        return Cause::AppArmor;
    }
    let mounting = ["mount", "pivot_root", "make / slave", "bind"];
    if mounting.iter().any(|words| said.contains(words)) {
        return Cause::Mounts;
    }
    Cause::Unknown
}

/// Reads a kernel setting; none where the kernel has no such setting.
fn setting(name: &str) -> Option<u64> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Tries to make namespaces in a child process and returns the error with which the kernel refuses them.
fn refusal(flags: i32) -> Option<i32> {
    // SAFETY: the child makes two system calls and touches no memory that another thread could hold a lock on.
    let child = unsafe {
        match libc::fork() {
            0 => {
                let done = libc::unshare(flags);
                libc::_exit(if done == 0 {
                    0
                } else {
                    *libc::__errno_location()
                })
            }
            child => child,
        }
    };
    if child < 0 {
        return None;
    }
    let ended = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None);
    match ended {
        Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => None,
        Ok(nix::sys::wait::WaitStatus::Exited(_, error)) => Some(error),
        // A filter that kills the caller of `unshare` forbids namespaces as much as one that returns an error.
        Ok(nix::sys::wait::WaitStatus::Signaled(..)) => Some(libc::EPERM),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: &str = "bwrap: setting up uid map: Permission denied";

    /// A machine with these settings that refuses namespaces of one kind with an error.
    fn of(
        settings: &[(&str, u64)],
        refused: Option<(i32, i32)>,
        (privileged, filtered): (bool, bool),
        said: &str,
    ) -> Cause {
        let setting = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let refusal = |flags: i32| {
            let (flag, error) = refused?;
            (flags & flag != 0).then_some(error)
        };
        let machine = Machine {
            setting: &setting,
            refusal: &refusal,
            privileged,
            filtered,
        };
        judge(&machine, said)
    }

    #[test]
    fn a_setting_that_forbids_namespaces_is_named_with_a_better_value() {
        let plain = (false, false);
        for (kind, flag, bound) in KINDS {
            let cause = of(&[(bound, 0)], Some((flag, libc::ENOSPC)), plain, "");
            assert!(
                cause.to_string().contains(&format!("{bound} is 0")),
                "{kind}: {cause}"
            );
            assert!(cause.advice().contains(&format!("{bound}=15000")), "{kind}");
            let cause = of(&[(bound, 9)], Some((flag, libc::ENOSPC)), plain, "");
            assert!(cause.to_string().contains("in use"), "{kind}: {cause}");
        }
        let refused = Some((libc::CLONE_NEWUSER, libc::EPERM));
        let cause = of(&[(UNPRIVILEGED, 0)], refused, plain, "");
        assert!(
            cause.advice().contains(&format!("{UNPRIVILEGED}=1")),
            "{cause}"
        );
        // The setting does not stop root, so another mechanism forbids the namespaces.
        let cause = of(&[(UNPRIVILEGED, 0)], refused, (true, true), "");
        assert_eq!(cause, Cause::Filter);
    }

    #[test]
    fn causes_that_forbid_namespaces_are_told_apart() {
        let plain = (false, false);
        let user = |error| Some((libc::CLONE_NEWUSER, error));
        assert_eq!(of(&[], user(libc::EPERM), (false, true), ""), Cause::Filter);
        assert_eq!(of(&[], user(libc::ENOSYS), (true, true), ""), Cause::Filter);
        let kind = "user";
        assert_eq!(
            of(&[], user(libc::EINVAL), plain, ""),
            Cause::NotBuilt { kind }
        );
        assert_eq!(
            of(&[], user(libc::EPERM), plain, ""),
            Cause::Forbidden { kind }
        );
        let network = Some((libc::CLONE_NEWNET, libc::EPERM));
        let restricted = [(APPARMOR, 1)];
        assert_eq!(of(&restricted, network, plain, ""), Cause::AppArmor);
        // The kernel makes the namespaces, but no operation in them is permitted.
        assert_eq!(of(&restricted, None, plain, DENIED), Cause::AppArmor);
        assert_eq!(of(&[(APPARMOR, 0)], None, plain, DENIED), Cause::Unknown);
        for said in [
            "bwrap: Failed to make / slave: Permission denied",
            "bwrap: pivot_root: Operation not permitted",
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        ] {
            assert_eq!(of(&[], None, plain, said), Cause::Mounts, "{said}");
        }
        let unknown = of(
            &restricted,
            None,
            plain,
            "bwrap: Unknown option --json-status-fd",
        );
        assert_eq!(unknown, Cause::Unknown);
    }

    #[test]
    fn no_cause_but_an_unknown_one_speaks_of_bubblewrap() {
        for cause in [
            Cause::AppArmor,
            Cause::Filter,
            Cause::Mounts,
            Cause::NotBuilt { kind: "user" },
            Cause::Forbidden { kind: "user" },
        ] {
            assert!(!format!("{cause}; {}", cause.advice()).contains("install"));
        }
    }
}
