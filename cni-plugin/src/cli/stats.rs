//! `stats`: counters by program and reason.

use std::{fmt::Write, path::Path};

use serde_json::{Map, Value, json};

use super::{Report, SCHEMA_VERSION};
use crate::dataplane::{self, Pins};

pub(super) fn stats(bpffs: &Path) -> anyhow::Result<Report> {
    let Some(counters) = dataplane::counters(&Pins::under(bpffs))? else {
        return Ok(Report {
            json: json!({ "schemaVersion": SCHEMA_VERSION, "ingress": {}, "egress": {} }),
            table: "the eBPF programs are not loaded: no pod of this node is accelerated\n".to_owned(),
        });
    };
    let ingress: Vec<_> = counters.ingress.iter().map(|(reason, n)| (reason.name(), *n)).collect();
    let egress: Vec<_> = counters.egress.iter().map(|(reason, n)| (reason.name(), *n)).collect();
    let mut table = String::new();
    for (program, rows) in [("flow_ingress", &ingress), ("flow_egress", &egress)] {
        for (reason, count) in rows.iter().filter(|(_, count)| *count > 0) {
            writeln!(table, "{program:<13} {reason:<16} {count:>14}")?;
        }
    }
    Ok(Report {
        json: json!({ "schemaVersion": SCHEMA_VERSION, "ingress": object(&ingress), "egress": object(&egress) }),
        table,
    })
}

fn object(rows: &[(&str, u64)]) -> Value {
    Value::Object(rows.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>())
}
