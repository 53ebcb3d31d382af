//! What somebody may have meant by a word that nobody knows.

/// Words that other tools use for what a study calls otherwise.
const SYNONYMS: [(&str, &str); 15] = [
    ("streams", "instances"),
    ("parallel", "instances"),
    ("connections", "instances"),
    ("flows", "instances"),
    ("sizes", "bytes"),
    ("frames", "bytes"),
    ("message_bytes", "bytes"),
    ("frame_bytes", "bytes"),
    ("duration", "seconds"),
    ("runtime", "seconds"),
    ("window", "buffer_bytes"),
    ("tso", "offload"),
    ("workloads", "tests"),
    ("tcp_maerts", "tcp_reverse"),
    ("stream", "tcp_stream"),
];

/// `did you mean …?` where one of the known words is near, or all of them.
pub(super) fn help(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    }
}

/// The known word that is near enough to be meant.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == word);
    if let Some(meant) = synonym.and_then(|(_, ours)| known.iter().find(|known| *known == ours)) {
        return Some(meant);
    }
    // The beginning of a longer word.
    let longer = |known: &&&str| word.len() >= 3 && plain(known).starts_with(&word);
    if let Some(known) = known.iter().find(longer) {
        return Some(known);
    }
    let near = known
        .iter()
        .map(|known| (distance(&word, &plain(known)), *known));
    let (distance, near) = near.min_by_key(|(distance, _)| *distance)?;
    let length = word.chars().count().max(near.chars().count());
    (distance <= length.div_ceil(4)).then_some(near)
}

/// Without what is easily mixed up.
fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace('-', "_")
}

/// Letters that are missing, too many, wrong, or two that changed places (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let wrong = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + wrong);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("tests", "tests", 0),
            ("test", "tests", 1),
            ("tetss", "tests", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(
                (distance(a, b), distance(b, a)),
                (expected, expected),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn what_was_meant() {
        let known = [
            "samples",
            "seconds",
            "instances",
            "overlane-vxlan",
            "ovs-vxlan",
        ];
        for (word, meant) in [
            ("sample", "samples"),
            ("streams", "instances"),
            ("overlane_vxlan", "overlane-vxlan"),
            ("Ovs-Vxlan", "ovs-vxlan"),
            ("inst", "instances"),
        ] {
            assert_eq!(nearest(word, &known), Some(meant), "{word}");
        }
        assert_eq!(nearest("banana", &known), None);
        assert!(help("banana", &known).starts_with("known: samples, "));
        assert_eq!(nearest("x", &[]), None);
    }
}
