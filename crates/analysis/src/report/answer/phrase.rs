//! The words of each question's sentence: who is held against what, and what the run may fail to say.

use crate::report::sections::questions::Question;

/// The words of a question.
#[derive(Clone, Copy)]
pub(in crate::report) struct Phrase {
    /// Who is judged: `an overlay`.
    pub(in crate::report) subject: &'static str,
    /// The subject takes verbs without an s: `jumbo frames`.
    pub(in crate::report) many: bool,
    /// What it is held against: `a plain bridge`.
    pub(in crate::report) object: &'static str,
    /// What is asked, after `This run cannot say`.
    pub(in crate::report) topic: &'static str,
    /// What is said of figures that do not differ; `{noun}` and `{object}` are filled in.
    pub(in crate::report) same: &'static str,
    /// The answer in two words, where the question is yes or no: where it gains, where it does not.
    pub(in crate::report) verdict: Option<(&'static str, &'static str)>,
    /// Both sides are the same network: what differs is noise.
    pub(in crate::report) noise: bool,
}

/// What the others begin from.
const PLAIN: Phrase = Phrase {
    subject: "",
    many: false,
    object: "",
    topic: "",
    same: "{subject} and {object} have the same {noun}",
    verdict: None,
    noise: false,
};

/// What overlays are held against, of whatever kind it is.
pub(super) const OVERLAYS_AGAINST: &str = "a network without one";

/// Title of a question → its words.
const PHRASES: [(&str, Phrase); 19] = [
    (
        "What does an overlay cost against a network without one?",
        Phrase {
            subject: "an overlay",
            object: OVERLAYS_AGAINST,
            topic: "what an overlay costs against {object}",
            same: "an overlay costs no {noun} against {object}",
            ..PLAIN
        },
    ),
    (
        "What do routing, the firewall, the gateway and NAT cost?",
        Phrase {
            subject: "a service such as routing or the firewall",
            object: "switching alone",
            topic: "what routing, the firewall, the gateway and NAT cost",
            same: "routing, the firewall, the gateway and NAT cost no {noun}",
            ..PLAIN
        },
    ),
    (
        "And against the kernel’s own VXLAN, which does neither?",
        Phrase {
            subject: "a network that routes or filters",
            object: "the kernel’s own VXLAN, which does neither",
            topic: "how a network that routes or filters stands beside the kernel’s own VXLAN",
            ..PLAIN
        },
    ),
    (
        "Does a jumbo MTU pay?",
        Phrase {
            subject: "jumbo frames",
            many: true,
            object: "1500 bytes",
            topic: "whether jumbo frames pay",
            same: "jumbo frames do not pay",
            verdict: Some(("jumbo frames pay", "jumbo frames do not pay")),
            ..PLAIN
        },
    ),
    (
        "Do jumbo frames shorten a migration?",
        Phrase {
            subject: "jumbo frames",
            many: true,
            object: "1500 bytes",
            topic: "whether jumbo frames shorten the migration",
            same: "jumbo frames make no difference to the migration",
            ..PLAIN
        },
    ),
    (
        "Do more links shorten a migration?",
        Phrase {
            subject: "a second link",
            object: "one link",
            topic: "whether a second link shortens the migration",
            same: "a second link makes no difference to the migration",
            ..PLAIN
        },
    ),
    (
        "What does the wire’s segmentation offload bring to a migration?",
        Phrase {
            subject: "the wire’s offload",
            object: "a wire without it",
            topic: "what the wire’s segmentation offload brings to a migration",
            same: "the wire’s offload makes no difference to the migration",
            ..PLAIN
        },
    ),
    (
        "What do more machines at once do to a migration?",
        Phrase {
            subject: "a larger number of machines at once",
            object: "the smallest",
            topic: "what more machines at once do to a migration",
            same: "more machines at once make no difference to the migration",
            ..PLAIN
        },
    ),
    (
        "Geneve or VXLAN?",
        Phrase {
            subject: "Geneve",
            object: "VXLAN",
            topic: "whether Geneve costs more than VXLAN",
            same: "Geneve and VXLAN cost the same",
            ..PLAIN
        },
    ),
    (
        "What does the overlay between two hosts cost against one host and a bare tester?",
        Phrase {
            subject: "an overlay between two hosts",
            object: "one host and a bare tester",
            topic: "what an overlay between two hosts costs against one host and a bare tester",
            same: "an overlay between two hosts costs no {noun} against {object}",
            ..PLAIN
        },
    ),
    (
        "Does Overlane beat the kernel’s own VXLAN?",
        Phrase {
            subject: "Overlane",
            object: "the kernel’s own VXLAN",
            topic: "whether Overlane beats the kernel’s own VXLAN",
            ..PLAIN
        },
    ),
    (
        "What does the wire’s segmentation offload bring?",
        Phrase {
            subject: "the wire’s offload",
            object: "a wire without it",
            topic: "what the wire’s segmentation offload brings",
            same: "the wire’s offload changes nothing",
            ..PLAIN
        },
    ),
    (
        "What do more VNIs cost?",
        Phrase {
            subject: "a larger number of VNIs",
            object: "the smallest",
            topic: "what more VNIs cost",
            same: "more VNIs cost no {noun}",
            ..PLAIN
        },
    ),
    (
        "What do more instances or guest pairs bring?",
        Phrase {
            subject: "a larger number of instances or guest pairs",
            object: "the smallest",
            topic: "what more instances or guest pairs bring",
            same: "more instances or guest pairs change nothing",
            ..PLAIN
        },
    ),
    (
        "What does a virtual machine cost against a container?",
        Phrase {
            subject: "a virtual machine (here a TAP device with the laboratory’s relay in place of vhost-net)",
            object: "a container",
            topic: "what a virtual machine costs against a container",
            same: "{subject} costs no {noun} against {object}",
            ..PLAIN
        },
    ),
    (
        "What do other settings change?",
        Phrase {
            subject: "another setting",
            object: "the usual one",
            topic: "what other settings change",
            same: "other settings change nothing",
            ..PLAIN
        },
    ),
    (
        "And Open vSwitch?",
        Phrase {
            subject: "Open vSwitch",
            object: "the kernel’s own VXLAN",
            topic: "how Open vSwitch stands beside the kernel’s own VXLAN",
            ..PLAIN
        },
    ),
    (
        "How far from one cable, the limit of this machine?",
        Phrase {
            subject: "a network",
            object: "one cable",
            topic: "how far a network is from one cable",
            same: "a network costs no {noun} against {object}",
            ..PLAIN
        },
    ),
    (
        "Does a network differ from itself?",
        Phrase {
            subject: "a network",
            object: "itself",
            topic: "whether a network differs from itself",
            noise: true,
            ..PLAIN
        },
    ),
];

impl Phrase {
    /// The words of a question.
    pub(in crate::report) fn of(question: &Question) -> Self {
        let found = PHRASES.iter().find(|(title, _)| *title == question.title);
        found.map_or(PLAIN, |(_, phrase)| *phrase)
    }

    /// A template with its places filled in.
    pub(super) fn fill(&self, template: &str, noun: &str) -> String {
        template
            .replace("{subject}", self.subject)
            .replace("{noun}", noun)
            .replace("{object}", self.object)
    }

    /// The subject without what is said of it in brackets: a sentence before has said that.
    pub(super) fn short_subject(&self) -> &'static str {
        self.subject.split(" (").next().unwrap_or_default()
    }

    /// `costs`, or `cost` of many.
    pub(super) fn verb(&self, verb: &str) -> String {
        let end = if self.many { "" } else { "s" };
        format!("{verb}{end}")
    }

    /// `has`, or `have` of many.
    pub(super) const fn has(&self) -> &'static str {
        if self.many { "have" } else { "has" }
    }

    /// `it`, or `they`.
    pub(super) const fn pronoun(&self) -> &'static str {
        if self.many { "they" } else { "it" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::questions::QUESTIONS;

    #[test]
    fn every_question_has_words_and_all_words_a_question() {
        for question in &QUESTIONS {
            let phrase = Phrase::of(question);
            assert!(!phrase.subject.is_empty(), "{}", question.title);
            assert!(!phrase.topic.is_empty(), "{}", question.title);
        }
        for (title, _) in PHRASES {
            let mut questions = QUESTIONS.iter();
            assert!(questions.any(|question| question.title == title), "{title}");
        }
    }
}
