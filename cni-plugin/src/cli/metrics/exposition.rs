//! The text format of Prometheus (version 0.0.4).

use std::fmt::Write;

/// Its media type.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family of metrics is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// Labels and value.
pub(super) type Sample<'a> = (Vec<(&'static str, &'a str)>, f64);

/// A page of families.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Adds a family; one without samples is left out. Every name begins with `ebpf_bridge_`.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str, samples: &[Sample<'_>]) {
        if samples.is_empty() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let mut text = format!("# HELP ebpf_bridge_{name} {help}\n# TYPE ebpf_bridge_{name} {kind}\n");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "ebpf_bridge_{name}{labels} {value}");
        }
        self.text.push_str(&text);
    }

    /// The page.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A label's value may be any text, with these characters escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}
