//! Charts as inline SVG.
//!
//! Colours come from the page's style sheet by class, so that light and dark both work. Colour is never needed: bars
//! carry their names and figures as text, lines their own shapes of points, and every chart has its table.

mod bars;
mod forest;
mod lines;
mod ratios;
mod scale;
mod stacks;

use crate::record::BackendName;

use crate::report::write::markup::{Attr, Markup};
pub(in crate::report) use bars::{Bar, Bars};
pub(in crate::report) use forest::ForestRow;
pub(in crate::report) use lines::{Lines, Series, XAxis, YAxis};
pub(in crate::report) use ratios::RatioRow;
pub(in crate::report) use stacks::{PARTS, Stack, Stacks};

pub(in crate::report) use scale::WIDTH;
use scale::{LEFT, px};

/// Height of the axis below a chart.
const AXIS: f64 = 22.0;

/// What is drawn.
pub(in crate::report) enum Drawing {
    /// Bars with intervals and samples.
    Bars(Bars),
    /// Curves.
    Lines(Lines),
    /// Parts of a whole.
    Stacks(Stacks),
    /// Ratios around 1.
    Ratios(Vec<RatioRow>),
    /// Comparisons around no difference, in rows that fit every width.
    Forest(Vec<ForestRow>),
}

impl Drawing {
    /// Draws it; `id` is the anchor, `title` and `words` name it to those who do not see it.
    pub(in crate::report) fn draw(&self, m: &mut Markup, id: &str, title: &str, words: &str) {
        let named = (id, title, words);
        match self {
            Self::Bars(bars) => bars::draw(m, bars, named),
            Self::Lines(lines) => lines::draw(m, lines, named),
            Self::Stacks(stacks) => stacks::draw(m, stacks, named),
            Self::Ratios(rows) => ratios::draw(m, rows, named),
            Self::Forest(rows) => forest::draw(m, rows, words),
        }
    }

    /// How many marks of class `mark` it has, and how many points of data they stand for.
    #[cfg(test)]
    pub(in crate::report) fn marks(&self) -> (usize, usize) {
        match self {
            Self::Bars(bars) => (bars.rows.len(), bars.rows.len()),
            Self::Lines(lines) => (
                lines.series.len(),
                lines.series.iter().map(|s| s.points.len()).sum(),
            ),
            Self::Stacks(stacks) => (
                stacks.rows.len(),
                stacks.rows.iter().map(|s| s.values.len()).sum(),
            ),
            Self::Ratios(rows) => (rows.len(), rows.len()),
            Self::Forest(rows) => {
                let is_mark = |row: &&ForestRow| matches!(row, ForestRow::Ratio { .. });
                let marks = rows.iter().filter(is_mark).count();
                (marks, marks)
            }
        }
    }
}

/// The class that colours a backend.
pub(in crate::report) const fn class(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Direct => "c-direct",
        BackendName::Bridge => "c-bridge",
        BackendName::KernelVlan => "c-kvlan",
        BackendName::KernelVxlan => "c-kernel",
        BackendName::KernelGeneve => "c-kgeneve",
        BackendName::OvsVlan => "c-ovlan",
        BackendName::OvsVxlan => "c-ovs",
        BackendName::OvsGeneve => "c-ogeneve",
        BackendName::OvsKernelVlan => "c-okvlan",
        BackendName::OvsKernelVxlan => "c-okvxlan",
        BackendName::OvsKernelGeneve => "c-okgeneve",
        BackendName::OverlaneVlan => "c-vlan",
        BackendName::OverlaneVxlan => "c-vxlan",
        BackendName::OverlaneGeneve => "c-geneve",
    }
}

/// The picture with its name and its content in words.
fn frame(
    m: &mut Markup,
    height: f64,
    (id, title, words): (&str, &str, &str),
    content: impl FnOnce(&mut Markup),
) {
    let (title_id, words_id) = (format!("{id}-t"), format!("{id}-d"));
    let attrs: [Attr<'_>; 4] = [
        ("viewBox", &format!("0 0 {} {}", px(WIDTH), px(height))),
        ("role", &"img"),
        ("aria-labelledby", &format!("{title_id} {words_id}")),
        ("class", &"chart"),
    ];
    m.el("svg", &attrs, |m| {
        m.leaf("title", &[("id", &title_id)], title);
        m.leaf("desc", &[("id", &words_id)], words);
        content(m);
    });
}

/// Text at a place.
pub(in crate::report) fn text(m: &mut Markup, class: &str, (x, y): (f64, f64), text: &str) {
    m.leaf(
        "text",
        &[("class", &class), ("x", &px(x)), ("y", &px(y))],
        text,
    );
}

/// Letters of a name that fit before the axis.
const NAME: usize = 17;

/// The name of a row, before the axis; a long one is narrowed until it fits.
fn name(m: &mut Markup, y: f64, name: &str) {
    let (y, room) = (px(y), px(LEFT - 6.0));
    let mut attrs: Vec<Attr<'_>> = vec![("class", &"name"), ("x", &"0"), ("y", &y)];
    if name.chars().count() > NAME {
        attrs.push(("textLength", &room));
        attrs.push(("lengthAdjust", &"spacingAndGlyphs"));
    }
    m.leaf("text", &attrs, name);
}

/// A straight line.
fn line(m: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    let attrs: [Attr<'_>; 5] = [
        ("class", &class),
        ("x1", &px(from.0)),
        ("x2", &px(to.0)),
        ("y1", &px(from.1)),
        ("y2", &px(to.1)),
    ];
    m.shape("line", &attrs);
}

/// A filled dot.
fn dot(m: &mut Markup, class: &str, (x, y): (f64, f64), radius: &str) {
    let attrs: [Attr<'_>; 4] = [
        ("class", &class),
        ("cx", &px(x)),
        ("cy", &px(y)),
        ("r", &radius),
    ];
    m.shape("circle", &attrs);
}

/// A rectangle.
fn rect(m: &mut Markup, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
    let attrs: [Attr<'_>; 5] = [
        ("class", &class),
        ("x", &px(x)),
        ("y", &px(y)),
        ("width", &px(width.max(0.0))),
        ("height", &px(height)),
    ];
    m.el("rect", &attrs, |m| {
        if !title.is_empty() {
            m.leaf("title", &[], title);
        }
    });
}
