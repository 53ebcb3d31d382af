//! What is compared with what: the cells of one run ([`run`]), judged question by question ([`families`]), and two result
//! folders or networks ([`folders`]).

mod axis;
pub(super) mod families;
mod folders;
mod machines;
mod network;
mod pairs;
mod question;
pub(super) mod run;
#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use families::resolution_percent;
pub use folders::{CompareReport, CompareRequest, CompareRow, MissingCell, Side, compare};
pub use network::Network;
pub use question::Question;
pub use run::Compared;
