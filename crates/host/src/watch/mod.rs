//! What passes, as it passes: packets, what rules decide, and how much it is.

pub mod capture;
pub mod rates;
pub mod rule_log;
