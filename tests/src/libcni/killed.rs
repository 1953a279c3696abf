//! An execution that ends in the middle, at a system call of choice.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::{Node, mounts::PLUGIN_DIR};

/// Where an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed at the system call asked for.
    Killed,
    /// It came to its end by itself, after so many stops.
    Exited(usize),
}

/// Executes the plugin `kind` as [`super::exec`] does, and kills it at its `stop`th stop: each system call has one
/// before and one after.
pub fn exec_killed(
    node: &Node,
    kind: &str,
    verb: &str,
    env: &[(&str, &str)],
    stdin: &str,
    stop: usize,
) -> Result<End> {
    let mut command = node.command(Path::new(PLUGIN_DIR).join(kind));
    command.env("CNI_COMMAND", verb).env("CNI_PATH", PLUGIN_DIR).envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one system call, and nothing is allocated.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    // A tracee belongs to the thread that made it, and so all that follows is on this one.
    let mut child = command.spawn().with_context(|| format!("executing the plugin `{kind}` for {verb}"))?;
    child.stdin.take().context("no pipe to the plugin")?.write_all(stdin.as_bytes())?;
    let pid = Pid::from_raw(child.id() as i32);
    let WaitStatus::Stopped(_, Signal::SIGTRAP) = waitpid(pid, None)? else { bail!("not stopped by execve") };
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).context("tracing")?;
    let mut stops = 0;
    let mut signal = None;
    loop {
        ptrace::syscall(pid, signal.take()).context("going on")?;
        match waitpid(pid, None)? {
            WaitStatus::PtraceSyscall(_) => stops += 1,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::Exited(..) => return Ok(End::Exited(stops)),
            other => bail!("the plugin ended otherwise: {other:?}"),
        }
        if stops == stop {
            child.kill()?;
            child.wait()?;
            return Ok(End::Killed);
        }
    }
}
