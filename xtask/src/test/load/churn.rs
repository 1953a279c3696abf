//! Pods that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::{Container, Runtime};
use ebpf_bridge_lab::{Pod, traffic};

use super::Site;

/// Runtimes start pods at the same time; more than this only wait for each other.
const WORKERS: usize = 4;
/// One pod of so many talks to its gateway: the two are neighbours of each other, and the kernel has 1024 for all
/// namespaces together, of which it gives up none that was reachable within half a minute (`neigh_forced_gc` of
/// net/core/neighbour.c).
const TALKING: usize = 4;

/// A node's pods, of both networks in turn.
pub(super) struct Churn<'a> {
    site: &'a Site,
    count: usize,
    pods: Mutex<Vec<Wired>>,
    named: AtomicUsize,
}

struct Wired {
    network: usize,
    pod: Pod,
    container: Container,
}

impl<'a> Churn<'a> {
    pub(super) fn new(site: &'a Site, count: usize) -> Self {
        Self { site, count, pods: Mutex::default(), named: AtomicUsize::default() }
    }

    /// Wires all pods.
    pub(super) fn fill(&self) -> Result<()> {
        self.at_once(|worker| (worker..self.count).step_by(WORKERS).try_for_each(|_| self.add()))
    }

    /// For a time, unwires the oldest pod and wires a new one, and again. Returns how many came.
    pub(super) fn turn_over(&self, time: Duration) -> Result<usize> {
        let (start, before) = (Instant::now(), self.named.load(Ordering::Relaxed));
        self.at_once(|_| {
            while start.elapsed() < time {
                self.delete()?;
                self.add()?;
            }
            Ok(())
        })?;
        Ok(self.named.load(Ordering::Relaxed) - before)
    }

    /// Unwires all pods.
    pub(super) fn empty(&self) -> Result<()> {
        self.at_once(|_| {
            while self.delete()? {}
            Ok(())
        })
    }

    /// Wires a pod, which reaches its gateway at once, if it is one of those that talk.
    fn add(&self) -> Result<()> {
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let (network, name) = (number % 2, format!("pod{number}"));
        let pod = self.site.node.pod(&name)?;
        let container = Container::of(&pod);
        let result = self.runtime(network).add(&self.site.node, &container);
        let result = result.with_context(|| format!("ADD of {name}"))?;
        let gateway = result.ips.first().and_then(|ip| ip.gateway).context("no gateway")?;
        // Not all numbers of one network.
        if (number / 2).is_multiple_of(TALKING) {
            traffic::round_trips(&pod, &self.site.node, gateway, 1)
                .with_context(|| format!("{name} to its gateway"))?;
        }
        self.pods().push(Wired { network, pod, container });
        Ok(())
    }

    /// Unwires the pod that has been there longest. False if there is none.
    fn delete(&self) -> Result<bool> {
        let oldest = {
            let mut pods = self.pods();
            if pods.is_empty() { None } else { Some(pods.remove(0)) }
        };
        let Some(Wired { network, pod, container }) = oldest else { return Ok(false) };
        let deleted = self.runtime(network).del(&self.site.node, &container);
        deleted.with_context(|| format!("DEL of {}", pod.name()))?;
        pod.destroy()?;
        Ok(true)
    }

    fn runtime(&self, network: usize) -> &Runtime {
        &self.site.runtimes[network]
    }

    fn pods(&self) -> std::sync::MutexGuard<'_, Vec<Wired>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_once(&self, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        let work = &work;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
        })
    }
}
