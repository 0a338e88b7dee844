//! The words of a text, as an index of words needs them.
//!
//! A text that contains another one contains its words, too. A word at an end of a search text may be a part of a longer
//! word, unless the search asks for whole words there. So both sides cut texts by this one definition:
//!
//! * a run of letters, digits and `_`: of three bytes or more without a digit, of five or more with one;
//! * four numbers of up to three digits with points between them, as in an address.
//!
//! Shorter words are in most texts, so an index of them would exclude little.

use std::ops::Range;

/// Least bytes of a word without a digit.
const LETTERS_MIN: usize = 3;
/// Least bytes of a word with a digit.
pub const MIXED_MIN: usize = 5;
/// Most digits of a number of an address.
pub const NUMBER_DIGITS_MAX: usize = 3;
/// Numbers of an address.
pub const NUMBERS: usize = 4;

/// Whether a character belongs to a word.
pub fn is_word_character(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// A text in lower case. Each letter becomes one letter, whatever stands beside it, so that the text of a part is a part of the
/// text of the whole: `ΣΑΣ` is `σασ`, and so is `σας`.
pub fn in_lower_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = |c: char| match c.to_lowercase().next() {
        Some('ς') => 'σ',
        Some(lower) => lower,
        None => c,
    };
    text.chars().map(lower).collect()
}

/// Passes the place of each word of a text.
pub fn each_word(text: &str, mut each: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    // Where the last numbers with points between them begin, and how many there are.
    let (mut starts, mut numbers, mut last_end) = ([0; NUMBERS], 0, 0);
    let mut at = 0;
    while at < bytes.len() {
        let (start, mut digits) = (at, 0);
        while let Some(length) = word_character_at(text, at) {
            digits += usize::from(bytes[at].is_ascii_digit());
            at += length;
        }
        let word = start..at;
        at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
        if word.is_empty() {
            continue;
        }
        if digits == word.len() && digits <= NUMBER_DIGITS_MAX {
            let follows = numbers > 0 && start == last_end + 1 && bytes[last_end] == b'.';
            numbers = if follows { numbers + 1 } else { 1 };
            starts.rotate_left(1);
            starts[NUMBERS - 1] = start;
            if numbers >= NUMBERS {
                each(starts[0]..word.end);
            }
        } else {
            numbers = 0;
            if word.len() >= if digits == 0 { LETTERS_MIN } else { MIXED_MIN } {
                each(word.clone());
            }
        }
        last_end = word.end;
    }
}

/// The length of the character at a place, if it belongs to a word.
#[inline]
fn word_character_at(text: &str, at: usize) -> Option<usize> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return (byte.is_ascii_alphanumeric() || byte == b'_').then_some(1);
    }
    let c = text.get(at..)?.chars().next()?;
    is_word_character(c).then_some(c.len_utf8())
}

/// The words that every text contains which contains `text`. `borders` says whether its first and its last word are whole
/// words there.
pub fn words_within(text: &str, borders: (bool, bool)) -> Vec<&str> {
    let mut words = Vec::new();
    each_word(text, |word| {
        let is_whole = (word.start > 0 || borders.0) && (word.end < text.len() || borders.1);
        words.extend(text.get(word).filter(|_| is_whole));
    });
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(&text[word]));
        words
    }

    #[test]
    fn words_are_cut_at_other_characters() {
        assert_eq!(words("GET /api/v1 in 30000ms, at 10.1.2.3."), ["GET", "api", "30000ms", "10.1.2.3"]);
        assert_eq!(
            words("größer “als” x_1y2 1.2.3.4.5 1.2.3 1234.1.1.1"),
            ["größer", "als", "x_1y2", "1.2.3.4", "2.3.4.5"]
        );
        assert_eq!(words("4bf92f35-77b3-4da6-a3ce-929d0e0e4736"), ["4bf92f35", "929d0e0e4736"]);
        assert_eq!(words(""), [""; 0]);
    }

    /// Text in lower case is that of its parts, so that a search for a part finds it in the whole.
    #[test]
    fn each_letter_has_one_letter_in_lower_case() {
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, 'ς')) {
            let lower = in_lower_case(&c.to_string());
            assert_eq!(lower.chars().count(), 1, "{c}");
            assert_eq!(in_lower_case(&format!("Σ{c}ς")), format!("σ{lower}σ"), "{c}");
        }
        assert_eq!(in_lower_case("İstanbul GRÖßE K"), "istanbul größe k");
    }

    #[test]
    fn a_word_at_an_end_counts_if_it_is_whole() {
        assert_eq!(words_within("reset by peer", (false, false)), [""; 0]);
        assert_eq!(words_within("reset by the peer", (false, false)), ["the"]);
        assert_eq!(words_within("reset by the peer", (true, true)), ["peer", "reset", "the"]);
        assert_eq!(words_within("reset by the pe", (true, false)), ["reset", "the"]);
        assert_eq!(words_within("10.1.2.3", (true, true)), ["10.1.2.3"]);
        assert_eq!(words_within("10.1.2.3", (true, false)), [""; 0]);
    }

    proptest! {
        /// A text has the words of each of its parts; with borders, where no word goes on.
        #[test]
        fn a_text_has_the_words_of_its_parts(text in "[a-c0-2_. é“-]{0,30}", ends in any::<(prop::sample::Index, prop::sample::Index)>()) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (a, b) = (places[ends.0.index(places.len())], places[ends.1.index(places.len())]);
            let (start, end) = (a.min(b), a.max(b));
            let starts = !text[..start].chars().next_back().is_some_and(is_word_character);
            let ends = !text[end..].chars().next().is_some_and(is_word_character);
            let all = words(&text);
            for word in words_within(&text[start..end], (starts, ends)) {
                prop_assert!(all.contains(&word), "{:?} of {:?}", word, text);
            }
        }
    }
}
