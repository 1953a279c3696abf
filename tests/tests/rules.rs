//! Rules as kube-proxy and network policies make them, by iptables and by nft.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::{Family, Node, Place};

/// kube-proxy's mark for "to be masqueraded".
const MARK: &str = "0x4000";

/// With which tool rules are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    Iptables,
    Nftables,
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Rules::Iptables { "iptables" } else { "nftables" })
    }
}

/// A service: connections to `front`, TCP and UDP, go to one of `backends` by chance.
pub(crate) struct Balanced<'a> {
    pub(crate) front: SocketAddr,
    pub(crate) backends: &'a [SocketAddr],
    pub(crate) masquerade: Masquerade,
}

/// Which connections to a service hide their source behind the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Masquerade {
    /// Those of a backend that is sent to itself: a ClusterIP, and `externalTrafficPolicy: Local`.
    Hairpin,
    /// All: a NodePort, and kube-proxy's `masqueradeAll`.
    All,
}

impl Rules {
    pub(crate) const ALL: [Rules; 2] = [Rules::Iptables, Rules::Nftables];

    /// Has connections to a service translated, as kube-proxy does.
    pub(crate) fn balance(self, node: &Node, service: &Balanced<'_>) -> Result<()> {
        match self {
            Rules::Iptables => balance_by_iptables(node, service),
            Rules::Nftables => load(node, &balance_by_nft(service)),
        }
    }

    /// Drops what is forwarded from one address to another, before all other rules.
    pub(crate) fn forbid(self, node: &Place, from: IpAddr, to: IpAddr) -> Result<()> {
        self.forbidden(node, from, to, true)
    }

    /// Takes [`Rules::forbid`] back.
    pub(crate) fn permit(self, node: &Place, from: IpAddr, to: IpAddr) -> Result<()> {
        self.forbidden(node, from, to, false)
    }

    fn forbidden(self, node: &Place, from: IpAddr, to: IpAddr, yes: bool) -> Result<()> {
        let (tool, family) = names(from);
        match (self, yes) {
            (Rules::Iptables, _) => {
                let what = if yes { "-I" } else { "-D" };
                node.call(&format!("{tool} -w {what} FORWARD -s {from} -d {to} -j DROP")).map(drop)
            }
            (Rules::Nftables, true) => load(
                node,
                &format!(
                    "table {family} lab-policy {{\n chain forward {{\n type filter hook forward priority -10\n\
                     {family} saddr {from} {family} daddr {to} drop\n }}\n }}"
                ),
            ),
            (Rules::Nftables, false) => node.call(&format!("nft delete table {family} lab-policy")).map(drop),
        }
    }

    /// Drops what conntrack finds invalid, as kube-proxy and firewalls do.
    pub(crate) fn drop_invalid(self, node: &Place, family: Family) -> Result<()> {
        match self {
            Rules::Iptables => {
                let tool = family.pick("iptables", "ip6tables");
                node.call(&format!("{tool} -w -I FORWARD -m conntrack --ctstate INVALID -j DROP")).map(drop)
            }
            Rules::Nftables => load(
                node,
                "table inet invalid {\n chain forward {\n type filter hook forward priority -5\n\
                 ct state invalid drop\n }\n }",
            ),
        }
    }
}

fn names(address: IpAddr) -> (&'static str, &'static str) {
    match Family::of(address) {
        Family::V4 => ("iptables", "ip"),
        Family::V6 => ("ip6tables", "ip6"),
    }
}

/// Gives nft a script.
pub(crate) fn load(place: &Place, script: &str) -> Result<()> {
    let mut nft = place.command("nft");
    let mut child = nft.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no pipe to nft")?.write_all(script.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "nft: {}\n{script}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn balance_by_iptables(node: &Node, service: &Balanced<'_>) -> Result<()> {
    let (tool, _) = names(service.front.ip());
    let run = |rule: String| node.call(&format!("{tool} -w -t nat {rule}"));
    let (address, port) = (service.front.ip(), service.front.port());
    let chain = format!("SVC-{port}");
    run(format!("-N {chain}"))?;
    if service.masquerade == Masquerade::All {
        run(format!("-A {chain} -j MARK --set-xmark {MARK}/{MARK}"))?;
    }
    for (number, backend) in service.backends.iter().enumerate() {
        let (one, left) = (format!("SEP-{port}-{number}"), service.backends.len() - number);
        run(format!("-N {one}"))?;
        run(format!("-A {one} -s {} -j MARK --set-xmark {MARK}/{MARK}", backend.ip()))?;
        for protocol in ["tcp", "udp"] {
            run(format!("-A {one} -p {protocol} -j DNAT --to-destination {backend}"))?;
        }
        let chance = 1.0 / left as f64;
        let by_chance = format!("-m statistic --mode random --probability {chance:.5}");
        run(format!("-A {chain} {} -j {one}", if left > 1 { &by_chance } else { "" }))?;
    }
    for protocol in ["tcp", "udp"] {
        run(format!("-A PREROUTING -d {address} -p {protocol} --dport {port} -j {chain}"))?;
    }
    let post = format!("POST-{port}");
    run(format!("-N {post}"))?;
    run(format!("-A {post} -m mark ! --mark {MARK}/{MARK} -j RETURN"))?;
    run(format!("-A {post} -j MARK --xor-mark {MARK}"))?;
    run(format!("-A {post} -j MASQUERADE"))?;
    run(format!("-I POSTROUTING -j {post}")).map(drop)
}

fn balance_by_nft(service: &Balanced<'_>) -> String {
    let (_, family) = names(service.front.ip());
    let (address, port) = (service.front.ip(), service.front.port());
    let mark = format!("meta mark set meta mark or {MARK}");
    let (mut chains, mut chances) = (String::new(), Vec::new());
    for (number, backend) in service.backends.iter().enumerate() {
        let ip = backend.ip();
        chains += &format!(
            "chain sep{number} {{\n {family} saddr {ip} {mark}\n meta l4proto {{ tcp, udp }} dnat to {backend}\n }}\n"
        );
        chances.push(format!("{number} : goto sep{number}"));
    }
    let all = if service.masquerade == Masquerade::All { mark.as_str() } else { "" };
    let (count, chances) = (service.backends.len(), chances.join(", "));
    format!(
        "table {family} svc{port} {{\n{chains}\
         chain svc {{\n {all}\n numgen random mod {count} vmap {{ {chances} }}\n }}\n\
         chain pre {{\n type nat hook prerouting priority dstnat\n\
         {family} daddr {address} meta l4proto {{ tcp, udp }} th dport {port} goto svc\n }}\n\
         chain post {{\n type nat hook postrouting priority srcnat - 5\n\
         meta mark and {MARK} == 0 return\n meta mark set meta mark xor {MARK}\n masquerade\n }}\n}}"
    )
}
