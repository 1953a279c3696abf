//! `repair`: restores what CHECK misses, for every attachment on record.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Judged, Report, SCHEMA_VERSION,
    node::{Node, name},
    paint,
};
use crate::{
    state::Record,
    verbs::{Attached, Difference, VerbError},
};

pub(super) fn repair(bpffs: &Path) -> anyhow::Result<Judged> {
    let node = Node::look(bpffs)?;
    let (mut table, mut pods, mut healthy) = (String::new(), Vec::new(), true);
    for record in node.records()? {
        let outcome = Attached::open(record).and_then(|mut attached| attached.repair());
        healthy &= outcome.as_ref().is_ok_and(|(_, left)| left.is_empty());
        table.push_str(&lines(record, &outcome));
        pods.push(document(record, &outcome));
    }
    if table.is_empty() {
        table.push_str("nothing to repair\n");
    }
    Ok(Judged {
        report: Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "pods": pods }), table },
        healthy,
    })
}

type Outcome = Result<(Vec<Difference>, Vec<Difference>), VerbError>;

fn lines(record: &Record, outcome: &Outcome) -> String {
    let pod = name(record);
    match outcome {
        Ok((restored, left)) => {
            let good = restored.iter().map(|one| format!("{} pod {pod}: {one}\n", paint::good("restored")));
            let bad = left.iter().map(|one| format!("{} pod {pod}: {one}\n", paint::bad("not restored")));
            good.chain(bad).collect()
        }
        Err(error) => format!("{} pod {pod}: {error}\n", paint::bad("failed")),
    }
}

fn document(record: &Record, outcome: &Outcome) -> Value {
    let told = |differences: &[Difference]| differences.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (restored, left, error) = match outcome {
        Ok((restored, left)) => (told(restored), told(left), None),
        Err(error) => (Vec::new(), Vec::new(), Some(error.to_string())),
    };
    json!({
        "network": record.network, "containerId": record.container_id, "ifname": record.ifname,
        "restored": restored, "notRestored": left, "error": error,
    })
}
