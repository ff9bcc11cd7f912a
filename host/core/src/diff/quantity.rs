//! Kubernetes quantities (`1Gi`, `500m`, `0.5`, `1e3`) as exact numbers.

/// Thousand-millionths: the smallest unit that quantities have.
const NANO: i128 = 1_000_000_000;
/// Digits after the point that [`NANO`] holds.
const NANO_DIGITS: usize = 9;

/// A quantity in thousand-millionths; `None` if the text is none, is finer than that, or is beyond 64 bits of whole units.
pub fn nano(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (digits, suffix) = unsigned.split_at(end);
    let scale = scale(suffix)?;
    let value = apply(decimal(digits)?, scale)?;
    let bound = i128::from(i64::MAX) * NANO;
    (value <= bound).then_some(if negative { -value } else { value })
}

/// A quantity in whole units, rounded up; `None` if it is none, or negative.
pub fn units(text: &str) -> Option<u64> {
    u64::try_from(nano(text)?.checked_add(NANO - 1)?.div_euclid(NANO)).ok()
}

/// What a suffix multiplies by.
enum Scale {
    Times(i128),
    TimesTenTo(i32),
}

fn scale(suffix: &str) -> Option<Scale> {
    let binary = |power: u32| Some(Scale::Times(1 << (10 * power)));
    let decimal = |power: i32| Some(Scale::TimesTenTo(power));
    match suffix {
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        exponent => decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

/// Digits with at most one point, in thousand-millionths.
fn decimal(digits: &str) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if (whole.is_empty() && digits.len() <= 1) || fraction.contains('.') || fraction.len() > NANO_DIGITS {
        return None;
    }
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let fraction = number(&format!("{fraction:0<NANO_DIGITS$}"))?;
    number(whole)?.checked_mul(NANO)?.checked_add(fraction)
}

fn apply(value: i128, scale: Scale) -> Option<i128> {
    match scale {
        Scale::Times(factor) => value.checked_mul(factor),
        Scale::TimesTenTo(power) if power >= 0 => value.checked_mul(10_i128.checked_pow(power.unsigned_abs())?),
        Scale::TimesTenTo(power) => {
            let divisor = 10_i128.checked_pow(power.unsigned_abs())?;
            (value % divisor == 0).then_some(value / divisor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_quantity() {
        for (one, other) in [
            ("1Gi", "1073741824"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.50", "1500m"),
            ("1e3", "1k"),
            ("1E3", "1000"),
            ("12e-1", "1200m"),
            ("1E", "1000P"),
            ("1024Ki", "1Mi"),
            ("0.5Gi", "512Mi"),
            ("1000000n", "1m"),
            ("+1", "1"),
            ("-0", "0"),
        ] {
            assert!(nano(one).is_some(), "{one}");
            assert_eq!(nano(one), nano(other), "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_quantity() {
        for text in ["", ".", "-", "x", "1x", "1 Gi", "1.2.3", "Gi", "e3", "1e", "1ee3", "0.1n", "1e99", "9Ei0", "99999E", "１"]
        {
            assert_eq!(nano(text), None, "{text}");
        }
    }

    #[test]
    fn whole_units_are_rounded_up() {
        for (text, expected) in
            [("1Ki", Some(1024)), ("1m", Some(1)), ("1001m", Some(2)), ("0", Some(0)), ("-1", None), ("x", None)]
        {
            assert_eq!(units(text), expected, "{text}");
        }
    }
}
