//! Tables of the firewall: rules and connections.

use std::io;

use overlane_host::observe::{ConnectionRow, Connections, Rules, Whose};

use crate::output::{Output, number, state, text};
use crate::protocol;

pub(super) fn show_rules(rules: &Rules, output: Output) -> io::Result<()> {
    let columns = [
        "RULE",
        "#LINE",
        "#PRIORITY",
        "DIRECTION",
        "ACTION",
        "LOG",
        "#PACKETS",
        "#BYTES",
    ];
    let mut rows = output.table(&columns);
    for rule in &rules.rules {
        rows.push(vec![
            text(&rule.rule),
            text(rule.line),
            text(rule.priority),
            text(&rule.direction),
            state(&rule.action, rule.action.starts_with("allow")),
            text(if rule.log { "yes" } else { "-" }),
            number(rule.hits.packets),
            number(rule.hits.bytes),
        ]);
    }
    let title = format!("host {}: rules", rules.host);
    output.section(&title, &rows, "no rule names a port of this host")
}

pub(super) fn show_connections(
    connections: &Connections,
    of: Option<&str>,
    output: Output,
) -> io::Result<()> {
    let columns = [
        "PORT", "PROTOCOL", "LOCAL", "", "PEER", "STATE", "#AGE", "#IDLE", "RULE", "OUTSIDE",
    ];
    let mut rows = output.table(&columns);
    for row in &connections.connections {
        rows.push(vec![
            text(whose(&row.whose)),
            text(protocol::with_type(row.protocol, row.icmp_type)),
            text(row.local),
            text(arrow(row)),
            text(row.peer),
            state(&state_words(row), !row.expired),
            text(format!("{} s", row.age_s)),
            text(format!("{} s", row.idle_s)),
            text(row.rule.as_deref().unwrap_or("-")),
            text(outside(row)),
        ]);
    }
    output.section(&title(connections, of), &rows, "no connections")
}

/// How many there are of those in the table, and on the host.
fn title(connections: &Connections, of: Option<&str>) -> String {
    let Connections {
        host,
        most,
        held,
        live,
        expired,
        ..
    } = connections;
    let expired = match expired {
        0 => String::new(),
        _ => format!(", {expired} expired"),
    };
    match of {
        None => format!("host {host}: connections, {live} of at most {most} live{expired}"),
        Some(name) => format!(
            "host {host}: connections of {name}, {live} live{expired}; {held} of at most {most} live on the host"
        ),
    }
}

fn whose(whose: &Whose) -> String {
    match whose {
        Whose::Port(port) => port.clone(),
        Whose::Router(router) => format!("router {router}"),
    }
}

/// Both ends of a translation where the peer has another port there.
fn outside(row: &ConnectionRow) -> String {
    match row.translation {
        Some(it) if it.peer != row.peer => {
            format!("{} {} {}", it.outside, arrow(row), it.peer)
        }
        Some(it) => it.outside.to_string(),
        None => "-".to_owned(),
    }
}

const fn arrow(row: &ConnectionRow) -> &'static str {
    if row.begun_by_peer { "←" } else { "→" }
}

fn state_words(row: &ConnectionRow) -> String {
    let name = row.state.name();
    let is_revoked = row.translation.is_some_and(|it| it.revoked);
    match (row.expired, is_revoked, row.adopted) {
        (true, ..) => format!("{name}, expired"),
        (false, true, _) => format!("{name}, rule gone"),
        (false, false, true) => format!("{name}, adopted"),
        (false, false, false) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_counts_what_is_listed() {
        let mut connections = Connections {
            host: "h1".into(),
            most: 64,
            held: 4,
            live: 4,
            expired: 0,
            connections: Vec::new(),
        };
        let expected = "host h1: connections, 4 of at most 64 live";
        assert_eq!(title(&connections, None), expected);
        connections.expired = 3;
        let expected = "host h1: connections, 4 of at most 64 live, 3 expired";
        assert_eq!(title(&connections, None), expected);
        connections.live = 1;
        assert_eq!(
            title(&connections, Some("web")),
            "host h1: connections of web, 1 live, 3 expired; 4 of at most 64 live on the host"
        );
    }
}
