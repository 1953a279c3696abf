//! Repeating what the kernel did to a packet.

use crate::{
    flow::{Flow, Seen},
    reason::Ingress,
    wire::Config,
};

/// Whether the packet may be carried as `flow` says.
#[inline(always)]
pub fn fresh<A>(flow: &Flow<A>, seen: &Seen, config: &Config, now_ns: u64) -> Result<(), Ingress> {
    // Another CPU's clock may have put the time slightly ahead of ours. A time of 0 is not old just after boot.
    let age_ns = now_ns.saturating_sub(flow.learned_ns);
    if flow.learned_ns == 0 || age_ns >= config.renew_ns || flow.epoch != config.epoch {
        return Err(Ingress::Stale);
    }
    if seen.wire_len > flow.max_len {
        return Err(Ingress::Larger);
    }
    if seen.macs != flow.macs_in || seen.dscp != flow.dscp_in {
        return Err(Ingress::Differs);
    }
    Ok(())
}
