//! The server of iperf3, in the place the traffic goes to.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::Place;

pub(super) const PORT: u16 = 5201;
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The CPUs both ends of a measurement run on.
#[derive(Clone, Copy)]
pub(super) struct Cpus {
    /// Of clients in bulk traffic.
    pub(super) client: usize,
    /// Of servers in bulk traffic, and of everything where both ends share one.
    pub(super) server: usize,
}

/// An iperf3 server. It ends with the value.
pub(super) struct Server(Child);

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(place: &Place, cpus: Cpus) -> Result<Self> {
        let mut iperf3 = pinned(place, cpus.server, "iperf3");
        iperf3.args(["--server", "--port", &PORT.to_string()]);
        iperf3.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(iperf3.spawn().context("starting an iperf3 server")?);
        let start = Instant::now();
        while !listens(place, PORT)? {
            ensure!(start.elapsed() < START_TIMEOUT, "nothing listens on port {PORT}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A program that stays on one CPU of a place, and ends when the benchmark is interrupted.
pub(super) fn pinned(place: &Place, cpu: usize, program: &str) -> Command {
    let mut command = place.dependent("taskset");
    command.args(["--cpu-list", &cpu.to_string(), program]);
    command
}

/// Whether a TCP socket listens, by the kernel's table: a connection to try would count as a client.
fn listens(place: &Place, port: u16) -> Result<bool> {
    place.run_in(|| {
        let tables =
            ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")));
        let suffix = format!(":{port:04X}");
        Ok(tables.iter().flatten().flat_map(|table| table.lines()).any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().unwrap_or_default();
            // State 0A is TCP_LISTEN of the kernel's net/tcp_states.h.
            local.ends_with(&suffix) && columns.nth(1) == Some("0A")
        }))
    })
}
