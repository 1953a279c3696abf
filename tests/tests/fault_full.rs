//! Nothing left to give: ports, addresses, capabilities; and time that goes the other way.

use std::fmt::Write;
use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::exec;
use ebpf_bridge_lab::{Node, Scene, config, plugin};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::fault::{Fault, fails_clean, says, scene, shell};
use crate::suite::Suite;

const CODE_KERNEL: u32 = 101;
const CODE_RANGE_FULL: u32 = 100;
const CODE_NOT_AVAILABLE: u32 = 50;
/// capabilities(7), linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

pub(crate) fn register(suite: &mut Suite) {
    suite.test(
        "fault: a bridge with all the ports it can have: STATUS says 50, ADD why, DEL frees one",
        ports,
    );
    suite.test("fault: a range that is full: STATUS says 50, the ADD says why and nothing is left", range);
    suite.test(
        "fault: without CAP_BPF and CAP_SYS_ADMIN the ADD says what it may not, nothing is left",
        || {
            let powerless = Powerless(vec![CAP_BPF, CAP_SYS_ADMIN]);
            fails_clean(
                &powerless,
                scene("auto", &json!({}))?,
                CODE_KERNEL,
                &["namespace", "Operation not permitted"],
            )
        },
    );
    suite.test("fault: a clock that steps back costs no pod its address", clock);
}

struct Powerless(Vec<u32>);

impl Fault for Powerless {
    fn make(&self, node: &mut Node) -> Result<()> {
        node.drop_capabilities(&self.0);
        Ok(())
    }

    fn mend(&self, node: &mut Node) -> Result<()> {
        node.drop_capabilities(&[]);
        Ok(())
    }
}

fn status(scene: &Scene) -> Result<()> {
    let list = scene.runtime.list();
    let request = config::with(list.plugins[0].clone(), &json!({"cniVersion": "1.1.0", "name": list.name}));
    exec(&scene.node, plugin::NAME, "STATUS", &[], &request.to_string()).map(drop)
}

/// `BR_MAX_PORTS` is 1024 and port 0 is none (net/bridge/br_private.h, br_if.c).
fn ports() -> Result<()> {
    let mut scene = scene("off", &json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/20"}]]}}))?;
    scene.wire("pod0")?;
    fill_bridge(&scene.node, 1022)?;
    let error = refused(status(&scene))?;
    says(&error, CODE_NOT_AVAILABLE, &[config::BRIDGE, "1023"])?;
    let before = scene.node.tree("/var/lib/cni/networks")?;
    let error = refused(scene.wire("pod1").map(|pod| pod.address()))?;
    says(&error, CODE_KERNEL, &[config::BRIDGE, "1023"])?;
    equal("leases", scene.node.tree("/var/lib/cni/networks")?, before)?;
    scene.node.call("ip link delete p0a")?;
    status(&scene).context("STATUS with room for two")?;
    scene.wire("pod2").map(drop)
}

/// Both ends of a pair are ports, and stay down: up they would be a loop.
fn fill_bridge(node: &Node, ports: usize) -> Result<()> {
    let mut batch = String::new();
    for number in 0..ports / 2 {
        let (a, b) = (format!("p{number}a"), format!("p{number}b"));
        writeln!(batch, "link add {a} master br0 type veth peer name {b}")?;
        writeln!(batch, "link set {b} master br0")?;
    }
    let mut ip = node.command("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    ip.stdin.take().context("no pipe")?.write_all(batch.as_bytes())?;
    ensure!(ip.wait()?.success(), "ip -batch failed");
    Ok(())
}

fn two_addresses() -> Value {
    json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.3"}]]}})
}

fn range() -> Result<()> {
    let lease =
        "mkdir -p /var/lib/cni/networks/n1; cd /var/lib/cni/networks/n1; printf 'stranger\\r\\neth0' >";
    for taken in [2, 3] {
        let mut scene = scene("auto", &two_addresses())?;
        shell(&scene.node, &format!("{lease}10.1.0.{taken}"))?;
        scene.wire("pod0")?;
        says(&refused(status(&scene))?, CODE_NOT_AVAILABLE, &["10.1.0.2-10.1.0.3"])?;
        let before = ebpf_bridge_lab::Snapshot::take(&scene.node)?.without_link_local();
        let error = refused(scene.wire("pod1").map(|pod| pod.address()))?;
        says(&error, CODE_RANGE_FULL, &["10.1.0.2-10.1.0.3", "2 of 2"])?;
        ebpf_bridge_lab::Snapshot::take(&scene.node)?.without_link_local().ensure_equals(&before)?;
    }
    Ok(())
}

/// The clock cannot be stepped for one node alone; leases and records from tomorrow are what a step leaves behind.
fn clock() -> Result<()> {
    let mut scene = scene("auto", &two_addresses())?;
    scene.wire("pod0")?;
    scene.wire("pod1")?;
    shell(&scene.node, "touch -d tomorrow /var/lib/cni/networks/n1/* /run/ebpf-bridge/n1/*")?;
    for pod in &scene.pods {
        scene.runtime.check(&scene.node, &pod.container)?;
    }
    // Neither pod is taken for one that is gone.
    let error = refused(scene.wire("pod2").map(|pod| pod.address()))?;
    says(&error, CODE_RANGE_FULL, &["2 of 2"])?;
    scene.unwire()?;
    let left = [scene.node.tree("/var/lib/cni/networks")?, scene.node.tree("/run/ebpf-bridge")?].concat();
    equal("left", left, Vec::<String>::new())
}
