//! Which charts there are, and the bars of each.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::draw;
use super::load::Load;
use super::results::Results;
use super::route::Route;
use super::table::figure;
use super::variant::Variant::{self, Accelerated, Host, Off, Reference, Wire};
use super::workload::{Crowd, OPERATIONS, Workload};

pub(super) const SUMMARY: &str = "speed.svg";
pub(super) const ADD_DEL: &str = "add-del.svg";
const RR: Load = Load::RoundTrips { pinned: true };
/// What fits a slide.
const LOADS: [Load; 5] = [Load::Datagrams(64), Load::ManyFlows, RR, Load::Streams(1), Load::Connections];

/// A chart.
pub(super) struct Picture {
    pub(super) title: &'static str,
    /// What the bars are.
    pub(super) caption: &'static str,
    pub(super) file: String,
    pub(super) groups: Vec<Group>,
    /// Where the reference is, if the bars are relative to it.
    pub(super) one: Option<f64>,
}

/// Bars that belong together.
pub(super) struct Group {
    pub(super) name: String,
    /// Below it, smaller.
    pub(super) remark: String,
    pub(super) bars: Vec<Bar>,
}

/// One bar, and what is written beside it.
pub(super) struct Bar {
    pub(super) variant: Variant,
    pub(super) length: f64,
    /// The same for the worst and the best round, or of the samples.
    pub(super) spread: (f64, f64),
    pub(super) label: String,
}

/// Draws what was measured.
pub(super) fn draw(directory: &Path, results: &Results) -> Result<()> {
    pictures(results).iter().try_for_each(|picture| {
        let path = directory.join(&picture.file);
        // The backend's errors borrow from it.
        let drawn = draw::draw(&path, picture).map_err(|error| anyhow!("{error}"));
        drawn.with_context(|| format!("drawing {}", path.display()))
    })
}

/// All that have bars.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let mut pictures = vec![summary(results), operations(results)];
    pictures.extend(Route::ALL.map(|route| on_route(results, route)));
    pictures.retain(|picture| !picture.groups.is_empty());
    pictures
}

/// Of a route's chart.
pub(super) fn file(route: Route) -> String {
    format!("{}.svg", route.name())
}

fn summary(results: &Results) -> Picture {
    use Route::{Outside, Pod, Ruled};
    let small = Load::Datagrams(64);
    let shown =
        [(small, Pod), (RR, Pod), (Load::Streams(1), Pod), (small, Outside), (RR, Outside), (small, Ruled)];
    let groups = shown.into_iter().filter_map(|(load, route)| {
        let bars = ratios(results, Workload::Traffic(load, route), &[Accelerated, Reference, Wire, Host]);
        (!bars.is_empty()).then(|| Group { name: load.title(), remark: route.title().into(), bars })
    });
    Picture {
        title: "Pod traffic on one node",
        caption: "times as fast as the reference bridge; line: worst to best round",
        file: SUMMARY.into(),
        groups: groups.collect(),
        one: Some(1.0),
    }
}

fn on_route(results: &Results, route: Route) -> Picture {
    let loads = LOADS.iter().filter(|load| route.loads().contains(load));
    let groups = loads.filter_map(|&load| {
        let bars = ratios(results, Workload::Traffic(load, route), &Variant::ALL);
        (!bars.is_empty()).then(|| Group { name: load.title(), remark: route.title().into(), bars })
    });
    Picture {
        title: match route {
            Route::Pod => "Pod to pod",
            Route::ClusterIp => "Pod to ClusterIP",
            Route::Outside => "Pod to outside, masqueraded",
            Route::HostPort => "Outside to hostPort",
            Route::Ruled => "Pod to outside, through 5,000 Service rules and 200 policy rules",
        },
        caption: "times as fast as the reference bridge; line: worst to best round",
        file: file(route),
        groups: groups.collect(),
        one: Some(1.0),
    }
}

fn operations(results: &Results) -> Picture {
    let crowds = [1, 50, 200, 500].map(|others| Crowd { others, parallel: false });
    let shown = OPERATIONS.into_iter().flat_map(|operation| crowds.map(|crowd| (operation, crowd)));
    let groups = shown.filter_map(|(operation, crowd)| {
        let bars = times(results, Workload::Pods(operation, crowd), &[Accelerated, Off, Reference]);
        let remark = format!("beside {} other{}", crowd.others, if crowd.others == 1 { "" } else { "s" });
        (!bars.is_empty()).then(|| Group { name: operation.title().into(), remark, bars })
    });
    Picture {
        title: "ADD and DEL with masquerade",
        caption: "ms, shorter is better; line: fastest to slowest sample",
        file: ADD_DEL.into(),
        groups: groups.collect(),
        one: None,
    }
}

/// Bars relative to the reference bridge.
fn ratios(results: &Results, workload: Workload, variants: &[Variant]) -> Vec<Bar> {
    let bar = |&variant: &Variant| {
        let series = results.of(workload, variant)?;
        let ratio = results.ratio(workload, variant, Reference)?;
        let rounds = results.ratios(workload, variant, Reference)?;
        let spread = (*rounds.first()?, *rounds.last()?);
        let label = format!("{ratio:.2}x · {} {}", figure(series.median()), workload.unit());
        Some(Bar { variant, length: ratio, spread, label })
    };
    variants.iter().filter_map(bar).collect()
}

/// Bars in the workload's own unit.
fn times(results: &Results, workload: Workload, variants: &[Variant]) -> Vec<Bar> {
    let bar = |&variant: &Variant| {
        let series = results.of(workload, variant)?;
        let label = format!("{} {}", figure(series.median()), workload.unit());
        let spread = (series.quantile(0.0), series.quantile(1.0));
        Some(Bar { variant, length: series.median(), spread, label })
    };
    variants.iter().filter_map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::Sample;

    #[test]
    fn a_bar_is_as_long_as_its_ratio_and_its_line_from_worst_to_best() {
        let workload = Workload::Traffic(Load::Datagrams(64), Route::Pod);
        let mut results = Results::default();
        for (ours, theirs) in [(200.0, 100.0), (300.0, 75.0), (280.0, 112.0)] {
            results.push(workload, Accelerated, Sample::of(ours));
            results.push(workload, Reference, Sample::of(theirs));
        }
        let pictures = pictures(&results);
        let files: Vec<_> = pictures.iter().map(|picture| picture.file.as_str()).collect();
        assert_eq!(files, ["speed.svg", "pod.svg"]);
        let bars = &pictures[1].groups[0].bars;
        assert_eq!((bars[0].length, bars[0].spread), (2.5, (2.0, 4.0)));
        assert_eq!((bars[1].length, bars[1].label.as_str()), (1.0, "1.00x · 100 packets/s"));
    }
}
