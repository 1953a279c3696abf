//! Logs that many calls share, calls that are captured, and captured calls that run again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, End, exec, exec_killed};
use ebpf_bridge_lab::operator::{operate, operate_unprivileged};
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, config};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::suite::Suite;

const CAPTURES: &str = "/run/captures";
/// The size from which the plugin puts a log file aside, bytes.
const FULL: u64 = 8 << 20;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("logs: a full file is put aside once, by calls that all find it full", rotates);
    suite.test("logs: the id in an error's details leads to its line in the log", ids);
    suite.test("capture: what went in and out of each call, for root alone", captures);
    suite.test("capture: a call that was killed is there without an answer", captures_killed);
    suite.test("capture: the oldest calls make room", makes_room);
    suite.test("capture: a directory that others may write to is not used, and the call goes on", distrusts);
    suite.test("capture: a value that is no absolute path is refused", refuses);
    suite.test("replay: a pod's life runs again, and the node notices nothing", replays);
    suite.test("replay: a refused call is refused again", replays_refusal);
    suite.test("replay: what cannot be replayed is said", not_replayed);
    suite.test_with(&[Need::Tool("setpriv")], "replay: without root it says so", unprivileged);
}

fn capturing() -> Value {
    config::with(config::bridge("auto"), &json!({ "captureDir": CAPTURES }))
}

fn rotates() -> Result<()> {
    let node = Node::new()?;
    node.run_in(|| Ok(fs::File::create(config::LOG)?.set_len(FULL)?))?;
    let scene = Scene::new(node, Conflist::of(config::bridge("auto")));
    let pods = (0..6).map(|i| scene.node.pod(&format!("pod{i}"))).collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let add = |pod| scene.runtime.add(&scene.node, &Container::of(pod)).map(drop);
        let adds: Vec<_> = pods.iter().map(|pod| scope.spawn(move || add(pod))).collect();
        adds.into_iter().try_for_each(|add| add.join().map_err(|_| anyhow::anyhow!("an ADD panicked"))?)
    })?;
    let aside = scene.node.call(&format!("stat -c %s {}.1", config::LOG))?.trim().parse::<u64>()?;
    let text = scene.log()?;
    let told = pods.iter().filter(|pod| text.contains(pod.name())).count();
    ensure!(aside >= FULL && (text.len() as u64) < FULL, "aside {aside} bytes, and {}", text.len());
    // Lines of calls that had the file open before it was put aside are in there.
    let tail = scene.node.call(&format!("tail -c +{} {}.1", FULL + 1, config::LOG))?;
    let told_aside = pods.iter().filter(|pod| tail.contains(pod.name())).count();
    ensure!(told + told_aside >= pods.len(), "{told} and {told_aside} of {} pods are told of", pods.len());
    Ok(())
}

fn ids() -> Result<()> {
    let node = Node::new()?;
    let request =
        config::with(config::bridge("auto"), &json!({"cniVersion": "1.0.0", "name": "n1", "mtu": 7}));
    let error = refused(exec(&node, "ebpf-bridge", "ADD", &environment("c1"), &request.to_string()))?;
    let details = error.details.context("no details")?;
    let id =
        details.strip_prefix("call ").and_then(|rest| rest.split(';').next()).context(details.clone())?;
    let log = node.read(config::LOG)?;
    ensure!(log.lines().any(|line| line.contains(id) && line.contains(&error.msg)), "no {id} in {log}");
    Ok(())
}

fn environment(id: &str) -> [(&str, &str); 4] {
    [("CNI_CONTAINERID", id), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "/run/netns/none"), ("SECRET", "x")]
}

/// The captured calls by their verbs.
fn captured(node: &Node) -> Result<BTreeMap<String, (Value, String)>> {
    let mut calls = BTreeMap::new();
    for name in node.tree(CAPTURES)?.iter().filter(|name| !name.contains('/')) {
        let call: Value = serde_json::from_str(&node.read(format!("{CAPTURES}/{name}/call.json"))?)?;
        let verb = name.rsplit('-').next().context("no verb")?.to_owned();
        calls.insert(verb, (call, name.clone()));
    }
    Ok(calls)
}

fn captures() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, Conflist::of(capturing()));
    scene.wire_with("pod1", |container| container.args("K8S_POD_NAME=web"))?;
    scene.runtime.check(&scene.node, &scene.pods[0].container)?;
    scene.unwire()?;
    let request = config::with(capturing(), &json!({"cniVersion": "1.1.0", "name": "n1", "mtu": 7}));
    let error =
        refused(exec(&scene.node, "ebpf-bridge", "STATUS", &environment("c1"), &request.to_string()))?;

    let calls = captured(&scene.node)?;
    equal(
        "verbs",
        calls.keys().map(String::as_str).collect::<Vec<_>>(),
        vec!["ADD", "CHECK", "DEL", "STATUS"],
    )?;
    let (add, directory) = &calls["ADD"];
    equal("the exit code", add["exitCode"].as_u64(), Some(0))?;
    equal("CNI_ARGS", add["environment"]["CNI_ARGS"].as_str(), Some("K8S_POD_NAME=web"))?;
    equal("the caller", add["parent"]["pid"].as_u64(), Some(std::process::id().into()))?;
    ensure!(add["parent"]["command"][0].as_str().is_some_and(|word| word.contains("lab")), "{add}");
    ensure!(add["took"].as_u64() > Some(0) && add["started"].as_u64() > Some(1_600_000_000_000_000), "{add}");
    let read = |name: &str| scene.node.read(format!("{CAPTURES}/{directory}/{name}"));
    let stdin: Value = serde_json::from_str(&read("stdin")?)?;
    equal("the configuration", &stdin["captureDir"], &json!(CAPTURES))?;
    let stdout: Value = serde_json::from_str(&read("stdout")?)?;
    equal("the pod's address", stdout["ips"][0]["address"].as_str(), Some("10.1.0.2/24"))?;

    let (status, directory) = &calls["STATUS"];
    equal("the exit code of the refused", status["exitCode"].as_u64(), Some(1))?;
    ensure!(
        error.details.is_some_and(|details| details.contains(status["call"].as_str().unwrap_or("?"))),
        "id"
    );
    ensure!(!status["environment"].to_string().contains("SECRET"), "{status}");
    let said: Value = serde_json::from_str(&scene.node.read(format!("{CAPTURES}/{directory}/stdout"))?)?;
    equal("the error", said["msg"].as_str(), Some(error.msg.as_str()))?;
    for_root_alone(&scene.node)
}

fn for_root_alone(node: &Node) -> Result<()> {
    for path in node.tree(CAPTURES)? {
        let mode = node.run_in(|| Ok(fs::metadata(format!("{CAPTURES}/{path}"))?.mode() & 0o7777))?;
        equal(&path, mode, if path.contains('/') { 0o600 } else { 0o700 })?;
    }
    Ok(())
}

fn captures_killed() -> Result<()> {
    let node = Node::new()?;
    let pod = node.pod("pod1")?;
    let netns = pod.netns();
    let request = config::with(capturing(), &json!({"cniVersion": "1.0.0", "name": "n1"})).to_string();
    let environment = [("CNI_CONTAINERID", "pod1"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", netns.as_str())];
    let mut stop = 500;
    // Wherever it is killed, what is there was written before.
    while exec_killed(&node, "ebpf-bridge", "ADD", &environment, &request, stop)? != End::Killed {
        stop /= 2;
    }
    let calls = captured(&node)?;
    let (call, directory) = calls.get("ADD").context("not captured")?;
    ensure!(call.get("exitCode").is_none_or(Value::is_null), "it ended: {call}");
    ensure!(node.read(format!("{CAPTURES}/{directory}/stdin"))? == request, "another input");
    ensure!(!node.tree(CAPTURES)?.iter().any(|path| path.ends_with("stdout")), "an answer");
    Ok(())
}

fn makes_room() -> Result<()> {
    let node = Node::new()?;
    node.call(&format!("mkdir -m 700 {CAPTURES}"))?;
    node.run_in(|| {
        for number in 0..300 {
            fs::create_dir(format!("{CAPTURES}/{number:08x}-1-ADD"))?;
            fs::write(format!("{CAPTURES}/{number:08x}-1-ADD/stdin"), "{}")?;
        }
        Ok(fs::create_dir(format!("{CAPTURES}/0-of-somebody-else"))?)
    })?;
    let mut scene = Scene::new(node, Conflist::of(capturing()));
    scene.wire("pod1")?;
    let names: Vec<_> = scene.node.tree(CAPTURES)?.into_iter().filter(|path| !path.contains('/')).collect();
    equal("directories", names.len(), 257)?;
    ensure!(names.contains(&"0-of-somebody-else".into()), "somebody else's is gone");
    ensure!(
        !names.contains(&"0000002c-1-ADD".into()) && names.contains(&"0000002d-1-ADD".into()),
        "{names:?}"
    );
    Ok(())
}

fn distrusts() -> Result<()> {
    let node = Node::new()?;
    node.call(&format!("mkdir -m 777 {CAPTURES}"))?;
    let mut scene = Scene::new(node, Conflist::of(capturing()));
    scene.wire("pod1")?;
    ensure!(scene.node.tree(CAPTURES)?.is_empty(), "it was used");
    let log = scene.log()?;
    ensure!(log.contains(&format!("captureDir is {CAPTURES}: cannot use it")), "{log}");
    Ok(())
}

fn refuses() -> Result<()> {
    let node = Node::new()?;
    for value in ["captures", "/run/../etc"] {
        let request =
            config::with(capturing(), &json!({"cniVersion": "1.0.0", "name": "n1", "captureDir": value}));
        let error = refused(exec(&node, "ebpf-bridge", "ADD", &environment("c1"), &request.to_string()))?;
        equal("the code", error.code, 7)?;
        ensure!(error.msg.contains("captureDir") && error.msg.contains(value), "{error}");
    }
    Ok(())
}

fn replays() -> Result<()> {
    let changes = json!({
        "captureDir": CAPTURES, "ipam": {"dataDir": "/run/leases"}, "ebpf": {"uplinks": ["eth0"]},
    });
    let conf = config::with(config::bridge("auto"), &changes);
    let mut scene = Scene::new(Node::new()?, Conflist::of(conf));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    scene.runtime.check(&scene.node, &scene.pods[0].container)?;
    // The bridge gets its link-local address when the kernel gets to it.
    let before = Snapshot::take(&scene.node)?.without_link_local();
    let (leases, captures, log) = (scene.node.tree("/run/leases")?, scene.node.tree(CAPTURES)?, scene.log()?);

    let json = operate(&scene.node, &format!("replay {CAPTURES} -o json"))?.fine()?.json()?;
    let calls = json["calls"].as_array().context("no calls")?;
    equal(
        "verbs",
        calls.iter().map(|call| call["verb"].as_str()).collect::<Vec<_>>(),
        vec![Some("ADD"), Some("ADD"), Some("CHECK")],
    )?;
    for call in calls {
        equal("then and now", &call["now"]["exitCode"], &call["then"]["exitCode"])?;
    }
    let address = |when: &str| -> Result<Value> {
        let answer: Value = serde_json::from_str(calls[1][when]["stdout"].as_str().context("no answer")?)?;
        Ok(answer["ips"][0]["address"].clone())
    };
    equal("the second pod's address", address("now")?, address("then")?)?;
    ensure!(!calls[0]["now"]["log"].to_string().contains("bridge path"), "not accelerated: {}", calls[0]);

    Snapshot::take(&scene.node)?.without_link_local().ensure_equals(&before)?;
    equal("leases", scene.node.tree("/run/leases")?, leases)?;
    equal("captured calls", scene.node.tree(CAPTURES)?, captures)?;
    equal("the log", scene.log()?, log)
}

fn replays_refusal() -> Result<()> {
    let node = Node::new()?;
    let request = config::with(capturing(), &json!({"cniVersion": "1.0.0", "name": "n1", "mtu": 7}));
    let error = refused(exec(&node, "ebpf-bridge", "ADD", &environment("c1"), &request.to_string()))?;
    let (_, directory) = captured(&node)?.remove("ADD").context("not captured")?;
    let said = operate(&node, &format!("replay {CAPTURES}/{directory}"))?.fine()?.stdout;
    ensure!(said.starts_with("ADD c1 eth0: ended with 1 then, with 1 now\n"), "{said}");
    ensure!(said.contains(&error.msg.replace('"', "\\\"")), "{said}");
    Ok(())
}

fn not_replayed() -> Result<()> {
    let node = Node::new()?;
    let said = operate(&node, "replay /run/nowhere")?.refused(1)?;
    ensure!(said.contains("/run/nowhere"), "{said}");
    node.call("mkdir /run/empty")?;
    let said = operate(&node, "replay /run/empty")?.refused(1)?;
    ensure!(said.contains("holds no captured call"), "{said}");
    let request = config::with(
        capturing(),
        &json!({"cniVersion": "1.0.0", "name": "n1", "ipam": {"type": "whereabouts"}}),
    );
    refused(exec(&node, "ebpf-bridge", "ADD", &environment("c1"), &request.to_string()))?;
    let said = operate(&node, &format!("replay {CAPTURES}"))?.refused(1)?;
    ensure!(said.contains("whereabouts") && said.contains("host-local and static"), "{said}");
    Ok(())
}

fn unprivileged() -> Result<()> {
    let node = Node::new()?;
    node.run_in(|| {
        fs::create_dir_all("/run/open/c-ADD")?;
        let call = json!({"call": "c", "started": 1, "cut": false, "environment": {},
            "parent": {"pid": 1, "command": []}});
        fs::write("/run/open/c-ADD/call.json", call.to_string())?;
        Ok(fs::write("/run/open/c-ADD/stdin", "{}")?)
    })?;
    let said = operate_unprivileged(&node, "replay /run/open")?.refused(1)?;
    ensure!(said.contains("needs root"), "{said}");
    Ok(())
}
