//! What is measured. Counters are the kernel's, and begin anew when the programs are loaded anew.

use std::{collections::BTreeMap, path::Path, time::Duration};

use ebpf_bridge_common::wire::CONFIG_TCP;

use super::exposition::{Kind, Page, Sample};
use crate::{
    cli::confs::{confs, networks},
    config::{Ipam, Network},
    dataplane::{self, Attached, Pins},
    host::LinuxHost,
    ipam::HostLocal,
    state::{Record, Records, STATE_DIR},
};

/// Everything about this node.
pub(super) fn page(bpffs: &Path, conf_dir: &Path) -> anyhow::Result<String> {
    let mut page = Page::default();
    build(&mut page);
    pods(&mut page, &Records::at(STATE_DIR))?;
    leases(&mut page, conf_dir)?;
    let pins = Pins::under(bpffs);
    devices(&mut page, &pins)?;
    if pins.exist() {
        fast_path(&mut page, &pins)?;
        packets(&mut page, &pins)?;
    }
    Ok(page.into_text())
}

fn build(page: &mut Page) {
    let labels =
        vec![("version", env!("CARGO_PKG_VERSION")), ("programs", dataplane::BUILD.unwrap_or("none"))];
    page.family("build_info", Kind::Gauge, "This program; the value is 1.", &[(labels, 1.0)]);
}

fn pods(page: &mut Page, records: &Records) -> anyhow::Result<()> {
    let all: Vec<Record> = records.all()?.collect::<Result<_, _>>()?;
    let mut counts: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in all.iter().filter(|pod| pod.complete) {
        for path in ["fast", "bridge"] {
            counts.entry((&pod.network, path)).or_default();
        }
        let path = if pod.not_accelerated.is_none() { "fast" } else { "bridge" };
        *counts.entry((&pod.network, path)).or_default() += 1.0;
        let newest = last.entry(&pod.network).or_default();
        *newest = pod.created.max(*newest);
    }
    let counts: Vec<Sample<'_>> = counts
        .iter()
        .map(|((network, path), count)| (vec![("network", *network), ("path", *path)], *count))
        .collect();
    page.family("pods", Kind::Gauge, "Pods of this node by network and path.", &counts);
    let last: Vec<Sample<'_>> =
        last.iter().map(|(network, time)| (vec![("network", *network)], *time as f64)).collect();
    let help = "When the newest of the pods was added, in seconds since the Unix epoch.";
    page.family("last_add_timestamp_seconds", Kind::Gauge, help, &last);
    Ok(())
}

/// Of the networks that are configured. What is wrong with a configuration is for `doctor` to say.
fn leases(page: &mut Page, conf_dir: &Path) -> anyhow::Result<()> {
    let networks: Vec<Network> = networks(&confs(conf_dir)?);
    let mut pools = Vec::new();
    for network in &networks {
        if let Ipam::HostLocal(config) = &network.ipam {
            let usage = HostLocal::new(&network.name, config.clone())?.usage()?;
            pools.extend(usage.into_iter().map(|usage| (network.name.as_str(), usage)));
        }
    }
    let labels = |i: usize| vec![("network", pools[i].0), ("pool", pools[i].1.pool.as_str())];
    let used: Vec<_> = (0..pools.len()).map(|i| (labels(i), pools[i].1.used as f64)).collect();
    let total: Vec<_> = (0..pools.len()).map(|i| (labels(i), pools[i].1.total as f64)).collect();
    page.family("leases_used", Kind::Gauge, "Addresses leased, by network and pool.", &used);
    page.family("leases_capacity", Kind::Gauge, "Addresses there are to lease.", &total);
    Ok(())
}

fn devices(page: &mut Page, pins: &Pins) -> anyhow::Result<()> {
    let host = LinuxHost::open(None)?;
    let mut counts: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (name, link) in host.node().links()? {
        for (program, how) in dataplane::attached(pins, &host, &name, link.index) {
            let how = match how {
                Attached::Clsact => "clsact",
                Attached::Tcx => "tcx",
            };
            *counts.entry((program.name(), how)).or_default() += 1.0;
        }
    }
    let samples: Vec<Sample<'_>> = counts
        .iter()
        .map(|((program, how), count)| (vec![("program", *program), ("attach", *how)], *count))
        .collect();
    page.family("attached_programs", Kind::Gauge, "Devices that have the program, and how.", &samples);
    Ok(())
}

fn fast_path(page: &mut Page, pins: &Pins) -> anyhow::Result<()> {
    let Some(settings) = dataplane::settings(pins)? else { return Ok(()) };
    let flag = |on: bool| [(Vec::new(), f64::from(u8::from(on)))];
    let help = "1 while established flows may take the fast path, 0 after `ebpf-bridge off`.";
    page.family("fast_path_enabled", Kind::Gauge, help, &flag(settings.enabled != 0));
    let help = "1 if TCP may take the fast path too, 0 if conntrack is not prepared for it.";
    page.family("fast_path_tcp_enabled", Kind::Gauge, help, &flag(settings.flags & CONFIG_TCP != 0));
    let renew = [(Vec::new(), Duration::from_nanos(settings.renew_ns).as_secs_f64())];
    page.family(
        "renew_interval_seconds",
        Kind::Gauge,
        "How long a flow is carried before the kernel is asked.",
        &renew,
    );
    Ok(())
}

fn packets(page: &mut Page, pins: &Pins) -> anyhow::Result<()> {
    let Some(counters) = dataplane::counters(pins)? else { return Ok(()) };
    let ingress = counters.ingress.iter().map(|(reason, count)| ("flow_ingress", reason.name(), *count));
    let egress = counters.egress.iter().map(|(reason, count)| ("flow_egress", reason.name(), *count));
    let samples: Vec<Sample<'_>> = ingress
        .chain(egress)
        .map(|(program, reason, count)| (vec![("program", program), ("reason", reason)], count as f64))
        .collect();
    let help =
        "Packets that the programs have seen; flow_ingress redirected is the fast path. A GSO frame is one.";
    page.family("packets_total", Kind::Counter, help, &samples);
    Ok(())
}
