//! The model parameters that a script obeys, as a provider would: stop sequences and the output limit.

use windlass_core::{
    agent::ModelParameters,
    message::{Content, Part},
    stop::StopReason,
};

use super::play::TOKEN_CHARACTERS;

/// Cuts an answer where a parameter ends it. Everything after the cut is lost, as it would be on the wire.
pub(super) fn cut(parts: &mut Vec<Part>, parameters: &ModelParameters) -> Option<StopReason> {
    let limit = parameters.max_output_tokens.map(|tokens| (tokens as usize).saturating_mul(TOKEN_CHARACTERS));
    let mut room = limit;
    for index in 0..parts.len() {
        let Content::Text { text } = &mut parts[index].content else { continue };
        let stop_at = parameters.stop_sequences.iter().filter_map(|sequence| text.find(sequence.as_str())).min();
        let characters = text.chars().count();
        let full = room.filter(|room| *room < stop_at.map_or(characters, |at| text[..at].chars().count()));
        let (at, reason) = match (full, stop_at) {
            (Some(room), _) => (text.char_indices().nth(room).map_or(text.len(), |(at, _)| at), StopReason::MaxTokens),
            (None, Some(at)) => (at, StopReason::StopSequence),
            (None, None) => {
                room = room.map(|room| room - characters);
                continue;
            }
        };
        text.truncate(at);
        parts.truncate(index + 1);
        return Some(reason);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_texts(texts: &[&str], max_output_tokens: Option<u32>, stop: &[&str]) -> (Vec<String>, Option<StopReason>) {
        let mut parts: Vec<Part> = texts.iter().map(|text| Part::text(*text)).collect();
        let stop_sequences = stop.iter().map(|text| (*text).to_owned()).collect();
        let parameters = ModelParameters { max_output_tokens, stop_sequences, ..ModelParameters::default() };
        let reason = cut(&mut parts, &parameters);
        (parts.iter().map(|part| windlass_core::message::plain_text(std::slice::from_ref(part))).collect(), reason)
    }

    #[test]
    fn an_answer_ends_at_the_first_limit_it_reaches() {
        let whole = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(cut_texts(&["abcd", "efgh"], Some(2), &[]), (whole(&["abcd", "efgh"]), None));
        assert_eq!(
            cut_texts(&["abcd", "éfghi"], Some(2), &[]),
            (whole(&["abcd", "éfgh"]), Some(StopReason::MaxTokens))
        );
        assert_eq!(cut_texts(&["ab END cd", "e"], None, &["END"]), (whole(&["ab "]), Some(StopReason::StopSequence)));
        assert_eq!(cut_texts(&["abcdEND"], Some(1), &["END"]), (whole(&["abcd"]), Some(StopReason::StopSequence)));
        assert_eq!(cut_texts(&["abcdefEND"], Some(1), &["END"]), (whole(&["abcd"]), Some(StopReason::MaxTokens)));
    }
}
