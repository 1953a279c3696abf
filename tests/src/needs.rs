//! What a test may lack on the machine it runs on, found out before it runs.

use std::env;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::{Place, bpf, observe, plugin};

/// A condition a test cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root, a kernel that gives out namespaces, and `ip`, `tc` and `nft`: what every node needs.
    Lab,
    /// The built plugin.
    Plugin,
    /// The archive of a release.
    Release,
    /// A program on PATH.
    Tool(&'static str),
    /// The project's own commands, as `cargo xtask` builds them: see [`Need::commands`].
    Commands,
    /// A reference plugin by its type, such as `portmap`.
    Peer(&'static str),
    /// nftables hooks in bridges (`table bridge`), 5.3 and newer where built in.
    BridgeFilter,
    /// Bridges that tell VLANs apart.
    VlanFiltering,
    /// Links for a VLAN's tagged frames.
    VlanLink,
    /// Programs by TCX, 6.6 and newer.
    Tcx,
    /// A kernel without TCX, where uplinks take filters.
    NoTcx,
    /// BPF programs and a bpffs.
    Bpf,
    /// The eBPF object, which the crates are built with.
    Object,
    /// Runs of a program on a packet with a device's checksum: BPF_F_TEST_SKB_CHECKSUM_COMPLETE, 6.17 and newer.
    DeviceChecksum,
}

impl Need {
    /// The program behind `cargo xtask`, where cargo leaves it: in the directory above that of the tests.
    pub fn commands() -> Option<PathBuf> {
        let path = env::current_exe().ok()?.parent()?.with_file_name("xtask");
        path.is_file().then_some(path)
    }

    /// What is missing, as a short clause; nothing if the need is met.
    pub fn missing(self) -> Option<String> {
        match self {
            Need::Lab => lab_missing(),
            Need::Plugin => plugin::path().err().map(|error| error.to_string()),
            Need::Release => {
                plugin::release().is_none().then(|| "no archive: `cargo xtask test` packs one".into())
            }
            Need::Tool(name) => (!on_path(name)).then(|| format!("no `{name}` on PATH")),
            Need::Commands => {
                Need::commands().is_none().then(|| "no xtask beside the tests: run `cargo xtask test`".into())
            }
            Need::Peer(name) => peer_missing(name),
            Need::BridgeFilter => refused(
                &[
                    "nft add table bridge probe ; add chain bridge probe c { type filter hook forward priority 0 ; }",
                ],
                "the kernel has no nftables bridge hooks",
            ),
            Need::VlanFiltering => refused(
                &["ip link add probe type bridge vlan_filtering 1"],
                "the kernel does not filter VLANs on bridges",
            ),
            // Not on lo, which takes none on any kernel.
            Need::VlanLink => refused(
                &["ip link add under type bridge", "ip link add link under name probe type vlan id 7"],
                "the kernel has no VLAN links",
            ),
            Need::Tcx => (!tcx()).then(|| "the kernel has no TCX".into()),
            Need::NoTcx => tcx().then(|| "the kernel has TCX".into()),
            Need::Bpf => bpf_missing(),
            Need::Object => bpf::Bench::OBJECT
                .is_none()
                .then(|| "built without the eBPF object: run `cargo xtask build-ebpf`".into()),
            Need::DeviceChecksum => bpf::device_checksum_missing(),
        }
    }
}

fn lab_missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("not root".into());
    }
    if let Some(tool) = ["ip", "tc", "nft"].into_iter().find(|tool| !on_path(tool)) {
        return Some(format!("no `{tool}` on PATH"));
    }
    Place::new().err().map(|error| format!("no network namespaces here: {error:#}"))
}

fn on_path(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

fn peer_missing(name: &str) -> Option<String> {
    let peers = plugin::reference_plugins().unwrap_or_default();
    let found = peers.iter().any(|peer| peer.file_name() == Some(name.as_ref()));
    (!found).then(|| format!("no reference plugin `{name}` installed"))
}

/// Tries commands in a network namespace of their own.
fn refused(commands: &[&str], missing: &str) -> Option<String> {
    let tried =
        Place::new().and_then(|place| commands.iter().try_for_each(|command| place.call(command).map(drop)));
    tried.is_err().then(|| missing.to_owned())
}

fn tcx() -> bool {
    observe::has_tcx().unwrap_or(false)
}

fn bpf_missing() -> Option<String> {
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let listed = filesystems.lines().any(|line| line.ends_with("\tbpf"));
    (!listed || !Path::new("/sys/fs/bpf").is_dir()).then(|| "the kernel has no bpffs".into())
}
