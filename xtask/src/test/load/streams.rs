//! Pods that stay and stream.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::Container;
use ebpf_bridge_lab::traffic::{self, PATIENCE, Steady};
use ebpf_bridge_lab::{Pod, UPLINK};

use super::Site;

/// Answers before pods come, so that the flows are known.
const WARM_UP: u64 = 50;
/// Bytes of one upload.
const UPLOAD: u64 = 8 << 20;

/// Two pods in each network.
pub(super) struct Streams {
    pods: Vec<(usize, Pod, Container, IpAddr)>,
    steady: Vec<Steady>,
}

impl Streams {
    pub(super) fn start(site: &Site) -> Result<Self> {
        let mut pods = Vec::new();
        for number in 0..4 {
            let network = number % 2;
            let pod = site.node.pod(&format!("stream{number}"))?;
            let container = Container::of(&pod);
            let address = site.runtimes[network].add(&site.node, &container)?.address()?;
            pods.push((network, pod, container, address));
        }
        let outside = site.node.outside();
        let steady = vec![
            Steady::udp(&pods[0].1, &pods[2].1, pods[2].3)?,
            Steady::tcp(&pods[1].1, &pods[3].1, pods[3].3)?,
            Steady::udp(&pods[0].1, &pods[1].1, pods[1].3).context("from one network to the other")?,
            Steady::tcp(&pods[1].1, outside, outside.address())
                .with_context(|| format!("through {UPLINK}"))?,
        ];
        steady.iter().try_for_each(|steady| steady.goes_on(WARM_UP, PATIENCE))?;
        Ok(Self { pods, steady })
    }

    /// Transfers, one after the other, between pods and to the outside, comparing every byte. Returns how many.
    pub(super) fn transfer_until(&self, site: &Site, over: &AtomicBool) -> Result<u64> {
        let mut bytes = 0;
        let (first, second, outside) = (&self.pods[0], &self.pods[2], site.node.outside());
        while !over.load(Ordering::Relaxed) {
            bytes += traffic::upload(&first.1, &second.1, second.3, UPLOAD)?.bytes;
            bytes += traffic::download(&second.1, &first.1, first.3, UPLOAD)?.bytes;
            bytes += traffic::upload(&first.1, outside, outside.address(), UPLOAD)?.bytes;
        }
        Ok(bytes)
    }

    /// Ends the streams and unwires their pods. Returns the longest time one of them stood still, and how often one did.
    pub(super) fn stop(self, site: &Site) -> Result<(Duration, u64)> {
        let (mut longest, mut stalls) = (Duration::ZERO, 0);
        for steady in self.steady {
            let report = steady.stop()?;
            longest = longest.max(report.silence);
            stalls += report.stalls;
        }
        for (network, pod, container, _) in self.pods {
            site.runtimes[network].del(&site.node, &container)?;
            pod.destroy()?;
        }
        Ok((longest, stalls))
    }
}
