//! What a fabric file promises: who reaches whom, and what is stopped where (`examples/*.statements.yaml`;
//! docs/fabric.md has the format). [`prove`] walks each statement's packets over all hosts on the reference
//! executor ([`walk`]), with machines that ask and answer as guests do ([`station`]).

mod document;
mod prove;
mod station;
mod walk;

pub use document::{Statements, WrongStatement};
pub use prove::{Proof, prove};
pub use walk::Seen;
