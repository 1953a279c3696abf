//! `stats`: counters by program and reason, their rates, and the share of the fast path.

use std::{path::Path, time::Duration};

use ebpf_bridge_common::reason::Ingress;
use serde_json::{Map, Value, json};

use super::{Report, SCHEMA_VERSION, node::pins, table::columns};
use crate::dataplane::{self, Counters};

pub(super) fn stats(bpffs: &Path) -> anyhow::Result<Report> {
    Watched::default().report(bpffs, None)
}

/// Counters as they were the last time, for rates.
#[derive(Default)]
pub(super) struct Watched {
    before: Option<Counters>,
}

/// A counter: program, reason, packets, and packets a second if there is something to compare with.
type Row = (&'static str, &'static str, u64, Option<f64>);

impl Watched {
    /// Reads the counters. `since` is how long ago that was done before.
    pub(super) fn report(&mut self, bpffs: &Path, since: Option<Duration>) -> anyhow::Result<Report> {
        let Some(counters) = dataplane::counters(&pins(bpffs)?)? else {
            return Ok(Report {
                json: json!({ "schemaVersion": SCHEMA_VERSION, "ingress": {}, "egress": {}, "fastShare": null }),
                table: "the eBPF programs are not loaded: no pod of this node is accelerated\n".to_owned(),
            });
        };
        let before = self.before.replace(counters.clone());
        let compared = before.as_ref().zip(since.map(|since| since.as_secs_f64()));
        let rows = rows(&counters, compared);
        let share = share(&counters, before.as_ref());
        Ok(Report { table: table(&rows, share), json: document(&rows, share) })
    }
}

fn rows(now: &Counters, compared: Option<(&Counters, f64)>) -> Vec<Row> {
    let rate = |count: u64, before: Option<u64>| {
        let (_, seconds) = compared?;
        Some(count.saturating_sub(before?) as f64 / seconds)
    };
    let ingress = now.ingress.iter().enumerate().map(|(at, (reason, count))| {
        let before = compared.map(|(before, _)| before.ingress[at].1);
        ("flow_ingress", reason.name(), *count, rate(*count, before))
    });
    let egress = now.egress.iter().enumerate().map(|(at, (reason, count))| {
        let before = compared.map(|(before, _)| before.egress[at].1);
        ("flow_egress", reason.name(), *count, rate(*count, before))
    });
    ingress.chain(egress).collect()
}

/// The part of all IP packets that took the fast path, 0 to 1, since `before` or ever; none of none.
fn share(now: &Counters, before: Option<&Counters>) -> Option<f64> {
    let (mut fast, mut all) = (0, 0);
    for (at, (reason, count)) in now.ingress.iter().enumerate() {
        let count = count.saturating_sub(before.map_or(0, |before| before.ingress[at].1));
        match reason {
            Ingress::NotIp => {}
            Ingress::Redirected => (fast, all) = (count, all + count),
            _ => all += count,
        }
    }
    (all > 0).then(|| fast as f64 / all as f64)
}

fn table(rows: &[Row], share: Option<f64>) -> String {
    let watched = rows.iter().any(|(.., rate)| rate.is_some());
    let mut lines = vec![["PROGRAM", "REASON", "PACKETS"].map(str::to_owned).to_vec()];
    if watched {
        lines[0].push("PER SECOND".to_owned());
    }
    for (program, reason, count, rate) in rows.iter().filter(|(_, _, count, _)| *count > 0) {
        let mut line = vec![(*program).to_owned(), (*reason).to_owned(), format!("{count:>14}")];
        line.extend(rate.map(|rate| format!("{rate:>12.0}")));
        lines.push(line);
    }
    let share = match share {
        Some(share) => format!("{:.1} % of the IP packets took the fast path\n", 100.0 * share),
        None => "no IP packets\n".to_owned(),
    };
    columns(&lines) + &share
}

fn document(rows: &[Row], share: Option<f64>) -> Value {
    let of = |program: &str| rows.iter().filter(move |row| row.0 == program).collect::<Vec<_>>();
    let counts =
        |program| of(program).iter().map(|row| (row.1.to_owned(), json!(row.2))).collect::<Map<_, _>>();
    let rates = |program| {
        let rated = of(program).into_iter().filter_map(|row| Some((row.1.to_owned(), json!(row.3?))));
        rated.collect::<Map<_, _>>()
    };
    json!({
        "schemaVersion": SCHEMA_VERSION, "ingress": counts("flow_ingress"), "egress": counts("flow_egress"),
        "perSecond": { "ingress": rates("flow_ingress"), "egress": rates("flow_egress") }, "fastShare": share,
    })
}
