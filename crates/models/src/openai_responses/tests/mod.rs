mod properties;
mod requests;

use super::*;
use crate::{cassette::Player, openai::checks::player};

const PLAYER: Player<OpenAiResponses> = player(OpenAiResponses, "openai_responses", "POST /v1/responses HTTP/1.1");

#[tokio::test]
async fn every_cassette_is_read_as_expected_wherever_its_bytes_are_cut() {
    PLAYER.assert_cassettes_are_read().await;
}

#[test]
fn a_stream_that_is_cut_has_no_answer() {
    let is_end = |data: &str| {
        data.contains("\"type\":\"response.completed\"") || data.contains("\"type\":\"response.incomplete\"")
    };
    PLAYER.assert_answers_need_their_end(is_end, is_end);
}

#[test]
fn events_in_any_order_do_not_break_the_reader() {
    PLAYER.assert_disorder_is_survived();
}
