//! Columns, and durations, for people.

use std::time::Duration;

/// Lays rows out in columns two blanks apart; the last column is as long as it is.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// `12s`, `5m`, `3h` or `8d`: two digits say enough.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..100 => format!("{seconds}s"),
        100..6_000 => format!("{}m", seconds / 60),
        6_000..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = columns(&[row(["NAME", "AGE", "WHY"]), row(["a-long-name", "1s", ""])]);
        assert_eq!(text, "NAME         AGE  WHY\na-long-name  1s\n");
    }

    #[test]
    fn ages_are_told_in_the_unit_that_fits() {
        let told = [0, 99, 100, 5_999, 6_000, 172_799, 172_800].map(|s| age(Duration::from_secs(s)));
        assert_eq!(told, ["0s", "99s", "1m", "99m", "1h", "47h", "2d"]);
    }
}
