//! What a cluster runs: the manifests, and `install` as a pod of theirs runs it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::{Need, Node, plugin, traffic};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

const MANIFEST: &str = include_str!("../../conf/kubernetes/ebpf-bridge.yaml");
const MANIFEST_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/kubernetes/ebpf-bridge.yaml");
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const SERVER: &str = "/run/api";

pub(crate) fn register(suite: &mut Suite) {
    suite.test("kubernetes: the manifests are of the API's types, key by key", manifests);
    suite.test_with(
        &[Need::Tool("kubectl")],
        "kubernetes: kubectl takes the manifests in a client-side dry run",
        dry_run,
    );
    suite.test_with(
        &[Need::Tool("openssl")],
        "kubernetes: install --node writes the podCIDRs that the API server tells, over TLS",
        asks,
    );
    suite.test_with(
        &[Need::Tool("openssl")],
        "kubernetes: install --node says why it cannot ask, and writes nothing",
        cannot_ask,
    );
}

/// Types generated from the API's own description. A key that they do not know would be lost on the way through.
fn manifests() -> Result<()> {
    let mut kinds = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(MANIFEST) {
        let object = Value::deserialize(document)?;
        let kind = object["kind"].as_str().context("an object without a kind")?.to_owned();
        match kind.as_str() {
            "Namespace" => survives::<Namespace>(&object),
            "ServiceAccount" => survives::<ServiceAccount>(&object),
            "ClusterRole" => survives::<ClusterRole>(&object),
            "ClusterRoleBinding" => survives::<ClusterRoleBinding>(&object),
            "DaemonSet" => survives::<DaemonSet>(&object),
            other => anyhow::bail!("a {other}, which this test does not know"),
        }
        .context(kind.clone())?;
        kinds.push(kind);
    }
    equal("objects", kinds.len(), 5)
}

fn survives<T: DeserializeOwned + Serialize>(object: &Value) -> Result<()> {
    let typed: T = serde_json::from_value(object.clone())?;
    equal("the object as the API knows it", &serde_json::to_value(typed)?, object)
}

/// Client-side, too, kubectl asks which kinds there are and whether the objects exist. It validates by a schema of the
/// server's, of which there is none here; the test above does.
fn dry_run() -> Result<()> {
    let node = Node::new()?;
    let listener = node.run_in(|| Ok(TcpListener::bind("127.0.0.1:8001")?))?;
    thread::spawn(move || listener.incoming().flatten().try_for_each(discovery));
    let mut kubectl = node.command("kubectl");
    kubectl.args(["--server=http://127.0.0.1:8001", "apply", "--dry-run=client", "--validate=false"]);
    let output = kubectl.args(["-f", MANIFEST_PATH]).env("HOME", "/run/lab").output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{said}");
    equal("objects", said.matches("created (dry run)").count(), 5)
}

/// Serves one request of API discovery; no object exists.
fn discovery(mut stream: TcpStream) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().context("no request")??;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split([' ', '?']).nth(1).unwrap_or_default();
    let list = |version: &str, kinds: &[(&str, &str, bool)]| {
        let resources = kinds.iter().map(|&(name, kind, namespaced)| {
            json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get", "create", "patch"]})
        });
        json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources.collect::<Vec<_>>()})
    };
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    const RBAC: &str = "rbac.authorization.k8s.io";
    let (status, body) = match path {
        "/api" => ("200 OK", json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => (
            "200 OK",
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group("apps"), group(RBAC)]}),
        ),
        "/api/v1" => (
            "200 OK",
            list("v1", &[("namespaces", "Namespace", false), ("serviceaccounts", "ServiceAccount", true)]),
        ),
        "/apis/apps/v1" => ("200 OK", list("apps/v1", &[("daemonsets", "DaemonSet", true)])),
        "/apis/rbac.authorization.k8s.io/v1" => {
            let kinds = [
                ("clusterroles", "ClusterRole", false),
                ("clusterrolebindings", "ClusterRoleBinding", false),
            ];
            ("200 OK", list("rbac.authorization.k8s.io/v1", &kinds))
        }
        _ => (
            "404 Not Found",
            json!({"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}),
        ),
    };
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    Ok(stream.write_all((head + &body).as_bytes())?)
}

/// A server with a certificate of a CA of its own, which serves files: a node's object is one.
struct ApiServer(Child);

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl ApiServer {
    fn start(node: &Node, object: &str) -> Result<Self> {
        node.call(&format!("mkdir -p {SERVER}/api/v1/nodes {ACCOUNT}"))?;
        node.run_in(|| {
            fs::write(format!("{SERVER}/api/v1/nodes/worker-1"), object)?;
            fs::write(format!("{SERVER}/san"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")?;
            Ok(fs::write(format!("{ACCOUNT}/token"), "a-token")?)
        })?;
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for line in [
            format!("req -x509 {key} -subj /CN=ca -days 2 -keyout {SERVER}/ca.key -out {ACCOUNT}/ca.crt"),
            format!("req {key} -subj /CN=api -keyout {SERVER}/api.key -out {SERVER}/api.csr"),
            format!(
                "x509 -req -in {SERVER}/api.csr -CA {ACCOUNT}/ca.crt -CAkey {SERVER}/ca.key -CAcreateserial \
                 -days 2 -extfile {SERVER}/san -out {SERVER}/api.crt"
            ),
        ] {
            node.call(&format!("openssl {line}"))?;
        }
        let mut command = node.command("sh");
        let serve = format!(
            "cd {SERVER} && exec openssl s_server -accept 127.0.0.1:6443 -cert api.crt -key api.key -WWW -quiet"
        );
        let child =
            command.args(["-c", &serve]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(child.spawn()?);
        let start = Instant::now();
        while !node.call("ss -Hltn sport = 6443")?.contains("6443") {
            ensure!(start.elapsed() < traffic::PATIENCE, "openssl does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// As in a pod of the DaemonSet. Returns whether it succeeded, and what it said.
fn install(node: &Node, name: &str, port: &str) -> Result<(bool, String)> {
    let mut command = node.command(plugin::path()?);
    command.args(["install", "--bin-dir=/run/host/bin", "--conf-dir=/run/host/conf", "--node", name]);
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
    let output = command.output()?;
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    ))
}

fn asks() -> Result<()> {
    let node = Node::new()?;
    let object =
        r#"{"kind":"Node","spec":{"podCIDR":"10.244.7.0/24","podCIDRs":["10.244.7.0/24","fd00:7::/64"]}}"#;
    let _server = ApiServer::start(&node, object)?;
    let (fine, said) = install(&node, "worker-1", "6443")?;
    ensure!(fine, "{said}");
    let list: Value = serde_json::from_str(&node.read("/run/host/conf/10-ebpf-bridge.conflist")?)?;
    equal("podCIDR", &list["plugins"][0]["podCIDR"], &json!(["10.244.7.0/24", "fd00:7::/64"]))
}

fn cannot_ask() -> Result<()> {
    let node = Node::new()?;
    let server = ApiServer::start(&node, r#"{"kind":"Node","spec":{}}"#)?;
    let attempts = [("worker-1", "6443", "has no podCIDR"), ("../x", "6443", "allowed is a node's name")];
    for (name, port, complaint) in attempts {
        let (fine, said) = install(&node, name, port)?;
        ensure!(!fine && said.contains(complaint), "{name}: {said}");
    }
    // Somebody else's certificate.
    let line =
        format!("req -x509 -newkey rsa:2048 -nodes -subj /CN=ca -keyout /dev/null -out {ACCOUNT}/ca.crt");
    node.call(&format!("openssl {line}"))?;
    let (fine, said) = install(&node, "worker-1", "6443")?;
    ensure!(!fine && said.contains("certificate"), "{said}");
    drop(server);
    let (fine, said) = install(&node, "worker-1", "6443")?;
    ensure!(!fine && said.contains("Connection refused"), "{said}");
    ensure!(node.tree("/run/host")?.is_empty(), "something was written");
    Ok(())
}
