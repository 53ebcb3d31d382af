//! The screen of `overlane top`: ports and remotes in two tables, drop reasons, CPUs; drawn anew with
//! each reading and each key.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use overlane_host::rates::{CpuUse, Rate, Rates, Reading};
use overlane_host::signals::Signals;
use overlane_model::escaped;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState};

use super::{NOTICE, scaled};
use crate::failure::Failure;

/// Ends of the way in both tables: packets, segments, bits from and to, packets dropped.
const HEADINGS: [&str; 9] = [
    "NAME",
    "WHERE",
    "from pkt/s",
    "seg/s",
    "bit/s",
    "to pkt/s",
    "seg/s",
    "bit/s",
    "drop pkt/s",
];
const COLUMN_WIDTHS: [u16; 7] = [10, 8, 8, 10, 8, 8, 10];
/// Most lines that drop reasons take.
const DROP_LINES: usize = 6;

/// Draws until the user ends it.
pub(super) fn run(host: &str, interval: Duration, colour: bool) -> Result<(), Failure> {
    let signals = Signals::take_over()?;
    let mut view = View::new(colour);
    let mut terminal = ratatui::try_init()?;
    let result = view.until_quit(&mut terminal, host, interval, &signals);
    ratatui::restore();
    result
}

/// What is on the screen, and what the user made of it.
struct View {
    rates: Option<Rates>,
    sort: Sort,
    reverse: bool,
    /// The table that arrows move in: ports, then remotes.
    focus: usize,
    tables: [TableState; 2],
    colour: bool,
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Name,
    From,
    To,
    Dropped,
}

/// One row of either table.
struct Entry {
    name: String,
    place: String,
    from: Rate,
    to: Rate,
    dropped: Rate,
}

#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    Quit,
    Draw,
    Nothing,
}

impl View {
    fn new(colour: bool) -> Self {
        Self {
            rates: None,
            sort: Sort::Name,
            reverse: false,
            focus: 0,
            tables: [TableState::default(), TableState::default()],
            colour,
        }
    }

    fn until_quit(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        host: &str,
        interval: Duration,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let mut before = Reading::now(host)?;
        let mut next = Instant::now() + interval;
        terminal.draw(|frame| self.draw(frame))?;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let mut reaction = Reaction::Nothing;
            if event::poll(left.min(NOTICE))? {
                reaction = self.react(&event::read()?);
            }
            if reaction == Reaction::Quit || signals.raised() {
                return Ok(());
            }
            if Instant::now() >= next {
                let now = Reading::now(host)?;
                self.rates = Some(now.since(&before));
                before = now;
                next = Instant::now() + interval;
                reaction = Reaction::Draw;
            }
            if reaction == Reaction::Draw {
                terminal.draw(|frame| self.draw(frame))?;
            }
        }
    }

    fn react(&mut self, event: &Event) -> Reaction {
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            Event::Resize(..) => return Reaction::Draw,
            _ => return Reaction::Nothing,
        };
        let table = self.tables.get_mut(self.focus);
        match *key {
            KeyEvent {
                code: KeyCode::Char('c'),
                modifiers: KeyModifiers::CONTROL,
                ..
            } => return Reaction::Quit,
            KeyEvent { code, .. } => match (code, table) {
                (KeyCode::Char('q') | KeyCode::Esc, _) => return Reaction::Quit,
                (KeyCode::Char('s'), _) => self.sort = self.sort.next(),
                (KeyCode::Char('r'), _) => self.reverse = !self.reverse,
                (KeyCode::Tab | KeyCode::BackTab, _) => self.focus = 1 - self.focus,
                (KeyCode::Down | KeyCode::Char('j'), Some(table)) => table.select_next(),
                (KeyCode::Up | KeyCode::Char('k'), Some(table)) => table.select_previous(),
                (KeyCode::PageDown, Some(table)) => table.scroll_down_by(10),
                (KeyCode::PageUp, Some(table)) => table.scroll_up_by(10),
                (KeyCode::Home, Some(table)) => table.select_first(),
                (KeyCode::End, Some(table)) => table.select_last(),
                _ => return Reaction::Nothing,
            },
        }
        Reaction::Draw
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let Some(rates) = self.rates.take() else {
            let text = "measuring; q ends it";
            frame.render_widget(Paragraph::new(text), frame.area());
            return;
        };
        let drops = rates.drops.len().clamp(1, DROP_LINES);
        let cpus = rates.cpus.len().min(8);
        let [head, cpu_area, ports, remotes, drop_area, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(cpus as u16),
            Constraint::Min(4),
            Constraint::Length((rates.remotes.len().min(8) + 3) as u16),
            Constraint::Length((drops + 2) as u16),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.heading(&rates), head);
        let bars: Vec<Line<'_>> = rates
            .cpus
            .iter()
            .map(|cpu| self.cpu_bar(cpu, cpu_area))
            .collect();
        frame.render_widget(Paragraph::new(bars), cpu_area);
        self.table(frame, ports, 0, "ports", port_entries(&rates));
        self.table(frame, remotes, 1, "remotes", remote_entries(&rates));
        frame.render_widget(self.drops(&rates), drop_area);
        let keys = "q quit   s sort   r reverse   Tab other table   ↑ ↓ move";
        frame.render_widget(Paragraph::new(keys).style(self.dim()), foot);
        self.rates = Some(rates);
    }

    fn heading(&self, rates: &Rates) -> Paragraph<'static> {
        let text = format!(
            "overlane top · host {} · over {:.1} s · sorted by {}{}",
            rates.host,
            rates.interval_s,
            self.sort.name(),
            if self.reverse { ", reversed" } else { "" },
        );
        Paragraph::new(text).style(Style::new().add_modifier(Modifier::BOLD))
    }

    /// `cpu0  ██████▒▒▒░░          softirq 31 %  system 12 %  user 9 %`
    fn cpu_bar(&self, cpu: &CpuUse, area: Rect) -> Line<'static> {
        let text = format!(
            " softirq {:3.0} %  system {:3.0} %  user {:3.0} %  steal {:3.0} %",
            cpu.softirq_percent, cpu.system_percent, cpu.user_percent, cpu.steal_percent
        );
        let name = format!("cpu{:<4}", cpu.cpu);
        let width = usize::from(area.width)
            .saturating_sub(name.len() + text.len())
            .min(60);
        let cells = |percent: f64| (percent / 100.0 * width as f64).round() as usize;
        let mut spans = vec![Span::raw(name)];
        let mut used = 0;
        for (percent, symbol, colour) in [
            (cpu.softirq_percent, "█", Color::Magenta),
            (cpu.system_percent, "▓", Color::Red),
            (cpu.user_percent, "▒", Color::Blue),
            (cpu.steal_percent, "░", Color::Yellow),
        ] {
            let count = cells(percent).min(width - used);
            used += count;
            spans.push(Span::styled(symbol.repeat(count), self.coloured(colour)));
        }
        spans.push(Span::raw(" ".repeat(width - used)));
        spans.push(Span::raw(text));
        Line::from(spans)
    }

    fn table(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        index: usize,
        title: &str,
        mut entries: Vec<Entry>,
    ) {
        entries.sort_by(|a, b| {
            let order = self.sort.order(a, b);
            if self.reverse { order.reverse() } else { order }
        });
        let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
        let rows = entries.iter().map(|entry| {
            let mut cells = vec![
                Cell::from(escaped(&entry.name).into_owned()),
                Cell::from(escaped(&entry.place).into_owned()),
            ];
            for rate in [&entry.from, &entry.to] {
                cells.extend(
                    [rate.packets_pps, rate.segments_pps, rate.rate_bps]
                        .map(|rate| right(scaled(rate))),
                );
            }
            let dropped = entry.dropped.packets_pps;
            let style = if dropped > 0.0 {
                self.coloured(Color::Red)
            } else {
                Style::new()
            };
            cells.push(right(scaled(dropped)).style(style));
            Row::new(cells)
        });
        let heading = HEADINGS
            .iter()
            .enumerate()
            .map(|(column, name)| match column {
                0 | 1 => Cell::from(*name),
                _ => right((*name).to_owned()),
            });
        let mut widths = vec![Constraint::Fill(2), Constraint::Fill(2)];
        widths.extend(COLUMN_WIDTHS.map(Constraint::Length));
        let focused = index == self.focus;
        let border = if focused {
            self.coloured(Color::Cyan)
        } else {
            self.dim()
        };
        let block = Block::new()
            .borders(Borders::ALL)
            .border_style(border)
            .title(format!(" {title} "));
        let highlight = if focused {
            Modifier::REVERSED
        } else {
            Modifier::empty()
        };
        let table = Table::new(rows, widths)
            .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(highlight))
            .block(block);
        if let Some(state) = self.tables.get_mut(index) {
            frame.render_stateful_widget(table, area, state);
        }
    }

    fn drops(&self, rates: &Rates) -> Paragraph<'static> {
        let mut drops: Vec<_> = rates.drops.iter().collect();
        drops.sort_by(|a, b| b.rate.packets_pps.total_cmp(&a.rate.packets_pps));
        let mut lines: Vec<Line<'static>> = drops
            .iter()
            .take(DROP_LINES)
            .map(|drop| {
                let reason = Span::styled(drop.reason, self.coloured(Color::Red));
                let rate = format!("{:>10} pkt/s  ", scaled(drop.rate.packets_pps));
                Line::from(vec![
                    Span::raw(rate),
                    reason,
                    Span::raw(format!("  at {}", drop.hook)),
                ])
            })
            .collect();
        if lines.is_empty() {
            lines.push(Line::styled("nothing was dropped", self.dim()));
        }
        let hidden = drops.len().saturating_sub(DROP_LINES);
        let title = if hidden > 0 {
            format!(" drops (and {hidden} more reasons) ")
        } else {
            " drops ".to_owned()
        };
        Paragraph::new(lines).block(
            Block::new()
                .borders(Borders::ALL)
                .border_style(self.dim())
                .title(title),
        )
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Name => Self::From,
            Self::From => Self::To,
            Self::To => Self::Dropped,
            Self::Dropped => Self::Name,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::From => "bits from",
            Self::To => "bits to",
            Self::Dropped => "drops",
        }
    }

    /// Names from A, rates from the highest.
    fn order(self, a: &Entry, b: &Entry) -> Ordering {
        let by_rate = match self {
            Self::Name => Ordering::Equal,
            Self::From => b.from.rate_bps.total_cmp(&a.from.rate_bps),
            Self::To => b.to.rate_bps.total_cmp(&a.to.rate_bps),
            Self::Dropped => b.dropped.packets_pps.total_cmp(&a.dropped.packets_pps),
        };
        by_rate.then_with(|| a.name.cmp(&b.name))
    }
}

fn port_entries(rates: &Rates) -> Vec<Entry> {
    let entry = |port: &overlane_host::rates::PortRates| Entry {
        name: port.port.clone(),
        place: port.switch.clone(),
        from: port.from_port,
        to: port.to_port,
        dropped: port.dropped,
    };
    rates.ports.iter().map(entry).collect()
}

fn remote_entries(rates: &Rates) -> Vec<Entry> {
    let entry = |remote: &overlane_host::rates::RemoteRates| Entry {
        name: remote.remote.clone(),
        place: remote.address.to_string(),
        from: remote.from_remote,
        to: remote.to_remote,
        dropped: remote.dropped,
    };
    rates.remotes.iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
