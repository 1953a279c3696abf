//! Sysctls under `/proc/sys/net`, which shows the namespace of the thread that opens a file in it.
//!
//! To find `/proc/sys/net/ipv6` the kernel compares with the entry of that name of every network namespace
//! (`proc_sys_compare` in fs/proc/proc_sysctl.c), which takes 0.2 ms among 200 pods. All below it is of one namespace.
//! So these directories are opened once.

use std::{
    cell::OnceCell,
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

use crate::plan::Sysctl;

/// Longer than any value of ours.
const VALUE: usize = 64;

/// A directory below which all is of one namespace.
#[derive(Debug, Clone, Copy)]
enum Area {
    Ipv4,
    Ipv6,
    Netfilter,
}

/// The sysctls of one network namespace. Every call must be made in it.
#[derive(Debug, Default)]
pub struct Sysctls {
    /// By area; `None` if the kernel has no such directory.
    directories: [OnceCell<Option<OwnedFd>>; 3],
}

impl Sysctls {
    /// The present value; `None` if the kernel does not have this sysctl (IPv6 or conntrack compiled out or not loaded).
    pub fn read(&self, sysctl: &Sysctl) -> io::Result<Option<String>> {
        let Some(mut file) = self.open(sysctl, OFlag::O_RDONLY)? else { return Ok(None) };
        let mut value = [0; VALUE];
        let length = file.read(&mut value)?;
        Ok(Some(String::from_utf8_lossy(&value[..length]).trim().to_owned()))
    }

    /// Writes a value unless it is there already. Returns the old one if it has changed.
    pub fn write(&self, sysctl: &Sysctl, value: &str) -> io::Result<Option<String>> {
        // Reading first: where nothing needs to change, `/proc/sys` may be read-only.
        let Some(old) = self.read(sysctl)?.filter(|old| old != value) else { return Ok(None) };
        let Some(mut file) = self.open(sysctl, OFlag::O_WRONLY)? else { return Ok(None) };
        file.write_all(value.as_bytes())?;
        Ok(Some(old))
    }

    fn open(&self, sysctl: &Sysctl, mode: OFlag) -> io::Result<Option<File>> {
        let (area, below) = place(sysctl);
        let Some(directory) = self.directory(area)? else { return Ok(None) };
        Ok(found(openat(directory, &below, mode | OFlag::O_CLOEXEC, Mode::empty()))?.map(File::from))
    }

    fn directory(&self, area: Area) -> io::Result<Option<&OwnedFd>> {
        let cell = &self.directories[area as usize];
        if cell.get().is_none() {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let opened = found(open(&area.path(), flags, Mode::empty()))?;
            return Ok(cell.get_or_init(|| opened).as_ref());
        }
        Ok(cell.get().and_then(Option::as_ref))
    }
}

impl Area {
    fn path(self) -> PathBuf {
        Path::new("/proc/sys/net").join(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Netfilter => "netfilter",
        })
    }
}

/// Where a sysctl is.
pub fn path(sysctl: &Sysctl) -> PathBuf {
    let (area, below) = place(sysctl);
    area.path().join(below)
}

fn place(sysctl: &Sysctl) -> (Area, PathBuf) {
    let of = |link: &str, key: &str| Path::new("conf").join(link).join(key);
    match sysctl {
        Sysctl::Ipv4Forwarding => (Area::Ipv4, "ip_forward".into()),
        Sysctl::Ipv6Forwarding => (Area::Ipv6, "conf/all/forwarding".into()),
        Sysctl::AcceptRa(link) => (Area::Ipv6, of(link, "accept_ra")),
        Sysctl::AcceptDad(link) => (Area::Ipv6, of(link, "accept_dad")),
        Sysctl::DisableIpv6(link) => (Area::Ipv6, of(link, "disable_ipv6")),
        Sysctl::ArpNotify(link) => (Area::Ipv4, of(link, "arp_notify")),
        Sysctl::NdiscNotify(link) => (Area::Ipv6, of(link, "ndisc_notify")),
        Sysctl::ConntrackLiberal => (Area::Netfilter, "nf_conntrack_tcp_be_liberal".into()),
        Sysctl::ConntrackEstablished => (Area::Netfilter, "nf_conntrack_tcp_timeout_established".into()),
        Sysctl::ConntrackUnacknowledged => {
            (Area::Netfilter, "nf_conntrack_tcp_timeout_unacknowledged".into())
        }
    }
}

/// What was opened; `None` if there is no such thing.
fn found(opened: nix::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
