//! The clsact qdisc and BPF filters on it.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use rtnetlink::{
    packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE},
    packet_route::{
        RouteNetlinkMessage,
        tc::{TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption},
    },
};

use super::{HostError, Netlink, failed, is};

/// A hook of the clsact qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Packets the device has received.
    Ingress,
    /// Packets the device is to send.
    Egress,
}

/// Where a filter is, or is to be.
#[derive(Debug, Clone, Copy)]
pub struct FilterPlace<'a> {
    /// Name of the link, for messages.
    pub link: &'a str,
    /// Its index.
    pub index: u32,
    /// Hook.
    pub hook: Hook,
    /// Priority, lower runs first.
    pub priority: u16,
    /// Minor number of the handle.
    pub handle: u16,
}

impl FilterPlace<'_> {
    fn message(&self) -> TcMessage {
        let mut message = parent(self.index, self.hook);
        message.header.handle = TcHandle { major: 0, minor: self.handle };
        // Priority and EtherType (`TC_H_MAKE` in tc_filter.c of iproute2), the latter in network order.
        message.header.info = (self.priority as u32) << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;
        message.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.to_owned()));
        message
    }

    fn with(&self, program: BorrowedFd<'_>, name: &str) -> TcMessage {
        let mut message = self.message();
        message.attributes.push(TcAttribute::Options(vec![
            TcOption::Bpf(TcFilterBpfOption::ProgFd(program.as_raw_fd() as u32)),
            TcOption::Bpf(TcFilterBpfOption::ProgName(name.to_owned())),
            TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
        ]));
        message
    }
}

fn parent(index: u32, hook: Hook) -> TcMessage {
    let minor = match hook {
        Hook::Ingress => TcHandle::MIN_INGRESS,
        Hook::Egress => TcHandle::MIN_EGRESS,
    };
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle { major: 0xffff, minor };
    message
}

impl Netlink {
    /// Adds the clsact qdisc. Returns false if it is there.
    pub fn add_clsact(&self, link: &str, index: u32) -> Result<bool, HostError> {
        let request = RouteNetlinkMessage::NewQueueDiscipline(clsact(index));
        match self.send(request, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("add the clsact qdisc to", link, error)),
        }
    }

    /// Removes the clsact qdisc if nobody has a filter on it; that it is gone is fine.
    pub fn remove_unused_clsact(&self, link: &str, index: u32) -> Result<(), HostError> {
        for hook in [Hook::Ingress, Hook::Egress] {
            if !self.filter_messages(link, index, hook)?.is_empty() {
                return Ok(());
            }
        }
        match self.send(RouteNetlinkMessage::DelQueueDiscipline(clsact(index)), 0) {
            Err(error) if !is_gone(&error) => Err(failed("remove the clsact qdisc from", link, error)),
            _ => Ok(()),
        }
    }

    /// Adds a BPF filter in direct-action mode. Returns false if the place is taken.
    pub fn add_filter(
        &self,
        place: FilterPlace<'_>,
        program: BorrowedFd<'_>,
        name: &str,
    ) -> Result<bool, HostError> {
        let request = RouteNetlinkMessage::NewTrafficFilter(place.with(program, name));
        match self.send(request, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("attach", format!("{name} to {}", place.link), error)),
        }
    }

    /// Puts another program into a BPF filter.
    pub fn replace_filter(
        &self,
        place: FilterPlace<'_>,
        program: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), HostError> {
        let request = RouteNetlinkMessage::NewTrafficFilter(place.with(program, name));
        let replaced = self.send(request, NLM_F_REPLACE);
        replaced.map_err(|error| failed("replace", format!("{name} on {}", place.link), error))
    }

    /// Removes a filter. Returns false if it, its qdisc or its device is gone.
    pub fn remove_filter(&self, place: FilterPlace<'_>) -> Result<bool, HostError> {
        match self.send(RouteNetlinkMessage::DelTrafficFilter(place.message()), 0) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(failed("remove a filter from", place.link, error)),
        }
    }

    /// Names of the BPF filters on a hook of a link, as their loader gave them.
    pub fn filters(&self, link: &str, index: u32, hook: Hook) -> Result<Vec<String>, HostError> {
        let messages = self.filter_messages(link, index, hook)?;
        let attributes = messages.iter().flat_map(|message| &message.attributes);
        let options = attributes.filter_map(|attribute| match attribute {
            TcAttribute::Options(options) => Some(options),
            _ => None,
        });
        Ok(options
            .flatten()
            .filter_map(|option| match option {
                TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => Some(name.clone()),
                _ => None,
            })
            .collect())
    }

    fn filter_messages(&self, link: &str, index: u32, hook: Hook) -> Result<Vec<TcMessage>, HostError> {
        let request = self.handle.traffic_filter(index as i32).get();
        let request = match hook {
            Hook::Ingress => request.ingress(),
            Hook::Egress => request.egress(),
        };
        self.all(request.execute()).map_err(|error| failed("list the filters of", link, error))
    }
}

fn clsact(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    message
}

/// True if a filter, its qdisc or its device is not there.
fn is_gone(error: &rtnetlink::Error) -> bool {
    [libc::ENOENT, libc::EINVAL, libc::ENODEV].iter().any(|&errno| is(error, errno))
}
