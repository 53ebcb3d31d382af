//! Horizontal bars made of parts: the time of a CPU by what it was spent on.

use super::scale::{Scale, WIDTH, trimmed};
use super::{AXIS, frame, line, name, rect, text};
use crate::report::numbers::fixed;
use crate::report::write::markup::Markup;

const ROW: f64 = 24.0;
const BAR: f64 = 17.0;

/// Names and classes of the parts of CPU time.
pub(in crate::report) const PARTS: [(&str, &str); 5] = [
    ("user", "p-user"),
    ("system", "p-system"),
    ("softirq", "p-softirq"),
    ("irq", "p-irq"),
    ("stolen", "p-steal"),
];

/// A chart of stacked bars.
pub(in crate::report) struct Stacks {
    /// (name, class) of the parts, in the order of the bars.
    pub(in crate::report) parts: Vec<(&'static str, &'static str)>,
    /// Its bars.
    pub(in crate::report) rows: Vec<Stack>,
}

/// One bar.
pub(in crate::report) struct Stack {
    /// Its name.
    pub(in crate::report) name: String,
    /// Its parts, in per cent of one CPU.
    pub(in crate::report) values: Vec<f64>,
}

pub(super) fn draw(m: &mut Markup, stacks: &Stacks, named: (&str, &str, &str)) {
    let sum = |stack: &Stack| stack.values.iter().sum::<f64>();
    let longest = stacks.rows.iter().map(sum).fold(0.0, f64::max);
    let scale = Scale::up_to(longest.max(100.0));
    let bottom = ROW * stacks.rows.len() as f64;
    frame(m, bottom + AXIS + 18.0, named, |m| {
        for tick in scale.ticks() {
            let x = scale.x(tick);
            line(m, "grid", (x, 0.0), (x, bottom));
            text(
                m,
                "tick",
                (x, bottom + 16.0),
                &format!("{} %", trimmed(fixed(tick, 1))),
            );
        }
        for (i, stack) in stacks.rows.iter().enumerate() {
            let middle = ROW * i as f64 + ROW / 2.0;
            m.el("g", &[("class", &"mark")], |m| {
                name(m, middle + 4.0, &stack.name);
                parts(m, stacks, stack, &scale, middle);
                text(
                    m,
                    "num",
                    (WIDTH, middle + 4.0),
                    &format!("{} %", fixed(sum(stack), 0)),
                );
            });
        }
        legend(m, stacks, bottom + AXIS + 12.0);
    });
}

fn parts(m: &mut Markup, stacks: &Stacks, stack: &Stack, scale: &Scale, middle: f64) {
    let mut from = 0.0;
    for (&(name, class), &value) in stacks.parts.iter().zip(&stack.values) {
        let (x, to) = (scale.x(from), scale.x(from + value));
        let words = format!("{}: {name} {} %", stack.name, fixed(value, 1));
        rect(m, class, (x, middle - BAR / 2.0), (to - x, BAR), &words);
        if to - x > 26.0 {
            text(
                m,
                &format!("in {class}-t"),
                ((x + to) / 2.0, middle + 4.0),
                &fixed(value, 0),
            );
        }
        from += value;
    }
}

fn legend(m: &mut Markup, stacks: &Stacks, y: f64) {
    let width = WIDTH / stacks.parts.len().max(5) as f64;
    for (i, &(name, class)) in stacks.parts.iter().enumerate() {
        let x = width * i as f64;
        rect(m, class, (x, y - 9.0), (10.0, 10.0), "");
        text(m, "legend", (x + 14.0, y), name);
    }
}
