//! Files in huge pages, independent of the machine's settings.
//!
//! The place of an array in physical memory changes the time of a call by per cents from one process to the next: pages
//! in the same sets of a cache evict each other. Within huge pages this place is fixed. A setting of the whole machine
//! (`transparent_hugepage/shmem_enabled`) decides whether anonymous files may have huge pages; it is `never` nearly
//! everywhere. A temporary file system decides for itself. So the files of the buffers lie on such a file system, which
//! is mounted nowhere and ends with the process. Without root, mounting it needs a user namespace. If the machine
//! forbids these too, there is no such file system, and callers use anonymous files.
#![expect(unsafe_code, reason = "mounting is a matter of system calls")]

use std::ffi::CStr;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;

/// An empty file without a name on a file system in huge pages; none if the machine has no such file system.
pub(crate) fn file() -> Option<OwnedFd> {
    static ROOT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let root = ROOT.get_or_init(|| mount().or_else(|_| mount_apart()).ok());
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path is a C string; the descriptor is open as long as the program runs.
    let fd = unsafe { libc::openat(root.as_ref()?.as_raw_fd(), c".".as_ptr(), flags, 0o600) };
    // SAFETY: the descriptor is new and ours.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A file system that no path reaches. The function only makes system calls, so that a forked process may use it.
fn mount() -> Result<OwnedFd, Error> {
    let checked = |code: libc::c_long| {
        if code < 0 {
            Err(Error::last_os_error())
        } else {
            Ok(code as RawFd)
        }
    };
    // SAFETY: all strings are C strings that outlive the calls; descriptors are new and ours.
    unsafe {
        let context = checked(libc::syscall(
            libc::SYS_fsopen,
            c"tmpfs".as_ptr(),
            FSOPEN_CLOEXEC,
        ))?;
        let context = OwnedFd::from_raw_fd(context);
        let set = |key: &CStr, value: &CStr| {
            checked(libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                FSCONFIG_SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            ))
        };
        set(c"huge", c"always")?;
        set(c"mode", c"0700")?;
        // The size is the machine's maximum, like that of anonymous files.
        set(c"size", c"0")?;
        let nothing = std::ptr::null::<libc::c_char>();
        checked(libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            nothing,
            nothing,
            0,
        ))?;
        let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
        let root = checked(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        ))?;
        Ok(OwnedFd::from_raw_fd(root))
    }
}

/// The same in a user namespace, where every user may mount. A separate process enters the namespace and hands over the
/// file system.
fn mount_apart() -> Result<OwnedFd, Error> {
    // Read before the fork: the code after it may only make system calls.
    // SAFETY: plain system calls.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{user} {user} 1")),
        (c"/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    let made = unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        )
    };
    if made != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: both descriptors are new and ours.
    let [ours, theirs] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // Not the C library's fork: it would run fork handlers of libraries, in a process that may be full of their
    // threads.
    // SAFETY: the new process has a copy of everything. It makes system calls and ends without returning.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match child {
        ..0 => Err(Error::last_os_error()),
        0 => {
            let sent = enter(&maps)
                .and_then(|()| mount())
                .and_then(|root| send(theirs.as_raw_fd(), root.as_raw_fd()));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(sent.is_err())) }
        }
        child => {
            drop(theirs);
            let root = receive(ours.as_raw_fd());
            let child = child as libc::pid_t;
            // SAFETY: a child of ours, which ends once it has sent or failed.
            let ended = || unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            while ended() < 0 && interrupted() {}
            root
        }
    }
}

/// Enters new user and mount namespaces, in which this user keeps its id.
fn enter(maps: &[(&CStr, String); 3]) -> Result<(), Error> {
    // SAFETY: plain system calls on strings that live as long.
    unsafe {
        if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) != 0 {
            return Err(Error::last_os_error());
        }
        for (file, text) in maps {
            let fd = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(Error::last_os_error());
            }
            let file = OwnedFd::from_raw_fd(fd);
            let written = libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.len());
            if usize::try_from(written) != Ok(text.len()) {
                return Err(Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// True if a signal interrupted the last call.
fn interrupted() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Space for one descriptor beside a message, aligned like its header.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// A message of one byte with space for a descriptor beside it.
fn message(byte: &mut libc::iovec, beside: &mut Beside) -> libc::msghdr {
    // SAFETY: all zeros is a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = byte;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    // SAFETY: computes a size.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    message
}

fn send(socket: RawFd, fd: RawFd) -> Result<(), Error> {
    let (mut byte, mut beside) = (0u8, Beside([0; 64]));
    let mut part = libc::iovec {
        iov_base: std::ptr::from_mut(&mut byte).cast(),
        iov_len: 1,
    };
    let message = message(&mut part, &mut beside);
    // SAFETY: there is room for a header and one descriptor, and everything lives until it is sent.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL)
    };
    if sent == 1 {
        Ok(())
    } else {
        Err(Error::last_os_error())
    }
}

fn receive(socket: RawFd) -> Result<OwnedFd, Error> {
    let (mut byte, mut beside) = (0u8, Beside([0; 64]));
    let mut part = libc::iovec {
        iov_base: std::ptr::from_mut(&mut byte).cast(),
        iov_len: 1,
    };
    let mut message = message(&mut part, &mut beside);
    // SAFETY: there is room for what is received; the header is looked at only where there is one.
    unsafe {
        while libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            if !interrupted() {
                return Err(Error::last_os_error());
            }
        }
        // A process that has failed sends its message without a descriptor.
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
        {
            return Err(Error::other("no file system came"));
        }
        let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A process that may make user namespaces, like the jail, gets such a file system without root.
    #[test]
    fn a_file_system_from_a_namespace_holds_files() {
        let root = match mount_apart() {
            Ok(root) => root,
            Err(why) => {
                // Checks by another program whether this machine permits it.
                let permitted = std::process::Command::new("unshare")
                    .args(["-U", "-m", "-r", "mount", "-t", "tmpfs", "none", "/tmp"])
                    .status()
                    .is_ok_and(|status| status.success());
                assert!(!permitted, "no file system came: {why}");
                let why = format!("this machine permits no file system to a user namespace: {why}");
                eprintln!("skipped: {why}");
                // Like `flopsmith_test_support::skipped`: the harness depends on no other crate of this workspace.
                if let Some(list) = std::env::var_os("FLOPSMITH_SKIPPED") {
                    let list = std::fs::File::options().append(true).open(list);
                    let _ = list
                        .and_then(|mut list| list.write_all(format!("huge: {why}\n").as_bytes()));
                }
                return;
            }
        };
        let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: plain system calls on our own descriptors.
        let size = unsafe {
            let fd = libc::openat(root.as_raw_fd(), c".".as_ptr(), flags, 0o600);
            assert!(fd >= 0, "{}", Error::last_os_error());
            let file = OwnedFd::from_raw_fd(fd);
            assert_eq!(libc::ftruncate(file.as_raw_fd(), 4 << 20), 0);
            let mut about: libc::stat = std::mem::zeroed();
            assert_eq!(libc::fstat(file.as_raw_fd(), &mut about), 0);
            about.st_size
        };
        assert_eq!(size, 4 << 20);
    }

    #[test]
    fn files_are_apart() {
        if let (Some(one), Some(other)) = (file(), file()) {
            // SAFETY: plain system calls on our own descriptors.
            unsafe {
                assert_eq!(libc::ftruncate(one.as_raw_fd(), 4096), 0);
                let mut about: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(other.as_raw_fd(), &mut about), 0);
                assert_eq!(about.st_size, 0);
            }
        }
    }
}
