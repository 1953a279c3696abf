//! The node in numbers: what Prometheus is told, in a file or over HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebpf_bridge_lab::operator::{operate, operate_unprivileged};
use ebpf_bridge_lab::{Need, Node, Scene, Stats, Variant, plugin, traffic};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::check::equal;
use crate::suite::Suite;

const DASHBOARD: &str = include_str!("../../conf/grafana/ebpf-bridge.json");
const MANIFEST: &str = include_str!("../../conf/kubernetes/ebpf-bridge.yaml");

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(&[Need::Bpf], "metrics: they count what stats counts, on a node with pods", with_pods);
    suite.test_with(
        &[Need::Bpf, Need::Tool("promtool")],
        "metrics: promtool finds nothing to complain of",
        promtool,
    );
    suite.test("metrics: an empty node has some, too", empty);
    suite.test("metrics: the text file is replaced whole, and where it cannot be is said", textfile);
    suite.test("metrics: a scraper gets them over HTTP until SIGTERM, and nonsense gets an answer", listens);
    suite.test_with(
        &[Need::Tool("setpriv")],
        "metrics: without root what cannot be read is said",
        unprivileged,
    );
    suite.test_with(
        &[Need::Bpf, Need::Tool("setpriv")],
        "metrics: the capabilities of the Kubernetes manifest are enough",
        capabilities,
    );
    suite.test_with(&[Need::Bpf], "metrics: the dashboard asks only for what there is", dashboard);
}

/// A node with two pods that have talked, and what the metrics say.
fn scene() -> Result<(Scene, String)> {
    let scene = Scene::with_pods(Variant::Auto, 2)?;
    traffic::upload(&scene.pods[0], &scene.pods[1], scene.pods[1].address(), 4 << 20)?;
    let list =
        r#"{"cniVersion":"1.0.0","name":"n1","plugins":[{"type":"ebpf-bridge","podCIDR":"10.1.0.0/24"}]}"#;
    scene.node.run_in(|| {
        std::fs::create_dir_all("/etc/cni/net.d")?;
        Ok(std::fs::write("/etc/cni/net.d/10-n1.conflist", list)?)
    })?;
    let text = operate(&scene.node, "metrics")?.fine()?.stdout;
    Ok((scene, text))
}

/// The value of the one sample whose name and labels are these.
fn value(text: &str, sample: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {sample} in\n{text}"))?.parse()?)
}

fn with_pods() -> Result<()> {
    let (scene, text) = scene()?;
    equal("pods", value(&text, r#"ebpf_bridge_pods{network="n1",path="fast"}"#)?, 2.0)?;
    equal("pods on the bridge path", value(&text, r#"ebpf_bridge_pods{network="n1",path="bridge"}"#)?, 0.0)?;
    let pool = r#"{network="n1",pool="10.1.0.1-10.1.0.254"}"#;
    // The gateway's is one of them, and leased to nobody.
    equal("leases", value(&text, &format!("ebpf_bridge_leases_used{pool}"))?, 2.0)?;
    ensure!(value(&text, &format!("ebpf_bridge_leases_capacity{pool}"))? >= 253.0, "{text}");
    equal("enabled", value(&text, "ebpf_bridge_fast_path_enabled")?, 1.0)?;
    equal("renew", value(&text, "ebpf_bridge_renew_interval_seconds")?, 1.0)?;
    let sample = r#"ebpf_bridge_packets_total{program="flow_ingress",reason="redirected"}"#;
    let (told, counted) = (value(&text, sample)?, Stats::read(&scene.node)?.redirected() as f64);
    ensure!(told > 0.0 && told <= counted, "{told} of {counted}");
    operate(&scene.node, "off")?.fine()?;
    let text = operate(&scene.node, "metrics")?.fine()?.stdout;
    equal("enabled after off", value(&text, "ebpf_bridge_fast_path_enabled")?, 0.0)
}

fn promtool() -> Result<()> {
    let (_scene, text) = scene()?;
    let mut promtool = Command::new("promtool");
    let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = promtool.stderr(Stdio::piped()).spawn()?;
    promtool.stdin.take().context("no pipe")?.write_all(text.as_bytes())?;
    let output = promtool.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success() && said.is_empty(), "{}\n{text}", String::from_utf8_lossy(&said));
    Ok(())
}

fn empty() -> Result<()> {
    let text = operate(&Node::new()?, "metrics")?.fine()?.stdout;
    ensure!(text.starts_with("# HELP ebpf_bridge_build_info") && text.ends_with('\n'), "{text}");
    ensure!(!text.contains("_pods") && !text.contains("_packets_total"), "{text}");
    Ok(())
}

fn textfile() -> Result<()> {
    let node = Node::new()?;
    for _ in 0..2 {
        operate(&node, "metrics --textfile /run/textfile.prom")?.fine()?;
        let text = node.read("/run/textfile.prom")?;
        ensure!(text.starts_with("# HELP ebpf_bridge_build_info"), "{text}");
    }
    let mode = node.call("stat -c %a /run/textfile.prom")?;
    equal("the mode, for the exporter to read", mode.trim(), "644")?;
    let said = operate(&node, "metrics --textfile /run/nowhere/x.prom")?.refused(1)?;
    ensure!(said.contains("/run/nowhere/x.prom"), "{said}");
    operate(&node, "metrics --textfile /x --listen 127.0.0.1:1")?.refused(2)?;
    operate(&node, "metrics --listen nonsense")?.refused(2).map(drop)
}

/// A responder that ends with the value.
struct Listening<'a> {
    node: &'a Node,
    child: Child,
    address: SocketAddr,
}

impl<'a> Listening<'a> {
    fn start(node: &'a Node, program: &[&str]) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], 9108));
        let mut command = node.command(program[0]);
        command.args(&program[1..]).arg("metrics").args(["--listen", &address.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut listening = Self { node, child, address };
        let start = Instant::now();
        while listening.ask("").is_err() {
            if let Some(status) = listening.child.try_wait()? {
                let mut said = String::new();
                listening.child.stderr.take().context("no stderr")?.read_to_string(&mut said)?;
                bail!("ended early: {status}: {said}");
            }
            ensure!(start.elapsed() < traffic::PATIENCE, "does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(listening)
    }

    /// Sends `request` and returns all that comes back.
    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = self.node.run_in(|| Ok(TcpStream::connect(self.address)?))?;
        stream.set_read_timeout(Some(traffic::PATIENCE))?;
        // The answer to a request that is too long may come before its end.
        let written = stream.write_all(request.as_bytes());
        drop(written.and_then(|()| stream.shutdown(Shutdown::Write)));
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(answer),
        }
    }

    fn get(&self, path: &str) -> Result<String> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n"))
    }

    fn end(mut self) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn listens() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let program = plugin::path()?;
    let listening = Listening::start(&scene.node, &[&program.to_string_lossy()])?;
    let answer = listening.get("/metrics")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    ensure!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    ensure!(head.contains(&format!("Content-Length: {}", body.len())), "{head} for {} bytes", body.len());
    value(body, r#"ebpf_bridge_pods{network="n1",path="fast"}"#)?;

    // Somebody who connects and says nothing holds nobody up.
    let _silent = scene.node.run_in(|| Ok(TcpStream::connect(listening.address)?))?;
    ensure!(listening.get("/metrics?x=1")?.starts_with("HTTP/1.1 200 "), "with a query");
    ensure!(listening.get("/")?.contains("/metrics"), "the root");
    ensure!(listening.get("/other")?.starts_with("HTTP/1.1 404 "), "another path");
    let head = listening.ask("HEAD /metrics HTTP/1.1\r\n\r\n")?;
    ensure!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    ensure!(listening.ask("POST /metrics HTTP/1.1\r\n\r\n")?.starts_with("HTTP/1.1 405 "), "POST");
    ensure!(listening.ask("nonsense\r\n\r\n")?.starts_with("HTTP/1.1 400 "), "nonsense");
    ensure!(listening.ask("GET /metrics")?.starts_with("HTTP/1.1 400 "), "a request that ends early");
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    let answer = listening.ask(&long)?;
    ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let said = operate(&scene.node, &format!("metrics --listen {}", listening.address))?.refused(1)?;
    ensure!(said.contains("cannot listen there"), "{said}");
    listening.end()
}

fn unprivileged() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let said = operate_unprivileged(&scene.node, "metrics")?.refused(1)?;
    ensure!(said.contains("/run/ebpf-bridge") && said.contains("Permission denied"), "{said}");
    Ok(())
}

fn capabilities() -> Result<()> {
    let exporter =
        MANIFEST.split_once("name: metrics").map(|(_, rest)| rest).context("no container of metrics")?;
    let added =
        exporter.split("add: [").nth(1).and_then(|rest| rest.split(']').next()).context("no `add`")?;
    let bounding: Vec<_> = added.split(", ").map(|name| format!("+{}", name.to_lowercase())).collect();
    let (scene, _) = scene()?;
    let program = plugin::path()?;
    let bounding = format!("--bounding-set=-all,{}", bounding.join(","));
    let listening = Listening::start(&scene.node, &["setpriv", &bounding, &program.to_string_lossy()])?;
    let answer = listening.get("/metrics")?;
    let sample = r#"ebpf_bridge_packets_total{program="flow_ingress",reason="redirected"}"#;
    ensure!(value(&answer, sample)? > 0.0, "{answer}");
    ensure!(answer.contains(r#"ebpf_bridge_attached_programs{program="flow_ingress""#), "{answer}");
    listening.end()
}

fn dashboard() -> Result<()> {
    let (_scene, text) = scene()?;
    let dashboard: Value = serde_json::from_str(DASHBOARD)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut asked = 0;
    for expression in targets.filter_map(|target| target["expr"].as_str()) {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("ebpf_bridge_")) {
            ensure!(text.contains(&format!("# TYPE {name} ")), "{name} is not a metric: {expression}");
            asked += 1;
        }
    }
    ensure!(asked >= 8, "only {asked}");
    Ok(())
}
