//! The few calls of the Container Runtime Interface that the kubelet makes to run a pod and remove it again. Only this
//! road hands a pod's port mappings to the CNI plugins: `ctr run --cni` knows none.
//!
//! The messages are the subset used here of `runtime.v1`, fields numbered as in
//! `k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`; protobuf leaves out what is not named.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use prost::Message;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::image;

const RUNTIME: &str = "runtime.v1.RuntimeService";
const IMAGES: &str = "runtime.v1.ImageService";
/// The kubelet's own limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A pod of one container of the busybox image, as a test asks for it.
pub struct PodSpec<'a> {
    /// The pod's name, in the namespace `default`.
    pub name: &'a str,
    /// The container's command line.
    pub command: &'a [&'a str],
    /// (node's port, container's port), both TCP.
    pub host_ports: &'a [(u16, u16)],
    /// The pod's annotations.
    pub annotations: &'a [(&'a str, &'a str)],
}

/// A pod that runs.
pub struct RunningPod {
    /// The sandbox's ID: CNI_CONTAINERID of the plugins.
    pub id: String,
    /// The address that the plugins reported.
    pub address: IpAddr,
}

/// A connection to the runtime's CRI socket.
pub(super) struct Cri {
    runtime: Runtime,
    channel: Channel,
}

impl Cri {
    /// Connects to the socket, which is there once the runtime serves.
    pub(super) fn connect(socket: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::try_from(format!("unix:{}", socket.display()))?.timeout(CALL_TIMEOUT);
        let channel = runtime.block_on(endpoint.connect())?;
        Ok(Self { runtime, channel })
    }

    /// Runs a pod the way the kubelet does: the sandbox, which brings the network, then the container in it.
    pub(super) fn run_pod(&self, spec: &PodSpec) -> Result<RunningPod> {
        let sandbox = sandbox_config(spec);
        let run = RunPodSandboxRequest { config: Some(sandbox.clone()) };
        let pod: PodSandboxId = self.call(RUNTIME, "RunPodSandbox", run)?;

        let create = CreateContainerRequest {
            pod_sandbox_id: pod.pod_sandbox_id.clone(),
            config: Some(container_config(spec)),
            sandbox_config: Some(sandbox),
        };
        let container: ContainerId = self.call(RUNTIME, "CreateContainer", create)?;
        let Empty {} = self.call(RUNTIME, "StartContainer", container)?;

        let reply: PodSandboxStatusResponse = self.call(RUNTIME, "PodSandboxStatus", pod.clone())?;
        let network = reply.status.and_then(|status| status.network).unwrap_or_default();
        let address = network.ip.parse().with_context(|| format!("address {:?} of the pod", network.ip))?;
        Ok(RunningPod { id: pod.pod_sandbox_id, address })
    }

    /// Stops and removes a pod with all that is in it; the CNI DELs have been made when this returns.
    pub(super) fn remove_pod(&self, id: &str) -> Result<()> {
        let pod = PodSandboxId { pod_sandbox_id: id.to_owned() };
        let Empty {} = self.call(RUNTIME, "StopPodSandbox", pod.clone())?;
        let Empty {} = self.call(RUNTIME, "RemovePodSandbox", pod)?;
        Ok(())
    }

    /// Whether the runtime knows an image by this name.
    pub(super) fn has_image(&self, name: &str) -> Result<bool> {
        let image = ImageSpec { image: name.to_owned() };
        let reply: ImageStatusResponse =
            self.call(IMAGES, "ImageStatus", ImageStatusRequest { image: Some(image) })?;
        Ok(reply.image.is_some())
    }

    fn call<Q, A>(&self, service: &str, method: &'static str, request: Q) -> Result<A>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/{service}/{method}");
        let answer = self.runtime.block_on(async {
            let mut client = Grpc::new(self.channel.clone());
            client.ready().await?;
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            anyhow::Ok(client.unary(tonic::Request::new(request), path.try_into()?, codec).await?)
        });
        Ok(answer.with_context(|| format!("CRI {method}"))?.into_inner())
    }
}

fn sandbox_config(spec: &PodSpec) -> PodSandboxConfig {
    let port = |&(host, container): &(u16, u16)| PortMapping {
        protocol: 0, // TCP
        container_port: container.into(),
        host_port: host.into(),
    };
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: spec.name.to_owned(),
            uid: spec.name.to_owned(),
            namespace: "default".to_owned(),
        }),
        hostname: spec.name.to_owned(),
        port_mappings: spec.host_ports.iter().map(port).collect(),
        annotations: spec.annotations.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        linux: Some(Empty {}),
    }
}

fn container_config(spec: &PodSpec) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: spec.name.to_owned() }),
        image: Some(ImageSpec { image: image::NAME.to_owned() }),
        command: spec.command.iter().map(|&word| word.to_owned()).collect(),
        linux: Some(Empty {}),
    }
}

/// Any message of which nothing is set or read.
#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct PortMapping {
    #[prost(int32, tag = "1")]
    protocol: i32,
    #[prost(int32, tag = "2")]
    container_port: i32,
    #[prost(int32, tag = "3")]
    host_port: i32,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    hostname: String,
    #[prost(message, repeated, tag = "5")]
    port_mappings: Vec<PortMapping>,
    #[prost(map = "string, string", tag = "7")]
    annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    linux: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    config: Option<PodSandboxConfig>,
}

/// RunPodSandboxResponse, and the requests that only name a pod.
#[derive(Clone, PartialEq, Message)]
struct PodSandboxId {
    #[prost(string, tag = "1")]
    pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<PodSandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxStatus {
    #[prost(message, optional, tag = "5")]
    network: Option<PodSandboxNetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    ip: String,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerMetadata {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ImageSpec {
    #[prost(string, tag = "1")]
    image: String,
}

#[derive(Clone, PartialEq, Message)]
struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    image: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    command: Vec<String>,
    #[prost(message, optional, tag = "15")]
    linux: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    sandbox_config: Option<PodSandboxConfig>,
}

/// CreateContainerResponse, and the request that starts it.
#[derive(Clone, PartialEq, Message)]
struct ContainerId {
    #[prost(string, tag = "1")]
    container_id: String,
}
