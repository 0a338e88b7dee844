//! Addresses of a network, told by the numbers of a pattern: an address is four of them, and need not be printed.

use daytable_logsql::Matcher;
use daytable_model::property::Property;
use daytable_store::page::{PatternBlock, TextSplitter, ValueReader};

/// Reads whether values are addresses of a network.
pub(super) struct NetworkReader<'m> {
    matcher: &'m Matcher,
    /// The first and the last address.
    addresses: (u32, u32),
    /// The pattern of an address.
    pattern: String,
}

impl<'m> NetworkReader<'m> {
    /// `None` if a matcher does not look for the addresses of a network.
    pub(super) fn new(matcher: &'m Matcher) -> Option<NetworkReader<'m>> {
        let addresses = matcher.addresses()?;
        let pattern = TextSplitter::default().split("0.0.0.0")?.0.to_owned();
        Some(NetworkReader { matcher, addresses, pattern })
    }
}

impl ValueReader<bool> for NetworkReader<'_> {
    fn read(&mut self, value: Property<'_>) -> bool {
        self.matcher.matches(Some(value))
    }

    fn pattern(&mut self, pattern: &str) -> Option<u32> {
        (pattern == self.pattern).then_some(0)
    }

    fn read_block(&mut self, block: &PatternBlock, found: &mut [Option<bool>]) {
        let [first, second, third, fourth, ..] = &block.numbers;
        for (at, found) in found.iter_mut().enumerate() {
            let parts = [first[at], second[at], third[at], fourth[at]].map(i64::cast_unsigned);
            let is_address = parts.iter().all(|part| *part <= u64::from(u8::MAX));
            let address = parts.iter().fold(0u32, |address, part| address << 8 | *part as u32);
            let is_in = is_address && (self.addresses.0..=self.addresses.1).contains(&address);
            *found = block.patterns[at].map(|_| is_in);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_logsql::{ParsedQuery, Predicate, PredicateNode};
    use daytable_model::time::Ticks;

    #[test]
    fn numbers_of_a_pattern_are_addresses_where_the_text_is_one() {
        let query = ParsedQuery::parse("ip:ipv4_range(10.3.0.0/16)").expect("a query");
        let predicate = Predicate::new(&query.filter, Ticks::MAX);
        let PredicateNode::Field(_, matcher) = predicate.root() else { panic!("a field") };
        let mut reader = NetworkReader::new(matcher).expect("a network");
        for text in
            ["10.3.0.0", "10.3.255.255", "10.4.0.0", "10.2.255.255", "10.3.256.1", "266.3.0.1", "10.3.4294967296.7"]
        {
            let mut splitter = TextSplitter::default();
            let (pattern, numbers) = splitter.split(text).expect("a pattern");
            let mut block = PatternBlock::default();
            block.patterns[0] = reader.pattern(pattern);
            for (slot, number) in numbers.iter().enumerate() {
                block.numbers[slot][0] = *number;
            }
            let mut found = [None];
            reader.read_block(&block, &mut found);
            assert_eq!(found, [Some(matcher.matches_text(text))], "{text}");
        }
        assert_eq!(reader.pattern("a \u{1a}.\u{1a}.\u{1a}.\u{1a}"), None);
        assert!(!reader.read(Property::String("010.3.0.1")));
    }
}
