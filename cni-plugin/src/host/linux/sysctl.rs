//! Sysctls of both sides.

use super::{HostError, LinuxHost, Side, Step, Sysctl, Sysctls};
use crate::host::sysctl;

impl LinuxHost {
    /// The sysctls of the node's namespace.
    pub fn sysctls(&self) -> &Sysctls {
        &self.sysctls
    }

    /// The value of a sysctl, `None` if the kernel does not have it.
    pub(in crate::host) fn sysctl(&self, side: Side, sysctl: &Sysctl) -> Result<Option<String>, HostError> {
        let sysctls = self.sysctls_of(side)?;
        let read = self.within(side, || sysctls.read(sysctl))?;
        read.map_err(|error| HostError::new("read", sysctl::path(sysctl).display(), error))
    }

    fn sysctls_of(&self, side: Side) -> Result<&Sysctls, HostError> {
        match side {
            Side::Node => Ok(&self.sysctls),
            Side::Pod => Ok(&self.pod()?.sysctls),
        }
    }

    /// Why a link of the node can have no IPv6 address, if it cannot. New links are as `default` says.
    pub(super) fn no_ipv6(&self, link: &str) -> Result<Option<&'static str>, HostError> {
        Ok(match self.sysctl(Side::Node, &Sysctl::DisableIpv6(link.to_owned()))?.as_deref() {
            Some("0") => None,
            Some(_) => Some("IPv6 is disabled on this node (net.ipv6.conf, disable_ipv6)"),
            None => Some("this node's kernel has no IPv6"),
        })
    }

    pub(super) fn set_sysctl(
        &self,
        side: Side,
        sysctl: &Sysctl,
        value: &str,
    ) -> Result<Option<Step>, HostError> {
        let failed = |error| HostError::new("write", sysctl::path(sysctl).display(), error);
        let sysctls = self.sysctls_of(side)?;
        let old = self.within(side, || sysctls.write(sysctl, value))?.map_err(failed)?;
        Ok(old.map(|value| Step::SetSysctl { side, sysctl: sysctl.clone(), value }))
    }
}
