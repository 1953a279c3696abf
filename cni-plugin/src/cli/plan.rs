//! `plan`: the steps an ADD would take on this node, without taking them.

use std::io::{self, Read};

use anyhow::Context;
use serde_json::json;

use super::{Report, SCHEMA_VERSION, paint};
use crate::{
    config::List,
    verbs::{Preview, preview},
};

pub(super) fn plan() -> anyhow::Result<Report> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).context("standard input cannot be read")?;
    let networks = List::parse(&text).and_then(|list| list.networks()).context("standard input")?;
    let (mut table, mut plans) = (String::new(), Vec::new());
    for network in networks {
        let preview = preview(&network)?;
        table.push_str(&format!("network {} on bridge {}\n", network.name, network.bridge));
        table.push_str(&lines(&preview));
        let steps = preview
            .steps
            .iter()
            .map(|planned| json!({ "text": planned.step.to_string(), "done": planned.is_done }));
        let addresses = preview.addressing.ips.iter().map(|ip| ip.address);
        plans.push(json!({
            "network": network.name, "bridge": network.bridge, "addresses": addresses.collect::<Vec<_>>(),
            "steps": steps.collect::<Vec<_>>(), "uplinks": preview.fast_path.as_ref().ok(),
            "notAccelerated": preview.fast_path.as_ref().err(),
        }));
    }
    Ok(Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "plans": plans }), table })
}

fn lines(preview: &Preview) -> String {
    let mut lines: Vec<String> = Vec::new();
    for ip in &preview.addressing.ips {
        lines.push(format!("lease {}", ip.address));
    }
    for planned in &preview.steps {
        let so = if planned.is_done { format!(" {}", paint::good("(is so)")) } else { String::new() };
        lines.push(format!("{}{so}", planned.step));
    }
    lines.push(match &preview.fast_path {
        Ok(uplinks) if uplinks.is_empty() => "attach the programs to the veth; there is no uplink".to_owned(),
        Ok(uplinks) => format!("attach the programs to the veth and to {}", uplinks.join(", ")),
        Err(why) => format!("leave the pod on the bridge path: {why}"),
    });
    lines.iter().enumerate().map(|(at, line)| format!("{:>3}. {line}\n", at + 1)).collect()
}
