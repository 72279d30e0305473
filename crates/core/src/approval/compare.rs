//! Comparing JSON values. Numbers compare by value, without rounding: 1 equals 1.0, and 2^53 + 1 does not equal 2^53.
//!
//! An integer beyond 64 bits is a double already when its JSON is parsed; it compares as that double.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values are equal, at every depth.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let in_right = |(key, left)| right.get(key).is_some_and(|right| same(left, right));
            left.len() == right.len() && left.iter().all(in_right)
        }
        _ => left == right,
    }
}

/// Whether both are of one of JSON's six types.
pub(super) fn same_type(left: &Value, right: &Value) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// Which number is larger. JSON has no number without an order, so `None` does not occur.
pub(super) fn order(left: &Number, right: &Number) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => right.as_f64().map(|right| mixed(left, right)),
        (None, Some(right)) => left.as_f64().map(|left| mixed(right, left).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// A 64-bit integer and a double. The integer is not converted: doubles cannot hold all of them.
fn mixed(whole: i128, double: f64) -> Ordering {
    let floor = double.floor();
    // A double beyond 128 bits becomes the largest or smallest value, which is still beyond 64 bits.
    match whole.cmp(&(floor as i128)) {
        Ordering::Equal if double > floor => Ordering::Less,
        order => order,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_compare_by_value_without_rounding() {
        use Ordering::{Equal, Greater, Less};
        let cases = [
            (json!(1), json!(1.0), Equal),
            (json!(0), json!(-0.0), Equal),
            (json!(-1), json!(u64::MAX), Less),
            (json!(0.1), json!(0.1), Equal),
            (json!(50), json!(50.000_000_1), Less),
            (json!(-50), json!(-50.000_000_1), Greater),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), Greater),
            (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0), Equal),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), Greater),
            (json!(u64::MAX), json!(18_446_744_073_709_551_616.0), Less),
            (json!(i64::MIN), json!(-9_223_372_036_854_775_808.0), Equal),
            (json!(i64::MIN), json!(f64::MIN), Greater),
            (json!(u64::MAX), json!(f64::MAX), Less),
            (json!(0), json!(f64::MIN_POSITIVE), Less),
        ];
        for (left, right, expected) in cases {
            let (Value::Number(left), Value::Number(right)) = (&left, &right) else { panic!("{left} {right}") };
            assert_eq!(order(left, right), Some(expected), "{left} {right}");
            assert_eq!(order(right, left), Some(expected.reverse()), "{right} {left}");
        }
    }

    #[test]
    fn values_are_equal_at_every_depth() {
        let cases = [
            (json!({"a": [1, {"b": 2.0}]}), json!({"a": [1.0, {"b": 2}]}), true),
            (json!({"a": 1}), json!({"a": 1, "b": null}), false),
            (json!({"a": 1, "c": null}), json!({"a": 1, "b": null}), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!([1]), json!([1, 1]), false),
            (json!("1"), json!(1), false),
            (json!(null), json!(false), false),
            (json!(null), json!(null), true),
        ];
        for (left, right, expected) in cases {
            assert_eq!((same(&left, &right), same(&right, &left)), (expected, expected), "{left} {right}");
        }
    }

    proptest! {
        #[test]
        fn an_integer_compares_with_a_whole_double_as_two_integers(left in any::<i64>(), right in any::<i64>()) {
            let double = right as f64;
            let number = Number::from_f64(double).unwrap();
            prop_assert_eq!(order(&left.into(), &number), Some(i128::from(left).cmp(&(double as i128))));
        }
    }
}
