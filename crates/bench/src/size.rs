//! Sizes, counts and durations as people write them. No state, no threads.

use std::time::Duration;

const BINARY: [(&str, u64); 4] = [
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// A number of bytes: `4096`, `64K`, `1GiB`, `10MB`.
///
/// # Errors
/// The text is no size; the message says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    let scale = match suffix.as_str() {
        "" | "b" => Some(1),
        suffix => BINARY
            .iter()
            .zip(1..)
            .find_map(|((letter, binary), power)| {
                let kind = suffix.strip_prefix(letter)?;
                match kind {
                    "" | "i" | "ib" => Some(*binary),
                    "b" => Some(1000u64.pow(power)),
                    _ => None,
                }
            }),
    };
    product(number, scale).ok_or_else(|| {
        format!("{text:?} is no size: expected a whole number of bytes, or one with K, M, G or T")
    })
}

/// A count: `1000`, `20M` (20 million).
///
/// # Errors
/// The text is no count; the message says what is expected.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    let scale = match suffix.as_str() {
        "" => Some(1),
        "k" => Some(1_000),
        "m" => Some(1_000_000),
        "g" => Some(1_000_000_000),
        _ => None,
    };
    product(number, scale).ok_or_else(|| {
        format!("{text:?} is no count: expected a whole number, or one with K, M or G")
    })
}

/// A time: `10` or `10s` (seconds), `0.5`, `5m`, `1h`.
///
/// # Errors
/// The text is no time; the message says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let place = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(place);
    let scale = match suffix {
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let seconds = number
        .parse::<f64>()
        .ok()
        .zip(scale)
        .map(|(number, scale)| number * scale);
    seconds
        .filter(|seconds| (0.001..1e9).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is no time: expected seconds, or a number with s, m or h"))
}

/// A time as [`parse_duration`] takes it, in whole seconds, or `0`.
///
/// # Errors
/// The text is no such time; the message says what is expected.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let period = parse_duration(text)?;
    match period.as_secs() {
        0 => Err(format!(
            "{text:?} is too short: expected a second or more, or 0"
        )),
        secs => Ok(Duration::from_secs(secs)),
    }
}

fn split(text: &str) -> (&str, String) {
    let place = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(place);
    (number, suffix.to_ascii_lowercase())
}

fn product(number: &str, scale: Option<u64>) -> Option<u64> {
    number
        .replace('_', "")
        .parse::<u64>()
        .ok()?
        .checked_mul(scale?)
}

/// A number of bytes for people: `1.50 GiB`.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let fits = BINARY.iter().rev().find(|(_, scale)| bytes >= *scale);
    match fits {
        None => format!("{bytes} B"),
        Some((letter, scale)) => {
            let number = bytes as f64 / *scale as f64;
            format!("{number:.2} {}iB", letter.to_ascii_uppercase())
        }
    }
}

/// A moment for people, in UTC: `2026-11-21 17:05:09 UTC`.
#[must_use]
pub fn show_time(ms_since_1970: u64) -> String {
    let seconds = ms_since_1970 / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0: so leap days come last in a year, and in 400 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, in_next_year) = ((month + 2) % 12 + 1, u64::from(month >= 10));
    format!(
        "{:04}-{month:02}-{date:02} {:02}:{:02}:{:02} UTC",
        era * 400 + year + in_next_year,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4_096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1KiB", 1024),
            ("10MB", 10_000_000),
            ("2G", 2 << 30),
            ("3GiB", 3 << 30),
            ("1T", 1 << 40),
            ("1TB", 1_000_000_000_000),
            ("7b", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5G",
            "1Q",
            "1KX",
            "99999999999999T",
            "G1",
            "1 G",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_decimal() {
        assert_eq!(parse_count("20M"), Ok(20_000_000));
        assert_eq!(parse_count("5"), Ok(5));
        assert!(parse_count("5GiB").is_err() && parse_count("many").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["0", "-1", "soon", "1d", "", "inf", "nan", "1e300"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_shown_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(show_time(seconds * 1000), text);
        }
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        assert_eq!(show_bytes(1023), "1023 B");
        assert_eq!(show_bytes(1536), "1.50 KiB");
        assert_eq!(show_bytes(3 << 40), "3.00 TiB");
    }
}
