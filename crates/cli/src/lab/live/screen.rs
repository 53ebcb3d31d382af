//! How the live view looks: head and progress, the sample that is being taken, its curve, the networks side by side, notes.

use overlane_lab::watch::Live;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Gauge, Paragraph, Row, Sparkline, Table};

use super::super::shown::{gbps, is_time, minutes, per_second};
use super::{Outcome, Sampling, State, moving};

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
    let mut lines = heading(sampling);
    if let Some(live) = &state.live {
        lines.extend([
            Line::from(rates(live)),
            cpu_bar("sending host", live.cpu_sender_percent, paint, area),
            cpu_bar("receiving host", live.cpu_receiver_percent, paint, area),
        ]);
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn heading(sampling: &Sampling) -> Vec<Line<'static>> {
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
    let network = Span::styled(cell.network(), Style::new().add_modifier(Modifier::BOLD));
    let of = |words: String| Line::from(vec![network, Span::raw(format!("  {words}"))]);
    match cell.group.workload.migration {
        Some(how) => {
            let [first, second] = moving::heading(cell, &how, *round);
            vec![of(format!("{turn} · {first}")), Line::from(second)]
        }
        None => vec![of(format!("{} · {turn} · {seconds:.1} s", cell.group))],
    }
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
        .title(if state.test.is_some_and(is_time) {
            " migration time, a sample a column "
        } else {
            " rate, a quarter of a second a column "
        });
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
    let is_time = state.test.is_some_and(is_time);
    let means = || state.results.iter().map(|one| mean(&one.values));
    let best = if is_time {
        means().fold(f64::INFINITY, f64::min)
    } else {
        means().fold(0.0, f64::max)
    };
    // Frame and heading take three lines; what came last is shown.
    let room = usize::from(area.height.saturating_sub(3));
    let skipped = state.results.len().saturating_sub(room);
    let rows = state.results.iter().skip(skipped).map(|one| {
        let Outcome { cell, values, last } = one;
        let mean = mean(values);
        let share = if best > 0.0 { 100.0 * mean / best } else { 0.0 };
        Row::new([
            Cell::from(format!(
                "{} {}",
                cell.network_in_full(),
                moving::place(cell)
            )),
            right(values.len().to_string()),
            right(last.clone()),
            right(format!("{share:.0} %")),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(if is_time { 24 } else { 16 }),
        Constraint::Length(if is_time { 6 } else { 12 }),
    ];
    let heading = Row::new([
        Cell::from("NETWORK"),
        right("SAMPLES".to_owned()),
        right(
            if is_time {
                "TIME · STILL · GAP"
            } else {
                "LAST"
            }
            .to_owned(),
        ),
        right(if is_time { "/ BEST" } else { "MEAN / BEST" }.to_owned()),
    ]);
    let table = Table::new(rows, widths)
        .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
        .block(
            Block::new()
                .borders(Borders::ALL)
                .border_style(paint.dim())
                .title(
                    state
                        .test
                        .map_or_else(String::new, |test| format!(" {test} ")),
                ),
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

    use overlane_analysis::record::{
        BackendName, CellKey, GroupKey, GuestKind, Moving, MtuClass, Setting, Test, Workload,
    };
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

    /// A cell whose machines move over so many links.
    fn moving(links: u32) -> CellKey {
        let group = GroupKey {
            workload: Workload {
                test: Test::Migration,
                bytes: 64,
                instances: 1,
                buffer_bytes: None,
                rate_pps: None,
                rate_mbps: None,
                search: None,
                migration: Some(Moving {
                    dirty_percent: 40,
                    dirty_mib_per_second: 20,
                    links,
                    postcopy: false,
                }),
            },
            setting: Setting {
                mtu_class: MtuClass::Jumbo,
                offload: false,
                pairs: 2,
                guests: GuestKind::Qemu,
                guest_memory_mib: Some(256),
                ..Setting::default()
            },
        };
        group.cell(BackendName::OverlaneVxlan)
    }

    #[test]
    fn machines_on_their_way_fit_a_small_terminal_and_less_is_better() {
        let mut state = State::default();
        for (links, seconds) in [(1, 2.0), (2, 1.5)] {
            state.begin(Sampling {
                cell: moving(links),
                round: 3,
                rounds: 8,
                seconds: 0.6,
            });
            state.remember(seconds);
            state.results.push(Outcome {
                cell: moving(links),
                values: vec![seconds],
                last: format!("{seconds:.2} s · 74 ms · 254 ms"),
            });
        }
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(&state, false, frame)).unwrap();
        let text = terminal.backend().to_string();
        for part in [
            "overlane-vxlan  round 3 of 8 · back: 2 machines of 256 MiB, 2 links",
            "MTU 9000, precopy, offload off, 40 % written at 20 MiB/s",
            "migration time, a sample a column",
            "overlane-vxlan 9000, 2 links, offload",
            "1.50 s · 74 ms · 254 ms  100 %",
            "133 %",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn another_group_begins_with_an_empty_table() {
        let mut state = State {
            test: Some(Test::UdpRr),
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
        state.results.push(Outcome {
            cell,
            values: vec![1.0],
            last: "1".to_owned(),
        });
        state.begin(Sampling {
            cell,
            round: 0,
            rounds: 1,
            seconds: 1.0,
        });
        assert!(state.results.is_empty() && state.history.is_empty());
    }
}
