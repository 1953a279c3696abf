//! Bars for a slide, in SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Group, Picture};
use super::variant::Variant;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Pixels. A slide is 1280 wide.
const WIDTH: i32 = 1280;
/// Where bars begin; the names of the workloads are left of it.
const LEFT: i32 = 290;
/// Bars end before this, and their figures after it.
const RIGHT: i32 = 1000;
const TOP: i32 = 132;
const BAR: i32 = 20;
const GAP: i32 = 18;
/// Below the last bar.
const BOTTOM: i32 = 16;
const INK: RGBColor = RGBColor(38, 38, 38);
const PALE: RGBColor = RGBColor(110, 110, 110);
const LINE: RGBColor = RGBColor(205, 205, 205);

/// On white, so that it can be read on a dark page too.
pub(super) fn draw(path: &Path, picture: &Picture) -> Drawn {
    let groups = &picture.groups;
    let tall = |group: &Group| (group.bars.len() as i32).max(2) * BAR + GAP;
    let height = TOP + groups.iter().map(tall).sum::<i32>() + BOTTOM;
    let bars = groups.iter().flat_map(|group| &group.bars);
    let longest = bars.map(|bar| bar.length.max(bar.spread.1)).fold(picture.one.unwrap_or(0.0), f64::max);
    let scale = f64::from(RIGHT - LEFT) / longest;
    let at = |value: f64| LEFT + (value * scale) as i32;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    write(&area, picture.title, (40, 40), 32, INK, HPos::Left)?;
    write(&area, picture.caption, (WIDTH - 40, 42), 18, PALE, HPos::Right)?;
    legend(&area, groups)?;
    if let Some(one) = picture.one {
        area.draw(&PathElement::new(
            [(at(one), TOP - 10), (at(one), height - BOTTOM)],
            LINE.stroke_width(2),
        ))?;
    }
    let mut y = TOP;
    for group in groups {
        named(&area, group, y)?;
        for (number, bar) in group.bars.iter().enumerate() {
            let top = y + number as i32 * BAR;
            let (end, middle) = (at(bar.length), top + BAR / 2);
            let corners = [(LEFT, top + 2), (end, top + BAR - 2)];
            area.draw(&Rectangle::new(corners, colour(bar.variant).filled()))?;
            let spread = [(at(bar.spread.0), middle), (at(bar.spread.1), middle)];
            area.draw(&PathElement::new(spread, INK.stroke_width(2)))?;
            let beside = end.max(at(bar.spread.1)) + 8;
            // So that the line at 1 does not cross the figures.
            let behind = [(beside - 4, top + 2), (beside + 8 * bar.label.len() as i32, top + BAR - 2)];
            area.draw(&Rectangle::new(behind, WHITE.filled()))?;
            write(&area, &bar.label, (beside, middle), 16, INK, HPos::Left)?;
        }
        y += tall(group);
    }
    area.present()
}

/// Name and remark, beside the middle of a group's bars.
fn named(area: &Area, group: &Group, top: i32) -> Drawn {
    let middle = top + group.bars.len() as i32 * BAR / 2;
    write(area, &group.name, (LEFT - 16, middle - 9), 19, INK, HPos::Right)?;
    write(area, &group.remark, (LEFT - 16, middle + 11), 15, PALE, HPos::Right)
}

/// The variants of a chart.
fn legend(area: &Area, groups: &[Group]) -> Drawn {
    let mut seen: Vec<Variant> = Vec::new();
    for bar in groups.iter().flat_map(|group| &group.bars) {
        if !seen.contains(&bar.variant) {
            seen.push(bar.variant);
        }
    }
    let mut x = 40;
    for variant in seen {
        area.draw(&Rectangle::new([(x, 80), (x + 18, 98)], colour(variant).filled()))?;
        write(area, variant.title(), (x + 26, 89), 18, INK, HPos::Left)?;
        x += 56 + 9 * variant.title().len() as i32;
    }
    Ok(())
}

fn write(area: &Area, text: &str, at: (i32, i32), size: i32, colour: RGBColor, side: HPos) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Told apart by readers who see few colours too (Okabe and Ito, 2008).
fn colour(variant: Variant) -> RGBColor {
    match variant {
        Variant::Accelerated => RGBColor(0, 114, 178),
        Variant::Off => RGBColor(86, 180, 233),
        Variant::Reference => RGBColor(230, 159, 0),
        Variant::Ptp => RGBColor(240, 228, 66),
        Variant::Wire => RGBColor(0, 158, 115),
        Variant::Host => RGBColor(204, 121, 167),
    }
}
