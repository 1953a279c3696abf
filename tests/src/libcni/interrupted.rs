//! An execution that is stopped in the middle, at a system call of choice, and killed or let go on.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Child, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::exec::{Output, judge};
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
    let mut child = traced(node, kind, verb, env, stdin)?;
    match go_on(&child, 0, stop)? {
        Ok((stops, _)) => Ok(End::Exited(stops)),
        Err(Stopped) => {
            child.kill()?;
            child.wait()?;
            Ok(End::Killed)
        }
    }
}

/// The same, but at the stop `meanwhile` happens, and then the plugin goes on to its end.
///
/// # Errors
/// See [`super::exec`].
pub fn exec_interrupted(
    node: &Node,
    kind: &str,
    verb: &str,
    env: &[(&str, &str)],
    stdin: &str,
    stop: usize,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Output> {
    let mut child = traced(node, kind, verb, env, stdin)?;
    let mut end = go_on(&child, 0, stop)?;
    if end.is_err() {
        meanwhile()?;
        end = go_on(&child, stop, usize::MAX)?;
    }
    let Ok((_, status)) = end else { bail!("the plugin does not end") };
    let mut stdout = Vec::new();
    child.stdout.take().context("no pipe from the plugin")?.read_to_end(&mut stdout)?;
    let output = process::Output { status, stdout, stderr: Vec::new() };
    judge(&format!("{verb} by `{kind}`, interrupted at stop {stop}"), output)
}

/// It stands at a system call.
struct Stopped;

/// Starts the plugin, stopped at its first instruction.
fn traced(node: &Node, kind: &str, verb: &str, env: &[(&str, &str)], stdin: &str) -> Result<Child> {
    let mut command = node.command(Path::new(PLUGIN_DIR).join(kind));
    command.env("CNI_COMMAND", verb).env("CNI_PATH", PLUGIN_DIR).envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: one system call, and nothing is allocated.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    // A tracee belongs to the thread that made it, and so all that follows is on this one.
    let mut child = command.spawn().with_context(|| format!("executing the plugin `{kind}` for {verb}"))?;
    child.stdin.take().context("no pipe to the plugin")?.write_all(stdin.as_bytes())?;
    let pid = pid(&child);
    let WaitStatus::Stopped(_, Signal::SIGTRAP) = waitpid(pid, None)? else { bail!("not stopped by execve") };
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).context("tracing")?;
    Ok(child)
}

/// Lets it run from one stop to another. If it ends before, returns after how many stops, and how.
fn go_on(child: &Child, from: usize, to: usize) -> Result<Result<(usize, ExitStatus), Stopped>> {
    let pid = pid(child);
    let mut stops = from;
    let mut signal = None;
    while stops < to {
        ptrace::syscall(pid, signal.take()).context("going on")?;
        match waitpid(pid, None)? {
            WaitStatus::PtraceSyscall(_) => stops += 1,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            // As wait(2) has it: the code is in the second byte.
            WaitStatus::Exited(_, code) => return Ok(Ok((stops, ExitStatus::from_raw(code << 8)))),
            other => bail!("the plugin ended otherwise: {other:?}"),
        }
    }
    Ok(Err(Stopped))
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}
