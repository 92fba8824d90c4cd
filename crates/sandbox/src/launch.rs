#![expect(
    unsafe_code,
    reason = "posix_spawn has no safe interface that places descriptors"
)]
//! Starts bubblewrap from a thread that lives as long as the sandbox.
//!
//! The kernel ties "die with parent" to the *thread* that started a child, so the end of a pool thread would end its
//! jails. `posix_spawn` does not copy the address space, so a large trainer starts jails as fast as a small tool does.
//! It also closes every descriptor that was not meant for the jail.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::error::Error;

/// A process to start. The descriptors in `fds` get the given numbers; all others are closed.
pub(crate) struct Request {
    pub program: CString,
    pub arguments: Vec<CString>,
    pub fds: Vec<(RawFd, RawFd)>,
}

type Order = (Request, mpsc::SyncSender<io::Result<i32>>);

/// The thread that starts jails.
pub(crate) struct Launcher {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Launcher {
    /// Starts the thread; `prepare` runs in it first.
    pub fn new(prepare: impl FnOnce() + Send + 'static) -> Result<Self, Error> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let thread = std::thread::Builder::new()
            .name("jail-launcher".into())
            .spawn(move || {
                prepare();
                for (request, reply) in inbox {
                    // The requester may have gone. Then no thread waits for the child, and the closed supervisor pipe
                    // ends it.
                    let _gone = reply.send(start(&request));
                }
            })
            .map_err(|source| Error::System {
                what: "start the jail launcher",
                source,
            })?;
        Ok(Launcher {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Starts a process and returns its id.
    pub fn start(&self, request: Request) -> Result<i32, Error> {
        let program = PathBuf::from(request.program.to_string_lossy().into_owned());
        let ended = || io::Error::other("the launcher thread has ended");
        let (reply, answer) = mpsc::sync_channel(1);
        self.orders
            .as_ref()
            .and_then(|orders| orders.send((request, reply)).ok())
            .ok_or_else(ended)
            .and_then(|()| answer.recv().map_err(|_| ended())?)
            .map_err(|source| Error::Spawn { program, source })
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn check(code: i32) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initialises what the pointer points at.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Actions(actions))
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: `new` initialised it, and it is destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the call initialises what the pointer points at.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        Ok(Attributes(attributes))
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: `new` initialised it, and it is destroyed once.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

fn start(request: &Request) -> io::Result<i32> {
    let last = request
        .fds
        .iter()
        .map(|(_, to)| *to)
        .max()
        .unwrap_or(2)
        .max(2);
    let wanted: BTreeSet<RawFd> = request.fds.iter().map(|(_, to)| *to).collect();
    // Copies have numbers above every target, so that placing one descriptor cannot overwrite the source of another.
    let mut copies: Vec<(OwnedFd, RawFd)> = Vec::with_capacity(request.fds.len());
    for (from, to) in &request.fds {
        // SAFETY: the caller keeps `from` open until `start` returns.
        let from = unsafe { std::os::fd::BorrowedFd::borrow_raw(*from) };
        let copy = nix::fcntl::fcntl(from, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(last + 1))?;
        // SAFETY: the descriptor is new and nothing else owns it.
        copies.push((unsafe { std::os::fd::FromRawFd::from_raw_fd(copy) }, *to));
    }

    let mut actions = Actions::new()?;
    let mut attributes = Attributes::new()?;
    let (file, attr) = (actions.0.as_mut_ptr(), attributes.0.as_mut_ptr());
    // SAFETY: `file` and `attr` are initialised and live to the end of this function, as do the
    // signal sets while they are copied.
    unsafe {
        for (copy, to) in &copies {
            check(libc::posix_spawn_file_actions_adddup2(
                file,
                copy.as_raw_fd(),
                *to,
            ))?;
        }
        for number in (0..=last).filter(|n| !wanted.contains(n)) {
            check(libc::posix_spawn_file_actions_addclose(file, number))?;
        }
        check(libc::posix_spawn_file_actions_addclosefrom_np(
            file,
            last + 1,
        ))?;

        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(signals.as_mut_ptr());
        check(libc::posix_spawnattr_setsigmask(attr, signals.as_ptr()))?;
        libc::sigfillset(signals.as_mut_ptr());
        check(libc::posix_spawnattr_setsigdefault(attr, signals.as_ptr()))?;
        // The process gets its own process group, so Ctrl-C on the terminal reaches only this program, which then ends
        // its jobs in order.
        check(libc::posix_spawnattr_setpgroup(attr, 0))?;
        check(libc::posix_spawnattr_setflags(
            attr,
            (libc::POSIX_SPAWN_SETSIGMASK
                | libc::POSIX_SPAWN_SETSIGDEF
                | libc::POSIX_SPAWN_SETPGROUP) as i16,
        ))?;
    }

    let mut arguments: Vec<*mut libc::c_char> = request
        .arguments
        .iter()
        .map(|a| a.as_ptr().cast_mut())
        .collect();
    arguments.push(std::ptr::null_mut());
    let environment: [*mut libc::c_char; 1] = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: all pointers are to initialised values that live through the call; the argument and
    // environment arrays end with a null pointer.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            request.program.as_ptr(),
            file,
            attr,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    Ok(pid)
}
