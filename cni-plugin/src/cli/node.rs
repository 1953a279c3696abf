//! This node, as the operator's verbs look at it.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::Args;
use ebpf_bridge_common::wire::Config;

use super::confs::{Conf, confs, networks};
use crate::{
    config::Network,
    dataplane::{self, Attached as How, Pins, Program},
    host::LinuxHost,
    plan::Side,
    state::{Record, Records, STATE_DIR, StateError},
    verbs::{Attached, Difference, Leftover, leftovers},
};

/// Where runtimes look for configurations, and for plugins.
const CONF_DIR: &str = "/etc/cni/net.d";
const BIN_DIR: &str = "/opt/cni/bin";

/// Where the container runtime looks.
#[derive(Args, Clone)]
pub(super) struct Sources {
    /// Directory of the network configurations
    #[arg(long, value_name = "DIR", default_value = CONF_DIR)]
    pub(super) conf_dir: PathBuf,
    /// Directory of the CNI plugins
    #[arg(long, value_name = "DIR", default_value = BIN_DIR)]
    pub(super) bin_dir: PathBuf,
}

impl Default for Sources {
    fn default() -> Self {
        Self { conf_dir: CONF_DIR.into(), bin_dir: BIN_DIR.into() }
    }
}

/// What differs at a pod, or why that cannot be told.
type Compared = Result<PodState, String>;

/// A pod as CHECK sees it.
pub(super) struct PodState {
    pub(super) differences: Vec<Difference>,
    /// It takes the bridge path, and that could be another time.
    pub(super) may_become_fast: bool,
}

/// A device with programs of ours.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) attached: Vec<(Program, How)>,
}

impl Device {
    /// How they are attached.
    pub(super) fn how(&self) -> &'static str {
        match self.attached.first() {
            Some((_, How::Tcx)) => "tcx",
            _ => "clsact",
        }
    }
}

/// The node. What several verbs or checks want to know is looked at once.
pub(super) struct Node {
    pub(super) host: LinuxHost,
    pub(super) pins: Pins,
    pub(super) bpffs: PathBuf,
    pub(super) sources: Sources,
    records: Result<Vec<Record>, String>,
    compared: OnceCell<Vec<Compared>>,
    leftovers: OnceCell<Result<Vec<Leftover>, String>>,
}

impl Node {
    /// Opens what is there. Changes nothing, and does not mind if there is little.
    pub(super) fn look(bpffs: &Path) -> anyhow::Result<Self> {
        Self::look_with(bpffs, &Sources::default())
    }

    /// The same with the files of the container runtime elsewhere.
    pub(super) fn look_with(bpffs: &Path, sources: &Sources) -> anyhow::Result<Self> {
        Ok(Self {
            host: LinuxHost::open(None)?,
            pins: Pins::under(bpffs),
            bpffs: bpffs.to_owned(),
            sources: sources.clone(),
            records: records().map_err(|error| format!("{error}; this needs root")),
            compared: OnceCell::new(),
            leftovers: OnceCell::new(),
        })
    }

    /// The attachments on record, by network and container.
    pub(super) fn records(&self) -> anyhow::Result<&[Record]> {
        self.records.as_deref().map_err(|error| anyhow!(error.clone()))
    }

    /// The configurations, in the runtime's order.
    pub(super) fn confs(&self) -> anyhow::Result<Vec<Conf>> {
        confs(&self.sources.conf_dir)
    }

    /// Networks of ours that are configured, as far as they are valid.
    pub(super) fn networks(&self) -> Vec<Network> {
        self.confs().map(|confs| networks(&confs)).unwrap_or_default()
    }

    /// Every pod with what is not as its ADD left it.
    pub(super) fn compared(&self) -> anyhow::Result<impl Iterator<Item = (&Record, &Compared)>> {
        let records = self.records()?;
        let compared = self.compared.get_or_init(|| records.iter().map(compare).collect());
        Ok(records.iter().zip(compared))
    }

    /// What differs at any pod that can be compared.
    pub(super) fn differences(&self) -> anyhow::Result<impl Iterator<Item = &Difference>> {
        let states = self.compared()?.filter_map(|(_, compared)| compared.as_ref().ok());
        Ok(states.flat_map(|state| &state.differences))
    }

    /// The network of each pod, as its ADD was told of it; not of records without a configuration.
    pub(super) fn networks_of_pods(&self) -> anyhow::Result<impl Iterator<Item = Network>> {
        Ok(self.records()?.iter().filter_map(|record| Network::read(record.conf.clone()).ok()))
    }

    /// What belongs to nobody.
    pub(super) fn leftovers(&self) -> anyhow::Result<&[Leftover]> {
        let found = self.leftovers.get_or_init(|| {
            leftovers(&self.host, &self.networks(), &self.bpffs).map_err(|error| error.to_string())
        });
        found.as_deref().map_err(|error| anyhow!(error.clone()))
    }

    /// The cell that the programs read; `None` if they are not loaded.
    pub(super) fn settings(&self) -> anyhow::Result<Option<Config>> {
        Ok(dataplane::settings(&pins(&self.bpffs)?)?)
    }

    /// Every device with programs of ours.
    pub(super) fn devices(&self) -> anyhow::Result<Vec<Device>> {
        let links = self.host.node().links()?.into_iter();
        let devices = links.map(|(name, link)| {
            let attached = dataplane::attached(&self.pins, &self.host, &name, link.index);
            Device { name, index: link.index, attached }
        });
        Ok(devices.filter(|device| !device.attached.is_empty()).collect())
    }

    /// Why a pod's packets take the bridge path, if they do.
    pub(super) fn not_accelerated(&self, pod: &Record) -> anyhow::Result<Option<String>> {
        if !pod.complete {
            return Ok(Some("its ADD has not been completed".to_owned()));
        }
        if let Some(why) = &pod.not_accelerated {
            return Ok(Some(why.clone()));
        }
        let Some(settings) = self.settings()? else {
            return Ok(Some(format!("no programs are pinned under {}", self.bpffs.display())));
        };
        if settings.enabled == 0 {
            return Ok(Some("switched off by `ebpf-bridge off`".to_owned()));
        }
        let Some(link) = self.host.link(Side::Node, &pod.veth)? else {
            return Ok(Some(format!("{} is gone", pod.veth)));
        };
        let attached = dataplane::attached(&self.pins, &self.host, &pod.veth, link.index);
        let missing = [Program::Ingress, Program::EgressPod]
            .into_iter()
            .find(|wanted| !attached.iter().any(|(program, _)| program == wanted));
        Ok(missing.map(|program| format!("{} is not on {}", program.name(), pod.veth)))
    }
}

/// The pins, if one may look at them.
pub(super) fn pins(bpffs: &Path) -> anyhow::Result<Pins> {
    let pins = Pins::under(bpffs);
    pins.may_look().map_err(|error| anyhow!("{error}; this needs root"))?;
    Ok(pins)
}

/// The same where programs must be loaded.
pub(super) fn loaded(bpffs: &Path) -> anyhow::Result<Pins> {
    let pins = pins(bpffs)?;
    anyhow::ensure!(pins.exist(), "the eBPF programs are not loaded: no pod of this node is accelerated");
    Ok(pins)
}

fn records() -> Result<Vec<Record>, StateError> {
    let mut records = Records::at(STATE_DIR).all()?.collect::<Result<Vec<_>, _>>()?;
    records.sort_by(|a, b| (&a.network, &a.container_id).cmp(&(&b.network, &b.container_id)));
    Ok(records)
}

fn compare(record: &Record) -> Compared {
    let mut attached = Attached::open(record).map_err(|error| error.to_string())?;
    let differences = attached.differences().map_err(|error| error.to_string())?;
    Ok(PodState { differences, may_become_fast: attached.may_become_fast() })
}

/// The name people know a pod by: that of Kubernetes if there is one.
pub(super) fn name(pod: &Record) -> String {
    match &pod.pod {
        Some((namespace, name)) => format!("{namespace}/{name}"),
        None => pod.container_id.clone(),
    }
}

/// True if `asked` names the pod: its Kubernetes name with or without the namespace, or its container id or the
/// beginning of it.
pub(super) fn is_named(pod: &Record, asked: &str) -> bool {
    let by_kubernetes = pod
        .pod
        .as_ref()
        .is_some_and(|(namespace, name)| asked == name || asked == format!("{namespace}/{name}"));
    by_kubernetes || (!asked.is_empty() && pod.container_id.starts_with(asked))
}

/// This program, as it is to be typed.
pub(super) fn own() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "ebpf-bridge".to_owned())
}
