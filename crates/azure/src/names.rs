//! Percent-encoding of keys and names in addresses: quotes are doubled, and reserved characters become `%XX`.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Writes text for a path or a query value.
pub(super) fn write_encoded(text: &str, to: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            to.push(byte);
        } else {
            to.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Writes the content of a key literal: `it's` becomes `it%27%27s`.
pub(super) fn write_key(text: &str, to: &mut Vec<u8>) {
    for (number, part) in text.split('\'').enumerate() {
        if number > 0 {
            to.extend_from_slice(b"%27%27");
        }
        write_encoded(part, to);
    }
}

/// Returns the result of [`write_encoded`].
pub(super) fn encoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len() + text.len() / 4);
    write_encoded(text, &mut bytes);
    String::from_utf8(bytes).expect("percent-encoded text is ASCII")
}

/// The path of an entity below the account's address.
pub(super) fn entity_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let mut path = encoded(table).into_bytes();
    path.extend_from_slice(b"(PartitionKey='");
    write_key(partition_key, &mut path);
    path.extend_from_slice(b"',RowKey='");
    write_key(row_key, &mut path);
    path.extend_from_slice(b"')");
    String::from_utf8(path).expect("percent-encoded text is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_path() {
        for (partition, row, path) in [
            ("web-17", "1-a", "Log(PartitionKey='web-17',RowKey='1-a')"),
            ("it's", "", "Log(PartitionKey='it%27%27s',RowKey='')"),
            ("a b%", "é+&", "Log(PartitionKey='a%20b%25',RowKey='%C3%A9%2B%26')"),
        ] {
            assert_eq!(entity_path("Log", partition, row), path);
            // The URL parser must not change the path: the signature covers the exact bytes.
            let url = reqwest::Url::parse(&format!("https://acme.table.core.windows.net/{path}")).expect("an address");
            assert_eq!(url.path(), format!("/{path}"));
        }
    }
}
