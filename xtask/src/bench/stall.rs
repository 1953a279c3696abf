//! What pods notice of others that come and go.

use anyhow::Result;
use ebpf_bridge_lab::traffic::{PATIENCE, Steady};

use super::lifecycle::Site;
use super::results::Sample;
use super::workload::{Operation, Workload};

/// Messages before the first pod comes.
const WARM_UP: u64 = 50;

/// Has two pods exchange datagrams, one message every 2 ms, while others come, one after the other, and go again; the
/// longest time between two answers.
pub(super) fn measure(site: &Site) -> Result<Vec<(Workload, Sample)>> {
    let [client, server] = [&site.scene.pods[0], &site.scene.pods[1]];
    let steady = Steady::udp(client, server, server.address())?;
    steady.goes_on(WARM_UP, PATIENCE)?;
    for operation in [Operation::Add, Operation::Del] {
        site.passers_by.iter().try_for_each(|pod| site.one(operation, pod))?;
    }
    let report = steady.stop()?;
    let lost = Some(report.sent - report.answered);
    let silence = report.silence.as_secs_f64() * 1e3;
    Ok(vec![(Workload::Stall, Sample { lost, ..Sample::of(silence) })])
}
