//! Kubernetes quantities ("1.5Gi", "500m", "1e9") in integers only. What is not a quantity is `None`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Billionths per unit: the finest suffix is `n`.
const NANO: u128 = 1_000_000_000;

/// Billionths, rounded up. Negative quantities and those that leave the range are `None`: nothing in a spec may be negative.
pub fn nano(quantity: &Quantity) -> Option<u128> {
    let text = quantity.0.strip_prefix('+').unwrap_or(&quantity.0);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (up, down) = scale(suffix)?;
    Some(digits.checked_mul(up)?.div_ceil(divisor.checked_mul(down)?))
}

/// What a suffix multiplies with, in billionths, and what it divides by.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let up = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => NANO,
        "k" => NANO * 1_000,
        "M" => NANO * 1_000_000,
        "G" => NANO * 1_000_000_000,
        "T" => NANO * 1_000_000_000_000,
        "P" => NANO * 1_000_000_000_000_000,
        "E" => NANO * 1_000_000_000_000_000_000,
        "Ki" => NANO << 10,
        "Mi" => NANO << 20,
        "Gi" => NANO << 30,
        "Ti" => NANO << 40,
        "Pi" => NANO << 50,
        "Ei" => NANO << 60,
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10u128.checked_pow(exponent.unsigned_abs())?;
            return if exponent < 0 { Some((NANO, power)) } else { Some((NANO.checked_mul(power)?, 1)) };
        }
    };
    Some((up, 1))
}

/// Whole units (bytes, say), rounded up.
pub fn units(quantity: &Quantity) -> Option<u64> {
    u64::try_from(nano(quantity)?.div_ceil(NANO)).ok()
}

/// Bytes as people write them: the largest binary suffix that leaves a whole number.
pub fn from_bytes(bytes: u64) -> Quantity {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut value, mut at) = (bytes, 0);
    while value != 0 && value % 1024 == 0 && at + 1 < suffixes.len() {
        value /= 1024;
        at += 1;
    }
    Quantity(format!("{value}{}", suffixes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubernetes_reads() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("+5", Some(5)),
            ("64Mi", Some(64 << 20)),
            ("1.5Gi", Some(1536 << 20)),
            (".5Gi", Some(512 << 20)),
            ("5.", Some(5)),
            ("1G", Some(1_000_000_000)),
            ("1e3", Some(1000)),
            ("1E3", Some(1000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("1500e-3", Some(2)),
            ("100m", Some(1)),
            ("1n", Some(1)),
            ("8Ei", Some(8 << 60)),
            ("16Ei", None),
            ("", None),
            (".", None),
            ("-1", None),
            ("1.2.3", None),
            ("1gb", None),
            ("1 Gi", None),
            ("Gi", None),
            ("e3", None),
            ("1e", None),
            ("1e999999999999", None),
            ("1e2147483647", None),
            ("999999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(units(&Quantity(text.into())), bytes, "{text:?}");
        }
    }

    #[test]
    fn compares_what_is_finer_than_a_unit() {
        assert_eq!(nano(&Quantity("500m".into())), nano(&Quantity("0.5".into())));
        assert!(nano(&Quantity("499m".into())) < nano(&Quantity("0.5".into())));
    }

    #[test]
    fn writes_bytes_with_the_largest_suffix() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1024, "1Ki"), (1536 << 20, "1536Mi"), (2 << 30, "2Gi"), (1 << 60, "1Ei")]
        {
            assert_eq!(from_bytes(bytes).0, text);
            assert_eq!(units(&from_bytes(bytes)), Some(bytes));
        }
    }
}
