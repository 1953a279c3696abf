//! A container runtime for a node: containerd and runc from the distribution, and nothing of the machine's own.
//!
//! containerd runs in the node's network namespace and in mount and PID namespaces of its own inside the node's.
//! The PID namespace is what makes the end certain: shims and containers leave their parents behind, but none of them
//! outlives the namespace's first process, and the kernel kills that one if this process dies.
//!
//! Control groups are those of the unified hierarchy, below one group of this value's own, with no resource limits:
//! that works alike on machines whose controllers are in the unified hierarchy, in version 1 hierarchies, or in both.

mod cri;
pub mod image;
mod realm;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Node, mounts::PLUGIN_DIR};
use cri::Cri;
pub use cri::{PodSpec, RunningPod};
use realm::Realm;

/// Where `ctr run --cni` and, by default, every CRI runtime look for network configurations.
const CONFIG_DIR: &str = "/etc/cni/net.d";
/// The containerd namespace of the CRI plugin; `ctr` shares its images by using the same.
const NAMESPACE: &str = "k8s.io";
/// The only snapshotter that needs nothing of the file system it works on.
const SNAPSHOTTER: &str = "native";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A containerd on a node. It ends with the value, and with it all it started.
pub struct Containerd<'node> {
    cri: Cri,
    realm: Realm<'node>,
    dir: TempDir,
}

impl<'node> Containerd<'node> {
    /// Starts containerd on a node with `conflist` as its network configuration and the busybox image imported.
    /// It also ends with the thread that calls this.
    pub fn start(node: &'node Node, conflist: &Value) -> Result<Self> {
        node.run_in(|| install(conflist))?;
        let dir = TempDir::with_prefix("ebpf-bridge-containerd-").context("making containerd's directory")?;
        let config = dir.path().join("config.toml");
        fs::write(&config, configuration(dir.path())).context("writing containerd's configuration")?;

        let name = dir.path().file_name().context("a directory without a name")?;
        let program = ["containerd", "--config", &config.to_string_lossy()];
        let mut realm = Realm::start(node, name.as_ref(), &program, &log(dir.path()))?;
        let cri = connect(&mut realm, &socket(dir.path())).with_context(|| log_tail(dir.path()))?;

        let containerd = Self { cri, realm, dir };
        containerd.import_busybox()?;
        Ok(containerd)
    }

    /// Runs a pod as the kubelet does.
    pub fn run_pod(&self, spec: &PodSpec) -> Result<RunningPod> {
        self.cri.run_pod(spec).with_context(|| log_tail(self.dir.path()))
    }

    /// Removes a pod as the kubelet does.
    pub fn remove_pod(&self, pod: &RunningPod) -> Result<()> {
        self.cri.remove_pod(&pod.id).with_context(|| log_tail(self.dir.path()))
    }

    /// Runs a command in a container of its own by `ctr run --cni`, to its end, and returns what it printed. The
    /// container's network has been deleted when this returns: after its namespace was gone, and so without one.
    pub fn run_once(&self, id: &str, command: &[&str]) -> Result<String> {
        // A weight for the CPU, ctr's default, needs a controller.
        let run =
            ["run", "--rm", "--cni", "--cpu-shares", "0", "--snapshotter", SNAPSHOTTER, image::NAME, id];
        self.ctr(&[&run, command].concat()).with_context(|| log_tail(self.dir.path()))
    }

    /// The shims that are alive: one per pod that has not been removed.
    pub fn shims(&self) -> Result<Vec<String>> {
        let mut ps = self.realm.command("ps")?;
        let processes = ps.args(["-A", "-o", "stat=,args="]).output().context("running ps")?;
        let text = String::from_utf8_lossy(&processes.stdout);
        let is_live_shim = |line: &&str| line.contains("containerd-shim") && !line.starts_with('Z');
        Ok(text.lines().filter(is_live_shim).map(str::to_owned).collect())
    }

    fn import_busybox(&self) -> Result<()> {
        let archive = self.dir.path().join("busybox.tar");
        image::write(&archive)?;
        self.ctr(&["images", "import", "--snapshotter", SNAPSHOTTER, &archive.to_string_lossy()])?;
        // The CRI plugin hears of a new image by an event.
        wait_until("the CRI plugin to know the image", || self.cri.has_image(image::NAME))
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String> {
        let mut ctr = self.realm.command("ctr")?;
        ctr.arg("--address").arg(socket(self.dir.path())).args(["--namespace", NAMESPACE]).args(arguments);
        let output = ctr.stdin(Stdio::null()).output().context("running ctr")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ctr {}: {}: {}", arguments.join(" "), output.status, said.trim());
        String::from_utf8(output.stdout).context("ctr printed other than UTF-8")
    }
}

/// Puts a network configuration where runtimes read it.
fn install(conflist: &Value) -> Result<()> {
    fs::create_dir_all(CONFIG_DIR).with_context(|| format!("making {CONFIG_DIR}"))?;
    let file = Path::new(CONFIG_DIR).join("10-lab.conflist");
    fs::write(&file, conflist.to_string()).with_context(|| format!("writing {}", file.display()))
}

fn connect(realm: &mut Realm, socket: &Path) -> Result<Cri> {
    wait_until("containerd to listen", || {
        realm.check_alive().context("containerd")?;
        Ok(UnixStream::connect(socket).is_ok())
    })?;
    Cri::connect(socket)
}

/// Every path private, and no resource limits, since the unified hierarchy may have no controllers.
fn configuration(dir: &Path) -> String {
    let path = |name: &str| dir.join(name).display().to_string();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  disable_cgroup = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{SNAPSHOTTER}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGIN_DIR}"
    conf_dir = "{CONFIG_DIR}"
"#,
        root = path("root"),
        state = path("state"),
        socket = socket(dir).display(),
        opt = path("opt"),
        image = image::NAME,
    )
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("containerd.sock")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("containerd.log")
}

/// What containerd said last that is worth reading, to go with an error.
fn log_tail(dir: &Path) -> String {
    let log = fs::read_to_string(log(dir)).unwrap_or_default();
    let telling: Vec<&str> = log.lines().filter(|line| !line.contains("level=info")).collect();
    format!("containerd's log ends:\n{}", telling[telling.len().saturating_sub(10)..].join("\n"))
}

fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    while !done()? {
        ensure!(Instant::now() < deadline, "waited {START_TIMEOUT:?} for {what}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
