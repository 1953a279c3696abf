//! Many pods at once.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::{link, programs};
use ebpf_bridge_lab::{Need, Node, Pod, Snapshot, UPLINK, config, traffic};

use crate::check::equal;
use crate::suite::Suite;

const PODS: usize = 60;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("parallel: 60 ADDs at once on a fresh node succeed, and 60 DELs leave nothing", sixty);
    suite.test_with(
        &[Need::Bpf],
        "parallel: every pod is accelerated while others come and go, the last DEL amid new ADDs",
        churn,
    );
}

fn sixty() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let runtime = Runtime::new(Conflist::of(config::bridge("auto")));
    let pods = (0..PODS).map(|number| node.pod(&format!("pod{number}"))).collect::<Result<Vec<_>>>()?;

    let addresses = at_once(&pods, |pod| runtime.add(&node, &Container::of(pod))?.address())?;
    let distinct: BTreeSet<_> = addresses.iter().collect();
    equal("distinct addresses", distinct.len(), PODS)?;
    equal("addresses of the bridge", link(&node, config::BRIDGE)?.addresses.len(), 1)?;
    for (pod, address) in pods.iter().zip(&addresses) {
        traffic::round_trips(pod, &pods[0], addresses[0], 3)
            .with_context(|| format!("{address} to the first pod"))?;
    }

    at_once(&pods, |pod| runtime.del(&node, &Container::of(pod)))?;
    Snapshot::take(&node)?.without_link(config::BRIDGE).ensure_equals(&before)
}

/// Each pod is wired and unwired several times, so that now and then a last DEL meets a first ADD.
fn churn() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let runtime = Runtime::new(Conflist::of(config::bridge("required")));
    let pods = (0..4).map(|number| node.pod(&format!("pod{number}"))).collect::<Result<Vec<_>>>()?;
    at_once(&pods, |pod| {
        for round in 0..10 {
            let result =
                runtime.add(&node, &Container::of(pod)).with_context(|| format!("ADD, round {round}"))?;
            for device in [UPLINK, &result.veth()?.name] {
                let found = programs(&node, device)?.len();
                ensure!(found == 2, "{found} programs on {device} after the ADD of round {round}");
            }
            traffic::echo(pod, node.outside(), node.outside().address(), 3, 64)?;
            runtime.del(&node, &Container::of(pod)).with_context(|| format!("DEL, round {round}"))?;
        }
        Ok(())
    })?;
    Snapshot::take(&node)?.without_link(config::BRIDGE).ensure_equals(&before)
}

/// Does the same to every pod, each on its own thread.
fn at_once<T: Send>(pods: &[Pod], work: impl Fn(&Pod) -> Result<T> + Sync) -> Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = pods.iter().map(|pod| scope.spawn(move || work(pod))).collect();
        let named = threads.into_iter().zip(pods);
        named
            .map(|(t, pod)| t.join().expect("a thread panicked").with_context(|| pod.name().to_string()))
            .collect()
    })
}
