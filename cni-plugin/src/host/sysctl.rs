//! Sysctls under `/proc/sys/net`, which shows the namespace of the thread that opens a file in it.

use std::{fs, io, path::PathBuf};

use crate::plan::Sysctl;

/// Where a sysctl is.
pub fn path(sysctl: &Sysctl) -> PathBuf {
    let net = PathBuf::from("/proc/sys/net");
    match sysctl {
        Sysctl::Ipv4Forwarding => net.join("ipv4/ip_forward"),
        Sysctl::Ipv6Forwarding => net.join("ipv6/conf/all/forwarding"),
        Sysctl::AcceptRa(link) => net.join("ipv6/conf").join(link).join("accept_ra"),
        Sysctl::AcceptDad(link) => net.join("ipv6/conf").join(link).join("accept_dad"),
        Sysctl::DisableIpv6(link) => net.join("ipv6/conf").join(link).join("disable_ipv6"),
        Sysctl::ArpNotify(link) => net.join("ipv4/conf").join(link).join("arp_notify"),
        Sysctl::NdiscNotify(link) => net.join("ipv6/conf").join(link).join("ndisc_notify"),
        Sysctl::ConntrackLiberal => net.join("netfilter/nf_conntrack_tcp_be_liberal"),
        Sysctl::ConntrackEstablished => net.join("netfilter/nf_conntrack_tcp_timeout_established"),
        Sysctl::ConntrackUnacknowledged => net.join("netfilter/nf_conntrack_tcp_timeout_unacknowledged"),
    }
}

/// The present value; `None` if the kernel does not have this sysctl (IPv6 or conntrack compiled out or not loaded).
pub fn read(sysctl: &Sysctl) -> io::Result<Option<String>> {
    match fs::read_to_string(path(sysctl)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a value unless it is there already. Returns the old one if it has changed.
pub fn write(sysctl: &Sysctl, value: &str) -> io::Result<Option<String>> {
    let old = read(sysctl)?;
    match old {
        Some(old) if old == value => Ok(None),
        Some(old) => fs::write(path(sysctl), value).map(|()| Some(old)),
        None => Ok(None),
    }
}
