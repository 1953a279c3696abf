//! The lab: nodes, pods and outside hosts made of namespaces, and what it takes to run a CNI plugin in them
//! the way a container runtime does.
//!
//! Nothing here touches the network of the machine it runs on. A [`Node`] is a network namespace and a mount
//! namespace with its own bpffs, `/run`, `/var/lib/cni`, `/etc/cni` and `/opt/cni`; it lives as long as the value
//! and needs no process of its own. Root is needed, and `ip`, `nft` and `tc` on PATH; [`Need`] tells.
//!
//! ```no_run
//! use ebpf_bridge_lab::{Scene, Variant, traffic};
//! # fn main() -> anyhow::Result<()> {
//! let scene = Scene::with_pods(Variant::Auto, 2)?;
//! let transfer = traffic::upload(&scene.pods[0], &scene.pods[1], scene.pods[1].address(), 1 << 20)?;
//! println!("the server saw {}", transfer.peer);
//! # Ok(())
//! # }
//! ```

mod beyond;
pub mod bpf;
mod cluster;
pub mod config;
pub mod containerd;
mod family;
pub mod features;
pub mod frame;
mod image;
pub mod libcni;
mod mounts;
mod needs;
mod node;
pub mod observe;
pub mod operator;
mod outside;
mod place;
pub mod plugin;
mod pod;
pub mod podman;
mod realm;
pub mod recorder;
mod scene;
mod seccomp;
pub mod traffic;

pub use beyond::Beyond;
pub use cluster::{Cluster, LAN};
pub use family::Family;
pub use needs::Need;
pub use node::Node;
pub use observe::{Snapshot, Stats, Status};
pub use outside::{Outside, UPLINK};
pub use place::Place;
pub use pod::Pod;
pub use scene::{Scene, Variant, WiredPod};
pub use seccomp::Denial;
