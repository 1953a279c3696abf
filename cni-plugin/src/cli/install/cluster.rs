//! What the Kubernetes API server knows of a node, asked as a pod does: by its service account. The image holds nothing
//! but this binary, so there is no kubectl to ask with.

use std::{
    env, fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;

use crate::cni::request::is_name;

/// Where a pod finds the token and the certificate of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const PATIENCE: Duration = Duration::from_secs(10);

/// The subnets that the cluster gave to a node's pods.
pub(super) fn pod_cidrs(node: &str) -> anyhow::Result<Vec<String>> {
    anyhow::ensure!(is_name(node), "--node is {node:?}; allowed is a node's name");
    let server = server()?;
    let answer = get(server, &format!("/api/v1/nodes/{node}"))
        .with_context(|| format!("cannot ask the API server at {server} for the node {node}"))?;
    let spec = &answer["spec"];
    let both = spec["podCIDRs"].as_array().cloned().unwrap_or_else(|| vec![spec["podCIDR"].clone()]);
    let subnets: Vec<String> = both.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
    anyhow::ensure!(
        !subnets.is_empty(),
        "the node {node} has no podCIDR: the cluster gives nodes none, or has not yet"
    );
    Ok(subnets)
}

/// What the kubelet tells every pod.
fn server() -> anyhow::Result<SocketAddr> {
    let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set: not in a pod"));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let address = host.parse::<IpAddr>().ok().zip(port.parse().ok()).map(SocketAddr::from);
    address
        .with_context(|| format!("KUBERNETES_SERVICE_HOST and _PORT are {host:?} and {port:?}, no address"))
}

fn get(server: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let token =
        fs::read_to_string(Path::new(ACCOUNT).join("token")).context("no token of a service account")?;
    let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let tls = ClientConnection::new(Arc::new(config()?), ServerName::from(server.ip()))?;
    let mut stream = StreamOwned::new(tls, stream);
    // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
    let host = server.ip();
    let head =
        format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\r\n", token.trim());
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Not every server says goodbye; a document that is cut off is no JSON.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
        _ => {}
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(&answer).context("not an answer of HTTP")? else {
        anyhow::bail!("the answer ends in its head");
    };
    let status = (response.code.unwrap_or_default(), response.reason.unwrap_or_default());
    anyhow::ensure!(status.0 == 200, "it answered {} {}", status.0, status.1);
    serde_json::from_slice(&answer[length..]).context("the answer is not JSON")
}

fn config() -> anyhow::Result<ClientConfig> {
    let file = Path::new(ACCOUNT).join("ca.crt");
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(&file).with_context(|| format!("cannot read {}", file.display()))?
    {
        roots.add(certificate.with_context(|| format!("{} holds no certificate", file.display()))?)?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
