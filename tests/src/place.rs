//! Where code runs: a pair of namespaces, entered by a thread or by a child process.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::seccomp;

/// A network namespace, and a mount namespace where it has one of its own, held open by descriptors.
///
/// Sockets stay in the namespace they were made in, so a test makes them with [`Place::run_in`] and uses them
/// from any thread.
#[derive(Clone)]
pub struct Place {
    net: Arc<File>,
    mnt: Option<Arc<File>>,
    mounts_forbidden: bool,
}

impl Place {
    /// A new network namespace that sees the machine's own mounts; its `lo` is down.
    pub fn new() -> Result<Place> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
            Ok(Place { net: open_own("net")?, mnt: None, mounts_forbidden: false })
        })
    }

    /// Lets this process hold as many places as it may: each is an open file, and many shells allow 1024.
    pub fn allow_many() -> Result<()> {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("asking how many files may be open")?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most).context("raising how many files may be open")
    }

    /// New network and mount namespaces, the mounts arranged by `prepare`, which runs inside both.
    pub(crate) fn with_mounts(prepare: impl FnOnce() -> Result<()> + Send) -> Result<Place> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
                .context("making a network and a mount namespace")?;
            prepare()?;
            Ok(Place { net: open_own("net")?, mnt: Some(open_own("mnt")?), mounts_forbidden: false })
        })
    }

    /// A new network namespace in this place's mount namespace; `name` runs inside both, to bind it somewhere.
    pub(crate) fn sibling(&self, name: impl FnOnce() -> Result<()> + Send) -> Result<Place> {
        let net = self.run_in(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
            name()?;
            open_own("net")
        })?;
        Ok(Place { net, ..self.clone() })
    }

    /// Makes every process started here fail in mount(2) and its newer relatives with EPERM.
    pub(crate) fn forbid_mounts(&mut self) {
        self.mounts_forbidden = true;
    }

    /// A path that opens the network namespace while this value lives.
    pub fn netns_path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.net.as_raw_fd()).into()
    }

    /// Runs `work` on a thread of its own inside the namespaces and returns what it returned.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_a_thread(|| {
            // A thread that shares its root and working directory with others cannot change its mounts.
            unshare(CloneFlags::CLONE_FS).context("unsharing the file system context")?;
            self.enter().context("entering the namespaces")?;
            work()
        })
    }

    /// A command whose process will run inside the namespaces, with `/` as its working directory.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let place = self.clone();
        let enter = move || {
            place.enter()?;
            if place.mounts_forbidden { seccomp::forbid_mounts() } else { Ok(()) }
        };
        // SAFETY: between fork and exec the closure makes system calls only; it neither allocates nor locks.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// The same, and the process is killed when the thread that started it ends, whatever ends that one: a server outlives
    /// no test program that is interrupted.
    pub fn dependent(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(program);
        // SAFETY: one system call, and nothing is allocated.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        command
    }

    /// Runs a command line, split at blanks, and returns its standard output.
    ///
    /// # Errors
    /// If it cannot be started or does not exit with 0; the message carries its standard error.
    pub fn call(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let output =
            self.command(program).args(words).output().with_context(|| format!("running `{line}`"))?;
        if !output.status.success() {
            bail!("`{line}`: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed other than UTF-8"))
    }

    /// Like [`Place::call`], for commands that print one JSON document; no output at all is `null`.
    pub fn call_json(&self, line: &str) -> Result<Value> {
        let text = self.call(line)?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).with_context(|| format!("`{line}` printed other than JSON: {text}"))
    }

    /// Sets a sysctl of the network namespace, named as in sysctl(8).
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.run_in(|| std::fs::write(&path, value).with_context(|| format!("writing {value} to {path}")))
    }

    /// Reads a sysctl of the network namespace, without the line's end.
    pub fn sysctl(&self, name: &str) -> Result<String> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.run_in(|| {
            Ok(std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?.trim().into())
        })
    }

    fn enter(&self) -> io::Result<()> {
        setns(self.net.as_fd(), CloneFlags::CLONE_NEWNET)?;
        if let Some(mnt) = &self.mnt {
            setns(mnt.as_fd(), CloneFlags::CLONE_NEWNS)?;
        }
        Ok(())
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn open_own(kind: &str) -> Result<Arc<File>> {
    let path = format!("/proc/thread-self/ns/{kind}");
    Ok(Arc::new(File::open(&path).with_context(|| format!("opening {path}"))?))
}
