//! tc filters.

use rtnetlink::packet_route::tc::{TcAttribute, TcFilterBpfOption, TcOption};

use super::{HostError, Netlink, failed};

impl Netlink {
    /// Names of the BPF filters on a link's clsact hooks, as their loader gave them.
    pub fn bpf_filters(&self, index: u32, egress: bool) -> Result<Vec<String>, HostError> {
        let request = self.handle.traffic_filter(index as i32).get();
        let request = if egress { request.egress() } else { request.ingress() };
        let messages = self.all(request.execute());
        let messages = messages.map_err(|error| failed("list filters of", format!("link {index}"), error))?;
        let options =
            messages.iter().flat_map(|message| &message.attributes).filter_map(|attribute| match attribute {
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
}
