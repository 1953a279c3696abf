//! Tables and numbers for readers.

/// A Markdown table whose columns also line up as plain text.
pub(super) fn aligned(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().copied().map(Into::into).collect();
    let all = || std::iter::once(&head).chain(rows);
    let widest =
        |column: usize| all().filter_map(|row: &Vec<String>| Some(row.get(column)?.chars().count())).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| widest(column).unwrap_or(0).max(3)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().map(|&width| "-".repeat(width)).collect();
    [&head, &rule].into_iter().chain(rows).map(line).collect()
}

/// A number with as many digits as mean something.
pub(super) fn figure(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{aligned, figure};

    #[test]
    fn figures_are_short() {
        let values = [1_234_567.0, 12_345.6, 123.4, 12.34, 1.234];
        assert_eq!(values.map(figure), ["1.23M", "12.3k", "123", "12.3", "1.23"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["one".into(), "1".into()], vec!["three".into(), "".into()]];
        let expected = "| name  | n   |\n| ----- | --- |\n| one   | 1   |\n| three |     |\n";
        assert_eq!(aligned(&["name", "n"], &rows), expected);
    }
}
