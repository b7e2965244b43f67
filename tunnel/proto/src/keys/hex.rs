//! Keys as hexadecimal text, which is how the cross-platform protocol writes them.

use zeroize::Zeroizing;

use super::LENGTH;

/// The bytes of 64 hexadecimal digits, of either case.
pub(super) fn decode(text: &[u8]) -> Option<Zeroizing<[u8; LENGTH]>> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    if text.len() != 2 * LENGTH {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}

/// Appends the digits of a key.
pub(super) fn encode(bytes: &[u8; LENGTH], text: &mut String) {
    for byte in bytes {
        for half in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: [u8; LENGTH]) {
            let mut text = String::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(text.len(), 64);
            prop_assert_eq!(decode(text.as_bytes()).map(|bytes| *bytes), Some(bytes));
            prop_assert_eq!(decode(text.to_uppercase().as_bytes()).map(|bytes| *bytes), Some(bytes));
            prop_assert!(decode(&text.as_bytes()[1..]).is_none());
        }

        #[test]
        fn any_bytes_are_a_key_or_none(text: Vec<u8>) {
            let _ = decode(&text);
        }
    }

    #[test]
    fn a_digit_that_is_none_is_refused() {
        for bad in ["g", "é", " ", "\0", "+"] {
            let text = format!("{bad}{}", "0".repeat(64 - bad.len()));
            assert!(decode(text.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
