//! The sentences, word by word: every outcome of every question that a study ships with.

use super::super::phrase::Phrase;
use super::super::votes::{Part, Quantity, Vote};
use super::{Start, lead, second};
use crate::report::sections::questions::QUESTIONS;
use crate::stats::Verdict::{self, Better, CannotTell, NotComparable, Same, Worse};

const GOODPUT: Quantity = Quantity::Figure("goodput");
const CPU: Quantity = Quantity::Cost("CPU per Gbit/s");

/// The words of the question whose title begins so.
fn words(title: &str) -> Phrase {
    let mut questions = QUESTIONS.iter();
    Phrase::of(questions.find(|q| q.title.starts_with(title)).unwrap())
}

fn overlay() -> Phrase {
    Phrase {
        object: "a plain bridge",
        ..words("What does an overlay cost")
    }
}

/// Comparisons of one verdict, one for each ratio.
fn votes<const N: usize>(verdict: Verdict, ratios: [f64; N]) -> Vec<Vote> {
    let vote = |ratio| Vote {
        verdict,
        ratio: Some(ratio),
        within_percent: None,
        why_not: None,
    };
    ratios.map(vote).into()
}

/// `count` comparisons of one verdict with the same ratio.
fn many(count: usize, verdict: Verdict, ratio: f64) -> Vec<Vote> {
    let vote = Vote {
        verdict,
        ratio: Some(ratio),
        within_percent: None,
        why_not: None,
    };
    vec![vote; count]
}

fn check(p: &Phrase, quantity: Quantity, votes: &[Vec<Vote>], want: &str) {
    assert_eq!(lead(p, quantity, &votes.concat(), None, Start::Here), want);
}

#[test]
fn where_none_can_tell_the_sentence_says_how_much_it_can_be() {
    let within = |percent| Vote {
        verdict: CannotTell,
        ratio: Some(0.97),
        within_percent: percent,
        why_not: None,
    };
    let p = overlay();
    check(
        &p,
        GOODPUT,
        &[vec![within(Some(14.2)), within(Some(11.3))]],
        "This run cannot say what an overlay costs against a plain bridge: neither comparison can tell. Where they cannot \
         tell, a difference is below 15 %.",
    );
    check(
        &p,
        GOODPUT,
        &[vec![within(Some(14.2)), within(None)]],
        "This run cannot say what an overlay costs against a plain bridge: neither comparison can tell.",
    );
}

#[test]
fn a_difference_that_can_only_be_small_is_called_so() {
    let within = |percent| Vote {
        verdict: CannotTell,
        ratio: Some(0.97),
        within_percent: Some(percent),
        why_not: None,
    };
    check(
        &overlay(),
        GOODPUT,
        &[
            vec![within(4.2), within(9.9), within(8.0), within(16.0)],
            many(2, Same, 1.0),
            votes(Worse, [0.87]),
            many(2, NotComparable, 0.6),
        ],
        "On this machine an overlay and a plain bridge differ by less than 10 % in goodput: 5 of 9 comparisons, one is lower, \
         one cannot tell, two are not comparable.",
    );
    let all = [within(4.2), within(9.9)];
    assert_eq!(
        second(&overlay(), CPU, &all).unwrap(),
        "CPU per Gbit/s differs by less than 10 %: both comparisons."
    );
}

#[test]
fn what_an_overlay_costs() {
    let p = overlay();
    let costs = votes(
        Worse,
        [0.92, 0.88, 0.88, 0.85, 0.87, 0.89, 0.9, 0.88, 0.88, 0.86],
    );
    check(
        &p,
        GOODPUT,
        &[costs.clone(), many(2, CannotTell, 0.97)],
        "On this machine an overlay costs 12 % of the goodput against a plain bridge (8 to 15 %): 10 of 12 comparisons, two cannot tell.",
    );
    check(
        &p,
        GOODPUT,
        &[many(3, Better, 1.4), many(1, Same, 1.01)],
        "On this machine an overlay gives 40 % more goodput than a plain bridge: 3 of 4 comparisons, one is the same within 5 %.",
    );
    check(
        &p,
        GOODPUT,
        &[many(12, Same, 0.99)],
        "On this machine an overlay costs no goodput against a plain bridge: all 12 comparisons within 5 %.",
    );
    check(
        &p,
        GOODPUT,
        &[
            many(4, Worse, 0.8),
            many(3, Better, 1.2),
            many(2, Same, 1.0),
            many(1, CannotTell, 1.0),
        ],
        "On this machine it depends on the setting: against a plain bridge, an overlay has more goodput in 3, less in 4 and \
         the same in 2 of 10 comparisons (from 20 % less to 20 % more), one cannot tell.",
    );
    check(
        &p,
        GOODPUT,
        &[many(7, CannotTell, 0.97), many(2, Worse, 0.9)],
        "This run cannot say what an overlay costs against a plain bridge: 7 of 9 comparisons cannot tell, two are lower.",
    );
    check(
        &p,
        GOODPUT,
        &[many(6, NotComparable, 0.9)],
        "This run cannot say what an overlay costs against a plain bridge: its 6 comparisons are not like for like.",
    );
    check(
        &words("What does an overlay cost"),
        GOODPUT,
        &[],
        "This run cannot say what an overlay costs against a network without one: it has no two cells to compare.",
    );
    assert_eq!(
        second(&p, CPU, &many(10, Worse, 1.14)).unwrap(),
        "An overlay takes 14 % more CPU per Gbit/s: all 10 comparisons."
    );
}

#[test]
fn geneve_against_vxlan() {
    let p = words("Geneve or VXLAN?");
    let throughput = Quantity::Figure("throughput");
    check(
        &p,
        throughput,
        &[many(34, Same, 1.0), many(2, CannotTell, 1.0)],
        "On this machine Geneve and VXLAN cost the same: 34 of 36 comparisons within 5 %, two cannot tell.",
    );
    check(
        &p,
        throughput,
        &[votes(Worse, [0.93, 0.91, 0.92]), many(1, Same, 0.98)],
        "On this machine Geneve costs 8 % of the throughput against VXLAN (7 to 9 %): 3 of 4 comparisons, one is the same within 5 %.",
    );
    check(
        &p,
        throughput,
        &[many(18, CannotTell, 1.0)],
        "This run cannot say whether Geneve costs more than VXLAN: none of 18 comparisons can tell.",
    );
    check(
        &p,
        throughput,
        &[many(1, CannotTell, 1.0)],
        "This run cannot say whether Geneve costs more than VXLAN: its one comparison cannot tell.",
    );
    let work = Quantity::Cost("CPU for the same work");
    for (votes, want) in [
        (
            [many(17, Same, 1.0), many(1, CannotTell, 1.0)],
            "CPU for the same work is the same: 17 of 18 comparisons within 5 %, one cannot tell.",
        ),
        (
            [many(2, Same, 1.0), many(16, CannotTell, 1.0)],
            "The run cannot say whether CPU for the same work differs: 16 of 18 comparisons cannot tell, two are the same within 5 %.",
        ),
        (
            [many(4, Better, 0.9), many(5, Worse, 1.1)],
            "CPU for the same work is higher in 5 and lower in 4 of 9 comparisons (from 10 % less to 10 % more).",
        ),
    ] {
        assert_eq!(second(&p, work, &votes.concat()).unwrap(), want);
    }
    assert_eq!(second(&p, work, &[]), None);
}

#[test]
fn whether_jumbo_frames_pay() {
    let p = words("Does a jumbo MTU pay?");
    check(
        &p,
        GOODPUT,
        &[votes(Better, [1.9, 2.1, 2.4])],
        "On this machine jumbo frames pay: they give 2.1 times the goodput of 1500 bytes (1.9 to 2.4 times), all 3 comparisons.",
    );
    check(
        &p,
        GOODPUT,
        &[votes(Worse, [0.97, 0.93]), many(1, CannotTell, 1.0)],
        "On this machine jumbo frames do not pay: they cost 5 % of the goodput against 1500 bytes (3 to 7 %), 2 of 3 comparisons, one cannot tell.",
    );
    check(
        &p,
        GOODPUT,
        &[many(8, Same, 1.0)],
        "On this machine jumbo frames do not pay: all 8 comparisons within 5 %.",
    );
    let parts = |on: Vec<Vote>| {
        let part = |place: &str, votes| Part {
            place: place.to_owned(),
            votes,
        };
        let off = votes(Better, [1.91, 2.1, 2.1, 2.2]);
        [part("with offload on", on), part("with offload off", off)]
    };
    for (on, want) in [
        (
            many(4, Same, 1.0),
            "On this machine, with offload off, jumbo frames give 2.1 times the goodput of 1500 bytes (1.9 to 2.2 times): all 4 comparisons; \
             with offload on, they change nothing: all 4 within 5 %.",
        ),
        (
            many(4, CannotTell, 1.0),
            "On this machine, with offload off, jumbo frames give 2.1 times the goodput of 1500 bytes (1.9 to 2.2 times): all 4 comparisons; \
             with offload on, this run cannot say: none of 4 comparisons can tell.",
        ),
        (
            vec![
                Vote {
                    verdict: CannotTell,
                    ratio: Some(0.98),
                    within_percent: Some(7.0),
                    why_not: None,
                };
                4
            ],
            "On this machine, with offload off, jumbo frames give 2.1 times the goodput of 1500 bytes (1.9 to 2.2 times): all 4 comparisons; \
             with offload on, they change less than 10 %: all 4 comparisons.",
        ),
    ] {
        let parts = parts(on);
        let all = [parts[0].votes.clone(), parts[1].votes.clone()].concat();
        assert_eq!(lead(&p, GOODPUT, &all, Some(&parts), Start::Here), want);
    }
    check(
        &p,
        GOODPUT,
        &[many(2, CannotTell, 1.0)],
        "This run cannot say whether jumbo frames pay: neither comparison can tell.",
    );
    assert_eq!(
        second(&p, CPU, &many(4, Better, 0.7)).unwrap(),
        "Jumbo frames save 30 % of the CPU per Gbit/s: all 4 comparisons."
    );
}

#[test]
fn what_an_overlay_costs_in_cpu() {
    let p = Phrase {
        object: "a VLAN on the same switch",
        ..words("What does an overlay cost")
    };
    check(
        &p,
        CPU,
        &[votes(Worse, [1.09, 1.14, 1.2])],
        "On this machine an overlay takes 14 % more CPU per Gbit/s than a VLAN on the same switch (9 to 20 %): all 3 comparisons.",
    );
    check(
        &p,
        CPU,
        &[votes(Worse, [2.0, 3.1, 2.4])],
        "On this machine an overlay takes 2.4 times the CPU per Gbit/s of a VLAN on the same switch (2.0 to 3.1 times): all 3 comparisons.",
    );
    check(
        &p,
        CPU,
        &[many(5, Better, 0.9), many(1, Same, 1.0)],
        "On this machine an overlay saves 10 % of the CPU per Gbit/s against a VLAN on the same switch: 5 of 6 comparisons, one is the \
         same within 5 %.",
    );
    check(
        &p,
        CPU,
        &[many(6, Same, 1.0)],
        "On this machine an overlay takes the same CPU per Gbit/s as a VLAN on the same switch: all 6 comparisons within 5 %.",
    );
    check(
        &p,
        CPU,
        &[many(3, Better, 0.9), many(3, Worse, 1.3)],
        "On this machine it depends on the setting: against a VLAN on the same switch, an overlay takes more CPU per Gbit/s in 3 and less \
         in 3 of 6 comparisons (from 10 % less to 30 % more).",
    );
    assert_eq!(
        second(&p, GOODPUT, &many(6, Same, 1.0)).unwrap(),
        "Goodput is the same: all 6 comparisons within 5 %."
    );
    assert_eq!(
        second(
            &p,
            Quantity::Figure("transactions per second"),
            &many(6, Same, 1.0)
        )
        .unwrap(),
        "Transactions per second are the same: all 6 comparisons within 5 %."
    );
}

#[test]
fn a_virtual_machine_is_said_to_be_a_tap_with_the_relay_once() {
    let p = words("What does a virtual machine cost");
    let said = lead(&p, GOODPUT, &votes(Worse, [0.55, 0.53]), None, Start::Here);
    assert!(
        said.contains("a virtual machine (here a TAP device with the laboratory’s relay in place of vhost-net) costs 46 %"),
        "{said}"
    );
    let same = lead(&p, GOODPUT, &many(3, Same, 1.0), None, Start::Here);
    assert!(
        same.contains("the laboratory’s relay in place of vhost-net) costs no goodput"),
        "{same}"
    );
    let beside = second(&p, Quantity::Cost("CPU"), &votes(Worse, [1.2, 1.3])).unwrap();
    assert!(beside.starts_with("A virtual machine takes "), "{beside}");
}

#[test]
fn what_is_not_comparable_says_why() {
    let why = |words: &'static str| Vote {
        why_not: Some(words),
        ..many(1, NotComparable, 0.6)[0]
    };
    let p = overlay();
    check(
        &p,
        GOODPUT,
        &[vec![why("not sampled in turn")]],
        "This run cannot say what an overlay costs against a plain bridge: its one comparison is not like for like (not sampled in turn).",
    );
    check(
        &p,
        GOODPUT,
        &[
            votes(Worse, [0.87, 0.88, 0.89]),
            vec![
                why("one has outer checksums"),
                why("one passes br_netfilter"),
            ],
        ],
        "On this machine an overlay costs 12 % of the goodput against a plain bridge (11 to 13 %): 3 of 5 comparisons, \
         two are not comparable (one has outer checksums; one passes br_netfilter).",
    );
}

#[test]
fn the_two_models_of_the_draft() {
    let p = words("What does the overlay between two hosts");
    let rate = Quantity::Figure("packets per second");
    check(
        &p,
        rate,
        &[votes(Worse, [0.7, 0.68, 0.72]), many(3, NotComparable, 0.5)],
        "On this machine an overlay between two hosts costs 30 % of the packets per second against one host and a bare tester (28 to 32 %): \
         3 of 6 comparisons, three are not comparable.",
    );
    check(
        &p,
        rate,
        &[many(2, Better, 1.1), many(2, Worse, 0.9)],
        "On this machine it depends on the setting: against one host and a bare tester, an overlay between two hosts has more packets per \
         second in 2 and fewer in 2 of 4 comparisons (from 10 % less to 10 % more).",
    );
    check(
        &p,
        rate,
        &[],
        "This run cannot say what an overlay between two hosts costs against one host and a bare tester: it has no two cells to compare.",
    );
}

#[test]
fn a_run_that_was_broken_off_says_so() {
    let p = words("Geneve or VXLAN?");
    let said = |votes: &[Vote]| lead(&p, GOODPUT, votes, None, Start::SoFar);
    assert_eq!(
        said(&many(4, Same, 1.0)),
        "As far as the run came, Geneve and VXLAN cost the same: all 4 comparisons within 5 %."
    );
    assert_eq!(
        said(&[]),
        "This run was broken off and cannot say whether Geneve costs more than VXLAN: it has no two cells to compare."
    );
}

#[test]
fn noise_is_counted() {
    let p = words("Does a network differ from itself?");
    check(
        &p,
        GOODPUT,
        &[many(1, Better, 1.02), many(19, CannotTell, 1.0)],
        "On this machine a network differs from itself in 1 of 20 comparisons: so often does noise look like a difference.",
    );
}

#[test]
fn one_contradiction_in_ten_is_named_and_more_leave_no_answer() {
    let p = overlay();
    check(
        &p,
        GOODPUT,
        &[many(9, Worse, 0.9), many(1, Better, 1.1)],
        "On this machine an overlay costs 10 % of the goodput against a plain bridge: 9 of 10 comparisons, one is higher.",
    );
    let divided = [many(8, Worse, 0.9), many(2, Better, 1.1)].concat();
    assert!(lead(&p, GOODPUT, &divided, None, Start::Here).contains("it depends"));
}

#[test]
fn small_amounts_keep_a_decimal() {
    check(
        &overlay(),
        GOODPUT,
        &[votes(Worse, [0.996, 0.992, 0.9999])],
        "On this machine an overlay costs 0.4 % of the goodput against a plain bridge (less than 0.1 to 0.8 %): all 3 comparisons.",
    );
}

#[test]
fn a_question_beside_the_first_begins_with_its_subject() {
    let said = lead(&overlay(), GOODPUT, &many(6, Worse, 0.9), None, Start::Bare);
    assert_eq!(
        said,
        "An overlay costs 10 % of the goodput against a plain bridge: all 6 comparisons."
    );
}
