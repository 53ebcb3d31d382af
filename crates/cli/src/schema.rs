//! `overlane schema`: what an editor needs to help with the fabric file.

use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(output: Output) -> Result<(), Failure> {
    Ok(output.json(&overlane_model::schema())?)
}
