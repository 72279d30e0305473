//! Tables without borders: one line per row; the last column is cut to the width of the terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, presets::NOTHING};

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// As text; without a width nothing is cut.
    pub fn render(&self, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).force_no_tty().set_header(self.headings.clone());
        for cells in &self.rows {
            let mut row = Row::from(cells.clone());
            row.max_height(1);
            table.add_row(row);
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let last = self.headings.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index < last { 2 } else { 0 }));
            if index < last {
                // Ids and states are never cut, so that they can be copied.
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["RUN", "STATUS", "INPUT"]);
        table.row(vec!["run-1".into(), "running".into(), "What is the answer to everything?".into()]);
        table.row(vec!["run-22".into(), "completed".into(), "Hi".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let expected = "\
RUN     STATUS     INPUT
run-1   running    What is the answer to everything?
run-22  completed  Hi";
        assert_eq!(table().render(None), expected);
    }

    #[test]
    fn only_the_last_column_is_cut() {
        let expected = "\
RUN     STATUS     INPUT
run-1   running    What is th…
run-22  completed  Hi";
        assert_eq!(table().render(Some(36)), expected);
    }
}
