//! Tables for people. On a terminal that is narrower than a table, long texts continue on a line below, and columns that find
//! no room follow in a table of their own.

use std::collections::BTreeSet;
use std::iter;

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table,
    TableStyle,
};

/// Columns of the terminal between two texts.
const GAP: u16 = 2;

/// A text that is longer may continue on a line below.
const LONG_TEXT: u16 = 30;

/// The rows of a table.
pub(crate) struct Rows {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
    colour: bool,
    /// Columns of the terminal.
    terminal: Option<u16>,
}

impl Rows {
    /// A heading that begins with `#` makes a column of numbers.
    pub(super) fn new(headings: &[&str], colour: bool, terminal: Option<u16>) -> Self {
        Self {
            headings: headings.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            colour,
            terminal,
        }
    }

    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Without white space at the ends of lines.
    pub(crate) fn render(&self) -> String {
        let all: Vec<usize> = (0..self.headings.len()).collect();
        let Some(terminal) = self.terminal else {
            return self.table(&all).trim_fmt();
        };
        let rooms: Vec<Room> = all.iter().map(|at| self.room(*at)).collect();
        let one = |columns: Vec<usize>| {
            let mut table = self.table(&columns);
            fit(&mut table, columns.iter().map(|at| rooms[*at]), terminal);
            table.trim_fmt()
        };
        let tables = split(&rooms, self.key(), terminal).into_iter().map(one);
        tables.collect::<Vec<String>>().join("\n\n")
    }

    /// These columns as a table.
    fn table(&self, columns: &[usize]) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')));
        table.set_content_arrangement(ContentArrangement::Disabled);
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let heading = |at: &usize| Cell::new(self.name(*at)).add_attribute(Attribute::Bold);
        table.set_header(columns.iter().map(heading));
        for row in &self.rows {
            table.add_row(columns.iter().filter_map(|at| row.get(*at)).cloned());
        }
        for (column, at) in table.column_iter_mut().zip(columns) {
            let is_last = columns.last() == Some(at);
            column.set_padding((0, if is_last { 0 } else { GAP }));
            if self.is_number(*at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn name(&self, at: usize) -> &str {
        self.headings[at].trim_start_matches('#')
    }

    fn is_number(&self, at: usize) -> bool {
        self.headings[at].starts_with('#')
    }

    fn room(&self, at: usize) -> Room {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let texts: Vec<String> = iter::once(self.name(at).to_owned())
            .chain(cells.map(Cell::content))
            .collect();
        let most = longest(texts.iter().flat_map(|text| text.lines()));
        let word = longest(texts.iter().flat_map(|text| text.split_whitespace()));
        let is_long = !self.is_number(at) && most > LONG_TEXT;
        let least = if is_long { word.max(LONG_TEXT) } else { most };
        Room { least, most }
    }

    /// So many of the first columns tell the rows apart.
    fn key(&self) -> usize {
        let are_apart = |count: &usize| {
            let key = |row: &Vec<Cell>| -> Vec<String> {
                row.iter().take(*count).map(Cell::content).collect()
            };
            let keys: BTreeSet<_> = self.rows.iter().map(key).collect();
            keys.len() == self.rows.len()
        };
        (1..self.headings.len()).find(are_apart).unwrap_or(1)
    }
}

/// What a column takes of the terminal.
#[derive(Clone, Copy)]
struct Room {
    /// With long texts that continue below.
    least: u16,
    /// With each text in one line.
    most: u16,
}

fn longest<'t>(parts: impl Iterator<Item = &'t str>) -> u16 {
    let length = |part: &str| u16::try_from(part.chars().count()).unwrap_or(u16::MAX);
    parts.map(length).max().unwrap_or(0)
}

/// What columns take at least, side by side.
fn least(rooms: impl Iterator<Item = Room>) -> u16 {
    let beside = |all: u16, one: u16| all.saturating_add(GAP).saturating_add(one);
    rooms.map(|room| room.least).reduce(beside).unwrap_or(0)
}

/// Makes long texts continue below where the terminal has no room for them.
fn fit(table: &mut Table, rooms: impl Iterator<Item = Room> + Clone, terminal: u16) {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(terminal.max(least(rooms.clone())));
    for (column, room) in table.column_iter_mut().zip(rooms) {
        if room.least == room.most {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// The columns of each table. Each begins with the first `key` columns, which tell its rows apart.
fn split(rooms: &[Room], key: usize, terminal: u16) -> Vec<Vec<usize>> {
    let key: Vec<usize> = (0..key.min(rooms.len())).collect();
    let mut tables = Vec::new();
    let mut columns = key.clone();
    for at in key.len()..rooms.len() {
        columns.push(at);
        let has_others = columns.len() > key.len() + 1;
        if has_others && least(columns.iter().map(|at| rooms[*at])) > terminal {
            columns.pop();
            tables.push(columns);
            columns = [&key[..], &[at]].concat();
        }
    }
    tables.push(columns);
    tables
}

#[cfg(test)]
mod tests {
    use super::super::{number, state, text};
    use super::*;

    fn rows(terminal: Option<u16>) -> Rows {
        let mut rows = Rows::new(&["NETWORK", "#Gbit/s", "PROOF", "WHY"], false, terminal);
        let why = "the path between the guests carries no frame of 1500 bytes";
        rows.push(vec![
            text("bridge"),
            number(1234),
            state("ok", true),
            text(""),
        ]);
        rows.push(vec![
            text("vxlan"),
            text("-"),
            state("none", false),
            text(why),
        ]);
        rows
    }

    #[test]
    fn a_file_gets_each_row_in_one_line() {
        assert_eq!(
            rows(None).render(),
            "NETWORK  Gbit/s  PROOF  WHY\n\
             ──────────────────────────────────────────────────────────────────────────────────\n\
             bridge    1 234  ok\n\
             vxlan         -  none   the path between the guests carries no frame of 1500 bytes"
        );
    }

    #[test]
    fn a_wide_terminal_shows_the_table_of_a_file() {
        assert_eq!(rows(Some(120)).render(), rows(None).render());
    }

    #[test]
    fn a_long_text_continues_below_where_the_terminal_ends() {
        assert_eq!(
            rows(Some(60)).render(),
            "NETWORK  Gbit/s  PROOF  WHY\n\
             ────────────────────────────────────────────────────────────\n\
             bridge    1 234  ok\n\
             vxlan         -  none   the path between the guests carries\n\
             \x20                       no frame of 1500 bytes"
        );
    }

    #[test]
    fn columns_without_room_follow_below_beside_the_first() {
        assert_eq!(
            rows(Some(45)).render(),
            "NETWORK  Gbit/s  PROOF\n\
             ──────────────────────\n\
             bridge    1 234  ok\n\
             vxlan         -  none\n\
             \n\
             NETWORK  WHY\n\
             ─────────────────────────────────────────────\n\
             bridge\n\
             vxlan    the path between the guests carries\n\
             \x20        no frame of 1500 bytes"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_while_words_are_not() {
        for terminal in 39..130 {
            let text = rows(Some(terminal)).render();
            let widest = longest(text.lines());
            assert!(widest <= terminal, "{terminal}:\n{text}");
            for word in ["1 234", "none", "carries", "1500"] {
                assert!(text.contains(word), "{word} of\n{text}");
            }
        }
    }

    #[test]
    fn columns_that_tell_rows_apart_are_in_each_table() {
        let mut rows = Rows::new(&["SWITCH", "MAC", "PLACE", "#AGE"], false, Some(30));
        for (mac, place) in [("02::1", "local, device web1"), ("02::2", "remote h2")] {
            rows.push(vec![text("blue"), text(mac), text(place), number(600)]);
        }
        assert_eq!(
            rows.render(),
            "SWITCH  MAC    PLACE\n\
             ─────────────────────────────────\n\
             blue    02::1  local, device web1\n\
             blue    02::2  remote h2\n\
             \n\
             SWITCH  MAC    AGE\n\
             ──────────────────\n\
             blue    02::1  600\n\
             blue    02::2  600"
        );
    }

    #[test]
    fn a_terminal_of_no_room_still_shows_every_column() {
        let text = rows(Some(1)).render();
        assert!(
            ["Gbit/s", "PROOF", "WHY"]
                .iter()
                .all(|name| text.contains(name)),
            "{text}"
        );
    }
}
