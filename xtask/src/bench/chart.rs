//! Bars for a slide: each workload's variants beside each other, the reference bridge being 1.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::figure;
use super::results::Results;
use super::variant::Variant;
use super::workload::{Route, Workload};

/// A chart that was drawn.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) file: &'static str,
    /// Whether there is such a file: memory alone makes no bars.
    pub(super) drawn: bool,
    pub(super) workloads: Vec<Workload>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Pixels. A slide is 1280 wide.
const WIDTH: i32 = 1280;
/// Where bars begin; the names of the workloads are left of it.
const LEFT: i32 = 330;
/// Bars end before this, and their figures after it.
const RIGHT: i32 = 1050;
const TOP: i32 = 130;
const BAR: i32 = 26;
const GAP: i32 = 26;
const INK: RGBColor = RGBColor(38, 38, 38);
const PALE: RGBColor = RGBColor(130, 130, 130);
const LINE: RGBColor = RGBColor(225, 225, 225);

/// Draws what was measured; a chart without bars is none.
pub(super) fn draw(out: &Path, results: &Results) -> Result<Vec<Chart>> {
    let mut charts = all();
    for chart in &mut charts {
        chart.workloads.retain(|&w| results.of(w, Variant::Accelerated).is_some());
    }
    charts.retain(|chart| !chart.workloads.is_empty());
    for chart in &mut charts {
        chart.drawn = chart.workloads.iter().any(|&workload| workload != Workload::Memory);
        if !chart.drawn {
            continue;
        }
        let path = out.join(chart.file);
        // The backend's errors borrow from it.
        let drawn = draw_one(&path, chart, results).map_err(|error| anyhow!("{error}"));
        drawn.with_context(|| format!("drawing {}", path.display()))?;
    }
    Ok(charts)
}

fn all() -> Vec<Chart> {
    let some = |of: fn(&Workload) -> bool| Workload::all().into_iter().filter(of).collect();
    vec![
        Chart {
            title: "Pod to pod on one node",
            file: "pod-to-pod.svg",
            drawn: false,
            workloads: some(|w| matches!(w, Workload::Traffic(_, Route::Pod))),
        },
        Chart {
            title: "Pod to outside, masqueraded",
            file: "pod-to-outside.svg",
            drawn: false,
            workloads: some(|w| matches!(w, Workload::Traffic(_, Route::Outside))),
        },
        Chart {
            title: "Pod to outside, through 5,000 Service rules and 200 policy rules",
            file: "through-rules.svg",
            drawn: false,
            workloads: some(|w| matches!(w, Workload::Traffic(_, Route::Ruled))),
        },
        Chart {
            title: "ADD and DEL",
            file: "add-del.svg",
            drawn: false,
            workloads: some(|w| !matches!(w, Workload::Traffic(..))),
        },
    ]
}

/// One bar: its length in times the reference, and what is written beside it.
struct Bar {
    variant: Variant,
    ratio: f64,
    /// The same for the least and the best of the samples.
    spread: (f64, f64),
    label: String,
}

fn bars(results: &Results, workload: Workload) -> Vec<Bar> {
    let bar = |&variant: &Variant| {
        let series = results.of(workload, variant)?;
        let ratio = results.ratio(workload, variant, Variant::Reference)?;
        let (low, high) = series.range();
        let each = ratio / series.median();
        let inverse = ratio * series.median();
        let spread = if workload.more_is_better() {
            (low * each, high * each)
        } else {
            (inverse / high, inverse / low)
        };
        let label = format!("{ratio:.2}x   {} {}", figure(series.median()), workload.unit());
        Some(Bar { variant, ratio, spread, label })
    };
    if workload == Workload::Memory {
        // It has a limit of its own, whatever the reference needs.
        return Vec::new();
    }
    workload.variants().iter().filter_map(bar).collect()
}

fn draw_one(
    path: &Path,
    chart: &Chart,
    results: &Results,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let groups = chart.workloads.iter().map(|&w| (w, bars(results, w)));
    let groups: Vec<_> = groups.filter(|(_, bars)| !bars.is_empty()).collect();
    let count: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let height = TOP + count as i32 * BAR + groups.len() as i32 * GAP + 20;
    let longest =
        groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.ratio.max(bar.spread.1)).fold(1.0, f64::max);
    let scale = f64::from(RIGHT - LEFT) / longest;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    write(&area, chart.title, (40, 40), 34, INK, HPos::Left)?;
    legend(&area, &groups)?;
    let one = LEFT + scale as i32;
    area.draw(&PathElement::new([(one, TOP - 10), (one, height - 20)], LINE.stroke_width(2)))?;
    let mut y = TOP;
    for (workload, bars) in &groups {
        let middle = y + bars.len() as i32 * BAR / 2;
        write(&area, &name(*workload), (LEFT - 16, middle), 21, INK, HPos::Right)?;
        for bar in bars {
            let [end, low, high] =
                [bar.ratio, bar.spread.0, bar.spread.1].map(|ratio| LEFT + (ratio * scale) as i32);
            let middle = y + BAR / 2;
            area.draw(&Rectangle::new([(LEFT, y + 2), (end, y + BAR - 2)], colour(bar.variant).filled()))?;
            area.draw(&PathElement::new([(low, middle), (high, middle)], INK.stroke_width(2)))?;
            write(&area, &bar.label, (end.max(high) + 8, middle), 17, INK, HPos::Left)?;
            y += BAR;
        }
        y += GAP;
    }
    area.present()
}

/// The variants of a chart; the line at 1 is the reference.
fn legend(area: &Area, groups: &[(Workload, Vec<Bar>)]) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let mut seen: Vec<Variant> = Vec::new();
    for bar in groups.iter().flat_map(|(_, bars)| bars) {
        if !seen.contains(&bar.variant) {
            seen.push(bar.variant);
        }
    }
    let mut x = 40;
    for variant in seen {
        area.draw(&Rectangle::new([(x, 78), (x + 18, 96)], colour(variant).filled()))?;
        write(area, variant.title(), (x + 26, 87), 19, INK, HPos::Left)?;
        x += 60 + 10 * variant.title().len() as i32;
    }
    write(
        area,
        "times as good as the reference bridge; line: worst to best sample",
        (WIDTH - 40, 40),
        19,
        PALE,
        HPos::Right,
    )
}

/// A chart's title has said which route it is.
fn name(workload: Workload) -> String {
    match workload {
        Workload::Traffic(load, _) => load.title(),
        _ => workload.title(),
    }
}

fn write(
    area: &Area,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: RGBColor,
    side: HPos,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Told apart by readers who see few colours too (Okabe and Ito, 2008).
fn colour(variant: Variant) -> RGBColor {
    match variant {
        Variant::Accelerated => RGBColor(0, 114, 178),
        Variant::Off => RGBColor(86, 180, 233),
        Variant::Reference => RGBColor(230, 159, 0),
        Variant::Wire => RGBColor(0, 158, 115),
        Variant::Host => RGBColor(204, 121, 167),
    }
}
