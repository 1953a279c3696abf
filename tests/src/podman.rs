//! Podman for a node, with CNI for its networks, as 4.3 still has it; nothing of the machine's own takes part.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::mounts::PLUGIN_DIR;
use crate::realm::{self, CONFIG_DIR, Realm};
use crate::{Node, image};

/// Podman on a node. It ends with the value, and with it all it started.
pub struct Podman<'node> {
    realm: Realm<'node>,
    dir: TempDir,
    network: String,
}

impl<'node> Podman<'node> {
    /// Podman with `conflist` as its only network and the busybox image loaded. It also ends with the thread that
    /// calls this.
    pub fn start(node: &'node Node, conflist: &Value) -> Result<Self> {
        realm::install(node, conflist)?;
        let network = conflist["name"].as_str().context("a network without a name")?.to_owned();
        let dir = TempDir::with_prefix("ebpf-bridge-podman-").context("making podman's directory")?;
        for (name, text) in [("containers.conf", configuration()), ("storage.conf", storage(dir.path()))] {
            fs::write(dir.path().join(name), text).with_context(|| format!("writing podman's {name}"))?;
        }
        let name = dir.path().file_name().context("a directory without a name")?;
        let realm = Realm::start(node, name.as_ref(), &["sleep", "infinity"], &dir.path().join("log"))?;
        let podman = Self { realm, dir, network };
        let archive = podman.dir.path().join("busybox.tar");
        image::write(&archive)?;
        podman.call(&["load", "--quiet", "--input", &archive.to_string_lossy()])?;
        Ok(podman)
    }

    /// Runs a command in a container of its own in the background, the node's ports (first) being its own (second),
    /// all TCP.
    pub fn run(&self, name: &str, host_ports: &[(u16, u16)], command: &[&str]) -> Result<()> {
        let ports: Vec<String> =
            host_ports.iter().map(|(host, own)| format!("--publish={host}:{own}")).collect();
        let mut arguments = vec!["run", "--detach", "--name", name, "--network", &self.network];
        arguments.extend(ports.iter().map(String::as_str));
        arguments.push(image::NAME);
        self.call(&[&arguments, command].concat()).map(drop)
    }

    /// Runs a command in a container of its own to its end and returns what it printed.
    pub fn run_once(&self, name: &str, command: &[&str]) -> Result<String> {
        let run = ["run", "--rm", "--name", name, "--network", &self.network, image::NAME];
        self.call(&[&run, command].concat())
    }

    /// Runs a command in a container that runs and returns what it printed.
    pub fn exec(&self, name: &str, command: &[&str]) -> Result<String> {
        self.call(&[&["exec", name], command].concat())
    }

    /// The address of a container, as podman knows it.
    pub fn address(&self, name: &str) -> Result<IpAddr> {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let shown = self.call(&["inspect", "--format", format, name])?;
        shown.trim().parse().with_context(|| format!("address {shown:?} of the container {name}"))
    }

    /// Ends and removes a container.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.call(&["rm", "--force", "--time", "0", name]).map(drop)
    }

    fn call(&self, arguments: &[&str]) -> Result<String> {
        let mut podman = self.realm.command("podman")?;
        for (variable, file) in
            [("CONTAINERS_CONF", "containers.conf"), ("CONTAINERS_STORAGE_CONF", "storage.conf")]
        {
            podman.env(variable, self.dir.path().join(file));
        }
        podman.args(["--tmpdir", "/run/podman", "--cgroup-manager", "cgroupfs"]).args(arguments);
        let output = podman.stdin(Stdio::null()).output().context("running podman")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "podman {}: {}: {}",
            arguments.join(" "),
            output.status,
            said.trim()
        );
        String::from_utf8(output.stdout).context("podman printed other than UTF-8")
    }
}

/// No resource limits, since the unified hierarchy may have no controllers, and nothing shared with another podman.
fn configuration() -> String {
    format!(
        r#"[network]
network_backend = "cni"
cni_plugin_dirs = ["{PLUGIN_DIR}"]
network_config_dir = "{CONFIG_DIR}"
[engine]
events_logger = "none"
lock_type = "file"
runtime = "runc"
[containers]
pids_limit = 0
log_driver = "k8s-file"
"#
    )
}

/// The only driver that needs nothing of the file system it works on.
fn storage(dir: &Path) -> String {
    let root = dir.join("root");
    format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"/run/containers\"\n",
        root.display()
    )
}
