//! Steps that concern a port of the bridge beyond its being one.

use std::io;

use rtnetlink::LinkUnspec;

use super::{HostError, LinuxHost, Side, Step, nft};
use crate::plan::DEFAULT_VLAN;

impl LinuxHost {
    pub(super) fn apply_to_port(&self, step: &Step) -> Result<Option<Step>, HostError> {
        match step {
            Step::JoinBridge { link, bridge } => {
                let message = LinkUnspec::new_with_index(self.node.index(link)?);
                self.node.set(link, message.controller(self.node.index(bridge)?).build())?;
            }
            Step::SetIsolated { link } => self.node.set_isolated(link, self.node.index(link)?)?,
            Step::CheckMac { port, link } => return self.check_mac(port, link).map(Some),
            Step::ForgetMac { port } => {
                nft::forget_mac(port).map_err(|error| failed("stop checking the MACs of", port, error))?;
            }
            Step::CreateInner { .. } => return self.create_inner(step),
            Step::FilterVlans { link } => self.node.filter_vlans(link)?,
            Step::AddVlan { link, vlan, access } => {
                self.node.add_vlan(link, self.node.index(link)?, *vlan, *access)?;
            }
            Step::RemoveVlan { link, vlan } => {
                self.node.remove_vlan(link, self.node.index(link)?, *vlan)?;
            }
            _ => {}
        }
        // What is a port's goes with it, and so do its VLANs.
        Ok(None)
    }

    fn create_inner(&self, step: &Step) -> Result<Option<Step>, HostError> {
        let Step::CreateInner { link, port, bridge, vlan, keep_default } = step else { return Ok(None) };
        let master = self.node.need(bridge)?;
        let created = self.node.create_inner(link, port, &master)?;
        // One that somebody else made, such as the reference plugin, has another port, and is as it should be.
        let Some(found) = self.node.link(port)? else { return Ok(None) };
        let mut done = self.node.add_vlan(port, found.index, *vlan, true);
        done = done.and_then(|()| self.node.set_up(link));
        if !keep_default {
            done = done.and_then(|()| self.node.remove_vlan(port, found.index, DEFAULT_VLAN));
        }
        if created && done.is_err() {
            self.node.delete(link)?;
        }
        done?;
        Ok(created.then(|| Step::DeleteLink { name: link.clone() }))
    }

    fn check_mac(&self, port: &str, link: &str) -> Result<Step, HostError> {
        let mac = self.netlink(Side::Pod)?.need(link)?.mac;
        let mac = mac.ok_or_else(|| HostError::new("read the MAC of", link, io::ErrorKind::NotFound))?;
        // What an ADD that was cut short left would let nothing through.
        let done = nft::forget_mac(port).and_then(|()| nft::check_mac(port, mac));
        done.map_err(|error| failed("check the MACs of", port, error))?;
        Ok(Step::ForgetMac { port: port.to_owned() })
    }
}

fn failed(action: &'static str, port: &str, error: nft::NftError) -> HostError {
    HostError::new(action, port, io::Error::other(error))
}
