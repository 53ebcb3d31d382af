//! How the live view looks: head and progress, the sample that is being taken, its curve, the networks side by side, notes.

use overlane_lab::watch::Live;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Gauge, Paragraph, Row, Sparkline, Table};

use super::super::shown::{gbps, minutes, per_second};
use super::{Sampling, State};

/// Rows of the curve.
const CURVE: u16 = 5;

pub(super) fn draw(state: &State, colour: bool, frame: &mut Frame<'_>) {
    let paint = Paint(colour);
    let notes = state.notes.len() as u16;
    let [head, progress, now, curve, results, note_area, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(CURVE + 2),
        Constraint::Min(4),
        Constraint::Length(notes),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!("overlane lab · {}", state.title);
    frame.render_widget(
        Paragraph::new(title).style(Style::new().add_modifier(Modifier::BOLD)),
        head,
    );
    draw_progress(state, paint, frame, progress);
    draw_now(state, paint, frame, now);
    draw_curve(state, paint, frame, curve);
    draw_results(state, paint, frame, results);
    let lines: Vec<Line<'_>> = state
        .notes
        .iter()
        .map(|note| Line::from(format!("! {note}")).style(paint.in_colour(Color::Yellow)))
        .collect();
    frame.render_widget(Paragraph::new(lines), note_area);
    let keys = if state.stopping {
        "stopping: what was measured is kept".to_owned()
    } else {
        format!(
            "q or ^C stops; goes on with: overlane lab resume {}",
            state.dir.display()
        )
    };
    frame.render_widget(Paragraph::new(keys).style(paint.dim()), foot);
}

fn draw_progress(state: &State, paint: Paint, frame: &mut Frame<'_>, area: Rect) {
    let elapsed = state.began.map(|began| began.elapsed()).unwrap_or_default();
    let label = format!(
        "{}/{} samples · {} · {} left",
        state.done,
        state.samples,
        minutes(elapsed),
        minutes(state.left())
    );
    let ratio = state.done as f64 / state.samples.max(1) as f64;
    let gauge = Gauge::default()
        .gauge_style(paint.in_colour(Color::Blue))
        .ratio(ratio.clamp(0.0, 1.0))
        .label(label);
    frame.render_widget(gauge, area);
}

fn draw_now(state: &State, paint: Paint, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::ALL).border_style(paint.dim());
    let Some(sampling) = &state.sampling else {
        frame.render_widget(Paragraph::new(state.doing.as_str()).block(block), area);
        return;
    };
    let mut lines = vec![heading(sampling)];
    if let Some(live) = &state.live {
        lines.extend([
            Line::from(rates(live)),
            cpu_bar("sending host", live.cpu_sender_percent, paint, area),
            cpu_bar("receiving host", live.cpu_receiver_percent, paint, area),
        ]);
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn heading(sampling: &Sampling) -> Line<'static> {
    let Sampling {
        cell,
        round,
        rounds,
        seconds,
    } = sampling;
    let turn = match round {
        0 => "warm-up".to_owned(),
        _ => format!("round {round} of {rounds}"),
    };
    Line::from(vec![
        Span::styled(cell.network(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {} · {turn} · {seconds:.1} s", cell.group)),
    ])
}

fn rates(live: &Live) -> String {
    let figures = [
        live.goodput_gbps.map(gbps),
        live.transactions_per_second
            .map(|rate| format!("{} transactions", per_second(rate))),
        live.rate_pps
            .map(|rate| format!("{} packets received", per_second(rate))),
    ];
    let mut parts: Vec<String> = figures.into_iter().flatten().collect();
    parts.push(format!(
        "underlay {} packets",
        per_second(live.underlay_rate_pps)
    ));
    parts.join("   ")
}

/// `receiving host  ██████          63 %`
fn cpu_bar(name: &str, percent: Option<f64>, paint: Paint, area: Rect) -> Line<'static> {
    let name = format!("{name:<16}");
    let Some(percent) = percent else {
        return Line::from(format!("{name}CPU not measured per host"));
    };
    let width = usize::from(area.width)
        .saturating_sub(name.len() + 12)
        .min(50);
    let filled = ((percent / 100.0 * width as f64).round() as usize).min(width);
    Line::from(vec![
        Span::raw(name),
        Span::styled("█".repeat(filled), paint.in_colour(Color::Magenta)),
        Span::raw("·".repeat(width - filled)),
        Span::raw(format!(" {percent:4.0} %")),
    ])
}

fn draw_curve(state: &State, paint: Paint, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(paint.dim())
        .title(" rate, a quarter of a second a column ");
    let room = usize::from(area.width.saturating_sub(2));
    let top = state.history.iter().copied().fold(0.0, f64::max);
    // A sparkline takes whole numbers; a thousand steps are finer than any terminal.
    let scale = if top > 0.0 { 1000.0 / top } else { 0.0 };
    let skipped = state.history.len().saturating_sub(room);
    let values: Vec<u64> = state
        .history
        .iter()
        .skip(skipped)
        .map(|value| (value * scale).round() as u64)
        .collect();
    let curve = Sparkline::default()
        .data(&values)
        .max(1000)
        .style(paint.in_colour(Color::Cyan))
        .block(block);
    frame.render_widget(curve, area);
}

fn draw_results(state: &State, paint: Paint, frame: &mut Frame<'_>, area: Rect) {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let best = state
        .results
        .iter()
        .map(|(_, values, _)| mean(values))
        .fold(0.0, f64::max);
    let rows = state.results.iter().map(|(network, values, last)| {
        let mean = mean(values);
        let share = if best > 0.0 { 100.0 * mean / best } else { 0.0 };
        Row::new([
            Cell::from(network.clone()),
            right(values.len().to_string()),
            right(last.clone()),
            right(format!("{share:.0} %")),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(16),
        Constraint::Length(12),
    ];
    let heading = Row::new([
        Cell::from("NETWORK"),
        right("SAMPLES".to_owned()),
        right("LAST".to_owned()),
        right("MEAN / BEST".to_owned()),
    ]);
    let table = Table::new(rows, widths)
        .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
        .block(
            Block::new()
                .borders(Borders::ALL)
                .border_style(paint.dim())
                .title(format!(" {} ", state.group)),
        );
    frame.render_widget(table, area);
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Colours, where they are wanted.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn in_colour(self, colour: Color) -> Style {
        if self.0 {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use overlane_analysis::record::{BackendName, CellKey, GroupKey, Setting, Test, Workload};
    use overlane_lab::watch::Event;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn text(state: &State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| draw(state, false, frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_names_cell_rates_cpu_and_what_to_do() {
        let cell = CellKey {
            backend: BackendName::OverlaneGeneve,
            copy: 0,
            group: GroupKey {
                workload: Workload {
                    test: Test::TcpRr,
                    bytes: 64,
                    instances: 8,
                    buffer_bytes: None,
                    rate_pps: None,
                    rate_mbps: None,
                    search: None,
                    migration: None,
                },
                setting: Setting::default(),
            },
        };
        let mut state = State::default();
        state.take(Event::Begun {
            title: "Geneve or VXLAN",
            dir: "results/monday".as_ref(),
            cells: &[cell],
            samples: 70,
            taken: 20,
            expected: Duration::from_secs(70),
        });
        state.take(Event::Doing("building overlane-geneve"));
        assert!(text(&state).contains("building overlane-geneve"));
        state.take(Event::Sampling {
            cell,
            round: 2,
            rounds: 6,
            seconds: 0.5,
        });
        state.take(Event::Live(Live {
            transactions_per_second: Some(98_700.0),
            cpu_sender_percent: Some(97.0),
            ..Live::default()
        }));
        state.take(Event::Advanced(1));
        state.take(Event::Note("ovs-geneve is unavailable"));
        let text = text(&state);
        for part in [
            "Geneve or VXLAN",
            "21/70 samples",
            "overlane-geneve  tcp_rr-64B-8i",
            "round 2 of 6",
            "98.7 k/s transactions",
            "97 %",
            "CPU not measured per host",
            "! ovs-geneve is unavailable",
            "overlane lab resume results/monday",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn another_group_begins_with_an_empty_table() {
        let mut state = State {
            results: vec![("bridge".to_owned(), vec![1.0], "1".to_owned())],
            group: "something else".to_owned(),
            ..State::default()
        };
        state.history.push_back(5.0);
        let cell = CellKey {
            backend: BackendName::Bridge,
            copy: 0,
            group: GroupKey {
                workload: Workload {
                    test: Test::TcpStream,
                    bytes: 1024,
                    instances: 1,
                    buffer_bytes: None,
                    rate_pps: None,
                    rate_mbps: None,
                    search: None,
                    migration: None,
                },
                setting: Setting::default(),
            },
        };
        state.begin(Sampling {
            cell,
            round: 0,
            rounds: 1,
            seconds: 1.0,
        });
        assert!(state.results.is_empty() && state.history.is_empty());
    }
}
