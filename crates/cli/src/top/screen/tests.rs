//! The screen as text, and what keys do.

use std::net::IpAddr;

use overlane_host::rates::{DropRate, PortRates, RemoteRates};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

fn rate(value: f64) -> Rate {
    Rate {
        packets_pps: value,
        segments_pps: value * 10.0,
        rate_bps: value * 1000.0,
    }
}

fn port(name: &str, from: f64, to: f64, dropped: f64) -> PortRates {
    PortRates {
        port: name.to_owned(),
        switch: "blue".to_owned(),
        from_port: rate(from),
        to_port: rate(to),
        dropped: rate(dropped),
    }
}

fn rates() -> Rates {
    Rates {
        host: "h1".to_owned(),
        interval_s: 1.0,
        ports: vec![port("a1", 5.0, 100.0, 0.0), port("a2", 9000.0, 1.0, 3.0)],
        remotes: vec![RemoteRates {
            remote: "h2".to_owned(),
            address: IpAddr::from([198, 18, 0, 2]),
            to_remote: rate(1.0),
            from_remote: rate(2.0),
            dropped: rate(0.0),
        }],
        drops: vec![DropRate {
            hook: "from_port",
            reason: "spoofed_ip",
            rate: rate(3.0),
        }],
        cpus: vec![CpuUse {
            cpu: 0,
            softirq_percent: 50.0,
            idle_percent: 50.0,
            ..CpuUse::default()
        }],
    }
}

fn press(view: &mut View, code: KeyCode) -> Reaction {
    view.react(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn view() -> View {
    View {
        rates: Some(rates()),
        ..View::new(false)
    }
}

fn screen(view: &mut View) -> String {
    let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    terminal.backend().to_string()
}

/// Line of the first of two texts is above that of the second.
fn above(screen: &str, one: &str, other: &str) -> bool {
    let line = |what: &str| screen.lines().position(|line| line.contains(what)).unwrap();
    line(one) < line(other)
}

#[test]
fn everything_is_on_the_screen() {
    let text = screen(&mut view());
    for expected in [
        "host h1",
        "softirq  50 %",
        "│a1 ",
        "9.00 k",
        "9.00 M",
        "198.18.0.2",
        "spoofed_ip  at from_port",
        "q quit",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[test]
fn s_sorts_by_the_next_column() {
    let mut view = view();
    assert!(above(&screen(&mut view), "│a1 ", "│a2 "));
    assert_eq!(press(&mut view, KeyCode::Char('s')), Reaction::Draw);
    assert!(above(&screen(&mut view), "│a2 ", "│a1 "), "a2 sends more");
    press(&mut view, KeyCode::Char('s'));
    assert!(
        above(&screen(&mut view), "│a1 ", "│a2 "),
        "a1 receives more"
    );
    press(&mut view, KeyCode::Char('r'));
    assert!(above(&screen(&mut view), "│a2 ", "│a1 "));
    press(&mut view, KeyCode::Char('s'));
    press(&mut view, KeyCode::Char('s'));
    assert_eq!(view.sort, Sort::Name);
}

#[test]
fn arrows_move_in_the_table_that_has_the_focus() {
    let mut view = view();
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Down);
    screen(&mut view);
    assert_eq!(view.tables[0].selected(), Some(1));
    press(&mut view, KeyCode::Tab);
    press(&mut view, KeyCode::Down);
    assert_eq!(
        (view.tables[0].selected(), view.tables[1].selected()),
        (Some(1), Some(0))
    );
}

#[test]
fn q_escape_and_control_c_end_it() {
    let mut view = view();
    assert_eq!(press(&mut view, KeyCode::Char('q')), Reaction::Quit);
    assert_eq!(press(&mut view, KeyCode::Esc), Reaction::Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.react(&Event::Key(control_c)), Reaction::Quit);
    assert_eq!(press(&mut view, KeyCode::Char('c')), Reaction::Nothing);
}

#[test]
fn a_small_terminal_is_no_reason_to_fail() {
    for (width, height) in [(1, 1), (20, 5), (40, 10)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view().draw(frame)).unwrap();
    }
}
