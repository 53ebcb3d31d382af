//! Rows of what the agent of a host says.

use super::view::{Trouble, View};
use crate::report::{Object, Remedy, Row};

/// All that is not as it should be.
pub(crate) fn rows(view: &View) -> Vec<Row> {
    let source = view.source.as_deref().unwrap_or_default();
    let trouble = |note, object, name: &str, trouble: &Option<Trouble>, what: &str| {
        trouble.as_ref().map(|trouble| {
            let row = Row::finding(note, object, name)
                .means(format!("{what}: {}", trouble.error))
                .since(Some(trouble.since));
            match &trouble.help {
                Some(help) => row.advice(help),
                None => row,
            }
        })
    };
    let host = view.host.as_str();
    let mistakes = trouble(
        "mistakes",
        Object::Source,
        source,
        &view.mistakes,
        "it cannot be used, and the last good state stays",
    );
    let mistakes = mistakes.map(|row| match row.remedy {
        Some(_) => row,
        None => row.remedy(Remedy::Command(format!("overlane check {source}"))),
    });
    let failed = trouble(
        "not_applied",
        Object::Agent,
        "",
        &view.failed,
        "it could not apply what is wanted, and tries again",
    );
    let not_kept = trouble(
        "not_kept",
        Object::Agent,
        "",
        &view.not_kept,
        "what is wanted is not on the disk",
    );
    let held = view.held.as_ref().map(|held| {
        Row::finding("held", Object::Agent, "")
            .means(format!(
                "a change waits that takes away {} of {} ports: {}",
                held.ports, held.of, held.why
            ))
            .since(Some(held.since))
            .remedy(Remedy::Command(format!(
                "overlane agent accept --host {host}"
            )))
    });
    let failing = view.failing.iter().map(|failed| {
        Row::finding("failed", failed.object, &failed.name)
            .means(format!(
                "{}; tried {}, next in {} s",
                failed.reason,
                times(failed.tries),
                failed.again_in_s
            ))
            .since(Some(failed.since))
            .advice("mend what it says: the agent goes on by itself")
    });
    let whole = [mistakes, failed, not_kept, held];
    whole.into_iter().flatten().chain(failing).collect()
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
