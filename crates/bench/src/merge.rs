//! The merge operator of `mergerandom`: adds numbers, as `uint64add` of db_bench. No state, no
//! threads.

/// Bytes of a number.
const NUMBER_BYTES: usize = 8;

/// The value with the operand added to the number in its first 8 bytes (little-endian, wrapping);
/// what stands behind the number stays. A missing value is 0; what is shorter than 8 bytes is filled
/// up with zeros. Associative, so that engines may add operands to each other first.
#[must_use]
pub fn add_number(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let mut sum = value.unwrap_or_default().to_vec();
    if sum.len() < NUMBER_BYTES {
        sum.resize(NUMBER_BYTES, 0);
    }
    let total = number(&sum).wrapping_add(number(operand));
    for (byte, of_total) in sum.iter_mut().zip(total.to_le_bytes()) {
        *byte = of_total;
    }
    sum
}

fn number(bytes: &[u8]) -> u64 {
    let first = bytes.iter().take(NUMBER_BYTES).rev();
    first.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_and_the_rest_of_the_value_stays() {
        let operand = 300u64.to_le_bytes();
        assert_eq!(add_number(None, &operand), operand);
        assert_eq!(add_number(Some(&[1]), &operand), 301u64.to_le_bytes());
        let mut value = u64::MAX.to_le_bytes().to_vec();
        value.extend(b"rest");
        let sum = add_number(Some(&value), &operand);
        assert_eq!(sum[..8], 299u64.to_le_bytes());
        assert_eq!(&sum[8..], b"rest");
        // Two operands first, then the value: the same.
        let both = add_number(Some(&operand), &operand);
        let twice = add_number(Some(&sum), &operand);
        assert_eq!(add_number(Some(&value), &both), twice);
    }
}
