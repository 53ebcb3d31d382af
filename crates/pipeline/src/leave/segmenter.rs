//! Leave by the segmenter: a super-packet goes in as it came; its segments come back at a hook of their own and get
//! verdicts of their own.

use overlane_model::{Hook, Verdict};

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::outcome::Output;

/// As which stage it explains itself.
const STAGE: &str = "encap";

pub(crate) fn segment<F: Into<Found>>(
    cx: &mut Context<'_>,
    why: impl FnOnce() -> F,
) -> Stage<Verdict> {
    let refusal = match cx.hook {
        Hook::FromPort => {
            cx.step(STAGE, why);
            let packet = cx.entered.clone();
            cx.send(Output::Segmenter { packet });
            return Stage::Continue(Verdict::Segment);
        }
        Hook::FromSegmenter => "the segmenter did not cut this super-packet",
        _ => "only super-packets of a port go through the segmenter",
    };
    cx.end(STAGE, Verdict::GsoUnsupported, || refusal)
}
