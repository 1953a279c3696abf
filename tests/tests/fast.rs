//! How much of a transfer the programs carry.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use ebpf_bridge_lab::{Family, Need, Place, Scene, Stats, UPLINK, Variant, observe, traffic};

use crate::check::equal;
use crate::suite::Suite;

const BULK: u64 = 100 << 20;
/// The part of a long flow's packets that must take the fast path.
const SHARE: f64 = 0.95;

pub(crate) fn register(suite: &mut Suite) {
    for family in Family::ALL {
        let mut test = |name: &str, path: fn(Family, Exchange) -> Result<()>, exchange: Exchange| {
            suite.test_with(&[Need::Bpf], format!("fast: {name}, {family}"), move || path(family, exchange));
        };
        test("over 95 % of 100 MB from pod to pod, either way", to_pod, both_ways);
        test("over 95 % of 100 MB from pod to outside, either way, seen as the node", to_outside, both_ways);
        test("over 95 % of 20000 datagrams from pod to pod and back", to_pod, datagrams);
        test("over 95 % of 20000 datagrams from pod to outside and back", to_outside, datagrams);
        test("over 95 % of 20000 requests over one connection from pod to pod", to_pod, requests);
        test("over 95 % of 20000 requests over one connection from pod to outside", to_outside, requests);
    }
    suite.test_with(
        &[Need::Bpf],
        "fast: both programs are on every veth and on the uplink, as `status` says",
        programs_are_there,
    );
}

/// Sends something between two places and says whom the server saw.
type Exchange = fn(&Scene, &Place, &Place, IpAddr) -> Result<IpAddr>;

fn to_pod(family: Family, exchange: Exchange) -> Result<()> {
    let scene = Scene::dual_stack(Variant::Auto, 2)?;
    let (client, server) = (&scene.pods[0], &scene.pods[1]);
    let seen = exchange(&scene, client, server, server.address_in(family))?;
    equal("the client as the server sees it", seen, client.address_in(family))
}

fn to_outside(family: Family, exchange: Exchange) -> Result<()> {
    let scene = Scene::dual_stack(Variant::Auto, 1)?;
    let outside = scene.node.outside();
    let seen = exchange(&scene, &scene.pods[0], outside, outside.address_in(family))?;
    equal("the client as the server sees it", seen, outside.node_address_in(family))
}

fn both_ways(scene: &Scene, client: &Place, server: &Place, address: IpAddr) -> Result<IpAddr> {
    mostly_fast(scene, "to the server", || Ok(traffic::upload(client, server, address, BULK)?.peer.ip()))?;
    mostly_fast(scene, "to the client", || Ok(traffic::download(client, server, address, BULK)?.peer.ip()))
}

fn datagrams(scene: &Scene, client: &Place, server: &Place, address: IpAddr) -> Result<IpAddr> {
    mostly_fast(scene, "datagrams", || {
        let echo = traffic::echo(client, server, address, 20_000, 64)?;
        ensure!(echo.lost == 0, "{} datagrams had no answer", echo.lost);
        Ok(echo.peer.ip())
    })
}

fn requests(scene: &Scene, client: &Place, server: &Place, address: IpAddr) -> Result<IpAddr> {
    mostly_fast(scene, "requests", || Ok(traffic::round_trips(client, server, address, 20_000)?.peer.ip()))
}

fn mostly_fast<T>(scene: &Scene, what: &str, exchange: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = Stats::read(&scene.node)?;
    let outcome = exchange()?;
    let counted = &Stats::read(&scene.node)? - &before;
    let share = counted.fast_share();
    ensure!(share > SHARE, "{what}: {:.1} % took the fast path: {counted:?}", 100.0 * share);
    Ok(outcome)
}

fn programs_are_there() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 2)?;
    let status = scene.status()?;
    let mut devices = vec![UPLINK.to_string()];
    for pod in &scene.pods {
        devices.push(pod.result.veth()?.name.clone());
    }
    devices.sort();
    let mut named: Vec<_> = status.devices.iter().map(|device| device.ifname.clone()).collect();
    named.sort();
    equal("the devices of `status`", named, &devices[..])?;
    for device in &status.devices {
        let found = observe::programs(&scene.node, &device.ifname)?;
        let directions: Vec<_> = found.iter().map(|program| program.direction.as_str()).collect();
        equal(&format!("the programs of {}", device.ifname), directions, ["ingress", "egress"])?;
        ensure!(
            found.iter().all(|program| program.attach == device.attach),
            "{device:?}, but the kernel: {found:?}"
        );
        equal("its kind", device.kind.as_str(), if device.ifname == UPLINK { "uplink" } else { "pod" })?;
    }
    ensure!(status.pods.iter().all(|pod| pod.accelerated && pod.why.is_empty()), "{:?}", status.pods);
    Ok(())
}
