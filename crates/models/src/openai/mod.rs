//! What OpenAI's two formats share: settings and their order, pieces of messages, arguments, schemas and errors.

mod arguments;
#[cfg(test)]
pub(crate) mod checks;
#[cfg(test)]
pub(crate) mod conversations;
mod failure;
mod pieces;
mod schema;
mod settings;

pub(crate) use self::{
    arguments::{read_arguments, written_arguments},
    failure::{failed_in_stream, failure},
    pieces::{Piece, attachment_note, piece_of, result_pieces},
    schema::parameters_of,
    settings::{FORMAT, TokenDetails, cache_key, effort, enforced, output_form, push_sampling, push_tools},
};
