//! ADD: wire a pod. All or nothing.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{VerbError, del, earlier, lease};
use crate::{
    cni::{
        layout,
        request::{Attachment, Environment},
        types::{CniResult, Dns, Interface},
    },
    config::{ConfigError, EbpfConfig, Ipam, MasqueradeBackend, Mode, Network},
    dataplane,
    host::{Host, HostError, Journal, Link, LinuxHost, Netns, vlan_probe},
    plan::{self, Addressing, Observed, Placement, Side},
    state::{LeaseSource, Record, Records, STATE_DIR},
};

/// Serves an ADD and returns its result.
pub(super) fn add(network: &Network, environment: &Environment) -> Result<Value, VerbError> {
    let attachment = environment.attachment.as_ref().ok_or(VerbError::Missing("CNI_CONTAINERID"))?;
    let netns = environment.netns.as_deref().ok_or(VerbError::Missing("CNI_NETNS"))?;
    let records = Records::at(STATE_DIR);
    let mut host = LinuxHost::open(Some(Netns::open(netns)?))?;
    ask_for_vlans(network)?;
    let mut record = begin(network, attachment, netns, environment);
    earlier::take_over(network, &records, &mut record, &mut host)?;
    if host.link(Side::Pod, &attachment.ifname)?.is_some() {
        return Err(VerbError::Exists { ifname: attachment.ifname.clone() });
    }
    records.write(&record)?;
    let mut journal = Journal::default();
    let result = wire(network, &records, &mut record, &mut host, &mut journal);
    if let Err(error) = &result {
        log::info!("undoing after: {error}");
        undo(network, &records, &record, &mut host, journal);
    }
    let result = result?;
    log::info!("attached {} as {}", record.veth, describe(&record));
    Ok(layout::encode(&result)?)
}

/// VLANs need a kernel that filters them on bridges; where it does not, nothing is touched.
fn ask_for_vlans(network: &Network) -> Result<(), VerbError> {
    let Some(vlans) = &network.vlans else { return Ok(()) };
    vlan_probe::probe().map_err(|error| {
        log::info!("{error}");
        let (key, value) = match vlans.access {
            Some(vlan) => ("vlan", vlan.to_string()),
            None => ("vlanTrunk", format!("{:?}", vlans.trunk)),
        };
        let why = "the kernel cannot filter VLANs on bridges (CONFIG_BRIDGE_VLAN_FILTERING)";
        VerbError::Config(ConfigError::Unsupported { key, value, why })
    })
}

/// The record as it is before anything is made.
fn begin(network: &Network, attachment: &Attachment, netns: &Path, environment: &Environment) -> Record {
    let pod = environment.arg("K8S_POD_NAMESPACE").zip(environment.arg("K8S_POD_NAME"));
    Record {
        network: network.name.clone(),
        container_id: attachment.container_id.clone(),
        ifname: attachment.ifname.clone(),
        netns: netns.to_owned(),
        bridge: network.bridge.clone(),
        bridge_mac: None,
        veth: del::veth_name(&network.name, attachment),
        addresses: Vec::new(),
        gateways: Vec::new(),
        routes: Vec::new(),
        conf: configuration(network),
        lease: lease::source(network),
        bpffs: (network.ebpf.mode != Mode::Off).then(|| network.ebpf.bpffs.clone()),
        iptables: network.ip_masq && network.masquerade_backend == MasqueradeBackend::Iptables,
        not_accelerated: None,
        complete: false,
        pod: pod.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
    }
}

/// What the record keeps of the configuration. The results of plugins before us are no part of it.
fn configuration(network: &Network) -> Value {
    let mut conf = network.raw.clone();
    if let Some(keys) = conf.as_object_mut() {
        keys.remove("prevResult");
    }
    conf
}

/// Everything that may fail and then has to be undone.
fn wire(
    network: &Network,
    records: &Records,
    record: &mut Record,
    host: &mut LinuxHost,
    journal: &mut Journal,
) -> Result<CniResult, VerbError> {
    let observed = host.observe(&network.bridge, network.gateway_link())?;
    let placement = Placement {
        veth: record.veth.clone(),
        ifname: record.ifname.clone(),
        bridge_mac: random_mac().map_err(|error| HostError::new("read", "/dev/urandom", error))?,
    };
    let mut done = Vec::new();
    if let Ipam::Exec { .. } = network.ipam {
        // An IPAM plugin such as dhcp asks through the pod's link, so that comes first.
        done = plan::add(network, &observed, &placement, &Addressing::default())?;
        journal.run(host, &done)?;
    }
    let (addressing, dns) = lease(network, &observed, records, record)?;
    let mut steps = plan::add(network, &observed, &placement, &addressing)?;
    steps.retain(|step| step.is_repeatable() || !done.contains(step));
    let start = steps.iter().position(|step| step.starts(&record.ifname)).unwrap_or(steps.len());
    let (build, start) = steps.split_at(start);
    journal.run(host, build)?;
    // Before the link comes up: what the kernel then does for its IPv6 addresses would be waited for (RTNL).
    accelerate(network, record, host)?;
    journal.run(host, start)?;
    let bridge = host.link(Side::Node, &network.bridge)?;
    record.bridge_mac = bridge.as_ref().and_then(|link| link.mac);
    record.complete = true;
    records.write(record)?;
    result(network, record, bridge, &addressing, dns, host)
}

/// Leases the addresses and notes them in the record.
fn lease(
    network: &Network,
    observed: &Observed,
    records: &Records,
    record: &mut Record,
) -> Result<(Addressing, Dns), VerbError> {
    let before = record.ips();
    let leased = lease::acquire(network, &record.attachment(), &before, records);
    let left_nothing = match &leased {
        Err(VerbError::Delegate(error)) => error.left_nothing(),
        // All addresses or none; those of an earlier ADD are still there.
        Err(VerbError::Ipam(_)) => before.is_empty(),
        _ => false,
    };
    if left_nothing {
        // Nothing to give back: a DEL would only be refused like the ADD was.
        record.lease = LeaseSource::None;
    }
    let (leased, dns) = leased?;
    let addressing = plan::complete(network, observed, leased);
    record.addresses = addressing.ips.iter().map(|ip| ip.address).collect();
    record.gateways = addressing.ips.iter().filter_map(|ip| ip.gateway).collect();
    record.routes = addressing.routes.clone();
    records.write(record)?;
    Ok((addressing, dns))
}

/// Why a pod of this configuration is to take the bridge path, if it is.
pub(super) fn declined(network: &Network) -> Option<&'static str> {
    if network.ebpf.mode == Mode::Off {
        Some("ebpf.mode is \"off\"")
    } else {
        network.bandwidth_limited.then_some("the pod has a bandwidth limit")
    }
}

/// Attaches the programs, or notes why not. Only `required` makes that a failure.
pub(super) fn accelerate(network: &Network, record: &mut Record, host: &LinuxHost) -> Result<(), VerbError> {
    let why = match declined(network) {
        Some(why) => why.to_owned(),
        None => match dataplane::accelerate(&with_uplinks(network, host)?, host, &record.veth) {
            Ok(()) => return Ok(()),
            Err(error) if network.ebpf.mode == Mode::Required => return Err(error.into()),
            Err(error) => error.to_string(),
        },
    };
    log::warn!("not accelerated, the pod takes the bridge path: {why}");
    dataplane::leave(host, &record.veth);
    record.not_accelerated = Some(why);
    Ok(())
}

/// The `ebpf` object with the devices that lead to other nodes' pods among the uplinks, unless uplinks are named.
pub(super) fn with_uplinks(network: &Network, host: &LinuxHost) -> Result<EbpfConfig, HostError> {
    let mut config = network.ebpf.clone();
    if config.uplinks.is_none() && !network.node_routes.is_empty() {
        let mut uplinks = host.default_uplinks()?;
        uplinks.extend(host.node().devices_towards(&network.node_routes)?);
        uplinks.sort();
        uplinks.dedup();
        config.uplinks = Some(uplinks);
    }
    Ok(config)
}

/// The result, with the interfaces in the reference's order: bridge, host end, pod end, the gateway inside a VLAN.
fn result(
    network: &Network,
    record: &Record,
    bridge: Option<Link>,
    addressing: &Addressing,
    dns: Dns,
    host: &LinuxHost,
) -> Result<CniResult, VerbError> {
    let interface = |side, name: &str, link: Option<Link>| Interface {
        name: name.to_owned(),
        mac: link.as_ref().and_then(|link| link.mac).map(plan::format_mac),
        mtu: link.map(|link| link.mtu),
        sandbox: (side == Side::Pod).then(|| record.netns.to_string_lossy().into_owned()),
    };
    let mut interfaces = vec![
        interface(Side::Node, &network.bridge, bridge),
        interface(Side::Node, &record.veth, host.link(Side::Node, &record.veth)?),
        interface(Side::Pod, &record.ifname, host.link(Side::Pod, &record.ifname)?),
    ];
    let pod = interfaces.len() - 1;
    if let Some(gateway) = network.vlan_gateway.as_ref().filter(|_| !addressing.ips.is_empty()) {
        interfaces.push(interface(Side::Node, gateway, host.link(Side::Node, gateway)?));
    }
    let mut ips = addressing.ips.clone();
    ips.iter_mut().for_each(|ip| ip.interface = Some(pod));
    Ok(CniResult {
        cni_version: network.cni_version.clone(),
        interfaces,
        ips,
        routes: addressing.routes.clone(),
        dns: if network.dns.is_empty() { dns } else { network.dns.clone() },
    })
}

/// Leaves the host as it was before. What other attachments have come to rely on stays for them.
fn undo(network: &Network, records: &Records, record: &Record, host: &mut LinuxHost, journal: Journal) {
    {
        let alone = records.alone();
        let sole = alone
            .as_ref()
            .is_ok_and(|alone| alone.bridge_is_shared(&record.bridge, record).is_ok_and(|shared| !shared));
        for error in journal.roll_back(host, sole) {
            log::error!("while undoing: {error}");
        }
    }
    if let Err(error) = del::detach(network, &record.attachment(), Some(record), records, host) {
        log::error!("while undoing: {error}");
    }
}

pub(super) fn random_mac() -> io::Result<[u8; 6]> {
    let mut mac = [0; 6];
    File::open("/dev/urandom")?.read_exact(&mut mac)?;
    // Unicast, locally administered (IEEE 802, section 8.4).
    mac[0] = mac[0] & 0xfc | 0x02;
    Ok(mac)
}

fn describe(record: &Record) -> String {
    let addresses: Vec<String> = record.addresses.iter().map(ToString::to_string).collect();
    let how = if record.not_accelerated.is_none() { "accelerated" } else { "on the bridge path" };
    format!("{} with {}, {how}", record.ifname, addresses.join(", "))
}
