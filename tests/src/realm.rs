//! Where a container runtime and all it starts live, and how they end together.
//!
//! A realm is a PID and a mount namespace inside a node's namespaces. The PID namespace is what makes the end certain:
//! shims and containers leave their parents behind, but none of them outlives the namespace's first process, and the
//! kernel kills that one if this process dies.
//!
//! Control groups are those of the unified hierarchy, below one group of the realm's own, with no resource limits: that
//! works alike on machines whose controllers are in the unified hierarchy, in version 1 hierarchies, or in both.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use serde_json::Value;

use crate::Node;

/// Where every runtime looks for network configurations by default.
pub(crate) const CONFIG_DIR: &str = "/etc/cni/net.d";
/// Where the node keeps its mount of the unified hierarchy.
const CGROUPS: &str = "/run/cgroup2";
/// What the first process of the PID namespace does. The shell stays: it reaps the orphans that shims leave it.
const BOOT: &str = r#"mount --bind "$1" /sys/fs/cgroup && shift && { "$@" & wait $!; }"#;

/// A node's network namespace with a PID namespace, a mount namespace and a control group of its own.
pub(crate) struct Realm<'node> {
    node: &'node Node,
    supervisor: Child,
    cgroup: PathBuf,
}

impl<'node> Realm<'node> {
    /// Starts `program` as the only inhabitant; what it prints goes to `log`. `name` is the control group's.
    pub(crate) fn start(node: &'node Node, name: &Path, program: &[&str], log: &Path) -> Result<Self> {
        let cgroup = Path::new(CGROUPS).join(name);
        node.run_in(|| make_cgroup(&cgroup))?;
        let log = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let mut command = node.command("unshare");
        // The node shares /run/netns on purpose, so propagation stays as it is.
        command.args(["--mount", "--propagation", "unchanged", "--pid", "--mount-proc"]);
        command.args(["--fork", "--kill-child", "sh", "-c", BOOT, "boot"]).arg(&cgroup).args(program);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // SAFETY: prctl(2) is one system call; the closure neither allocates nor locks.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        let supervisor = command.spawn().with_context(|| format!("starting {program:?}"))?;
        Ok(Self { node, supervisor, cgroup })
    }

    /// Fails if the program has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.supervisor.try_wait().context("asking for the supervisor's end")? {
            Some(status) => bail!("ended early: {status}"),
            None => Ok(()),
        }
    }

    /// A command that will run in here.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let init = self.init().context("the realm has ended")?.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &init, "--mount", "--net", "--pid", "--", program]);
        Ok(command)
    }

    /// The first process of the PID namespace, as numbered out here: the only child of `unshare --fork`.
    fn init(&self) -> Option<Pid> {
        let id = self.supervisor.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
    }
}

impl Drop for Realm<'_> {
    fn drop(&mut self) {
        // unshare ends after its child, and the child only after every other process of its namespace.
        match self.init() {
            Some(init) => drop(kill(init, Signal::SIGKILL)),
            None => drop(self.supervisor.kill()),
        }
        drop(self.supervisor.wait());
        // Empty groups are all that could stay behind, and a failing test has more to say than that.
        drop(self.node.run_in(|| remove_cgroup(&self.cgroup)));
    }
}

/// Puts a network configuration where a node's runtimes read it.
pub(crate) fn install(node: &Node, conflist: &Value) -> Result<()> {
    node.run_in(|| {
        fs::create_dir_all(CONFIG_DIR).with_context(|| format!("making {CONFIG_DIR}"))?;
        let file = Path::new(CONFIG_DIR).join("10-lab.conflist");
        fs::write(&file, conflist.to_string()).with_context(|| format!("writing {}", file.display()))
    })
}

fn make_cgroup(dir: &Path) -> Result<()> {
    if !Path::new(CGROUPS).is_dir() {
        fs::create_dir(CGROUPS).with_context(|| format!("making {CGROUPS}"))?;
        mount(Some("cgroup2"), CGROUPS, Some("cgroup2"), MsFlags::empty(), None::<&str>)
            .context("mounting the unified control groups")?;
    }
    fs::create_dir(dir).with_context(|| format!("making the control group {}", dir.display()))
}

/// Removes a control group and those below it; the files in them are the kernel's and go along.
fn remove_cgroup(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_cgroup(&path)?;
        }
    }
    fs::remove_dir(dir).with_context(|| format!("removing the control group {}", dir.display()))
}
