//! What is compared with what: the cells of one run ([`run`]), and two result folders or networks ([`folders`]).

mod axis;
mod folders;
mod machines;
mod network;
mod pairs;
pub(super) mod run;
#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use folders::{CompareReport, CompareRequest, CompareRow, MissingCell, Side, compare};
pub use network::Network;
pub use run::Compared;
