//! Each pod: what is left of what its ADD made.

use std::collections::BTreeSet;

use super::{
    check::{Check, Verdict},
    network::{bridges, is_of_bridge},
};
use crate::{
    cli::{
        ls::since,
        node::{Node, name, own},
        table::age,
    },
    plan::{Expectation, Side},
    state::Record,
    verbs::{Difference, Leftover},
};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "pods", name: "pods", examine: pods },
    Check { area: "last ADD", name: "last_add", examine: last_add },
];

fn pods(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let bridges = bridges(node)?;
    let mut verdicts = Vec::new();
    for (pod, compared) in node.compared()?.filter(|(pod, _)| !is_left(node, pod)) {
        let state = match compared {
            Ok(state) => state,
            Err(error) => {
                verdicts.push(Verdict::wrong(format!("pod {}: {error}", name(pod)), delete(pod)));
                continue;
            }
        };
        let own_ones = state.differences.iter().filter(|one| is_of_pod(one, &bridges));
        verdicts.extend(own_ones.map(|difference| {
            let fix = if is_final(difference, pod) { delete(pod) } else { format!("{} repair", own()) };
            Verdict::wrong(format!("pod {}: {difference}", name(pod)), fix)
        }));
    }
    if verdicts.is_empty() {
        verdicts = match node.records()?.len() {
            0 => Verdict::note("no pods on this node"),
            1 => Verdict::fine("1 pod is as its ADD left it"),
            more => Verdict::fine(format!("{more} pods are as their ADDs left them")),
        };
    }
    Ok(verdicts)
}

/// Told of elsewhere, as a leftover.
fn is_left(node: &Node, pod: &Record) -> bool {
    let is_it = |leftover: &Leftover| matches!(leftover, Leftover::Attachment(record) if **record == *pod);
    node.leftovers().is_ok_and(|leftovers| leftovers.iter().any(is_it))
}

/// What is shared by pods has checks of its own.
fn is_of_pod(difference: &Difference, bridges: &BTreeSet<&str>) -> bool {
    match difference {
        Difference::Kernel(
            Expectation::Masquerade { .. } | Expectation::Sysctl(..) | Expectation::NodeRoute(_),
            _,
        )
        | Difference::Programs(_) => false,
        Difference::Kernel(expected, _) => !is_of_bridge(expected, bridges),
        Difference::Lease(_) => true,
    }
}

/// A veth that is gone comes back with a new pod only.
fn is_final(difference: &Difference, pod: &Record) -> bool {
    let Difference::Kernel(Expectation::Up(side, link), found) = difference else { return false };
    let is_veth = (*side, link) == (Side::Node, &pod.veth) || (*side, link) == (Side::Pod, &pod.ifname);
    is_veth && found == "no such link"
}

/// Makes the runtime delete the pod, and its controller make another.
fn delete(pod: &Record) -> String {
    match &pod.pod {
        Some((namespace, name)) => format!("kubectl delete pod --namespace {namespace} {name}"),
        None => format!("# stop and remove container {} by its runtime, and start it anew", pod.container_id),
    }
}

/// The youngest pod. ADDs that failed leave nothing but a line in the log.
fn last_add(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let Some(last) = node.records()?.iter().max_by_key(|record| record.created) else {
        return Ok(Verdict::note("none that a pod of this node comes from"));
    };
    let what = format!("pod {}, {} ago", name(last), age(since(last)));
    Ok(if last.complete { Verdict::fine(what) } else { Verdict::note(format!("{what}, not completed")) })
}
