//! The pipe `math`: numbers of columns are computed.

use super::accumulator::number_value;
use crate::entity::OwnedValue;
use daytable_logsql::Fields;
use daytable_logsql::number::Number;
use daytable_logsql::query::{Arithmetic, ArithmeticOperator, MathFunction};
use daytable_model::time::Ticks;

/// The value of an expression; NaN where a field is not a number. Whole numbers are computed exactly as long as they,
/// and what they become on the way, have 64 bits; all others are floats.
pub(super) fn value_of(expression: &Arithmetic, row: &impl Fields, now: Ticks) -> OwnedValue {
    match whole_value(expression, row, now) {
        Some(number) => OwnedValue::Int64(number),
        None => number_value(evaluate(expression, row, now)),
    }
}

/// The value of an expression of whole numbers; `None` where only a float has it.
fn whole_value(expression: &Arithmetic, row: &impl Fields, now: Ticks) -> Option<i64> {
    let whole = |expression: &Arithmetic| whole_value(expression, row, now);
    let of_number = |number: Number| match number {
        Number::Whole(number) => Some(number),
        Number::Float(_) => None,
    };
    match expression {
        Arithmetic::Number(text, _) => Number::parse(text).and_then(of_number),
        Arithmetic::Field(name) => row.field(name).and_then(Number::of).and_then(of_number),
        Arithmetic::Negate(inner) => whole(inner)?.checked_neg(),
        Arithmetic::Binary(ArithmeticOperator::Default, left, right) => match whole(left) {
            None if evaluate(left, row, now).is_nan() => whole(right),
            left => left,
        },
        Arithmetic::Binary(operator, left, right) => {
            let (left, right) = (whole(left)?, whole(right)?);
            match operator {
                ArithmeticOperator::Add => left.checked_add(right),
                ArithmeticOperator::Subtract => left.checked_sub(right),
                ArithmeticOperator::Multiply => left.checked_mul(right),
                ArithmeticOperator::Divide if left.checked_rem(right) == Some(0) => left.checked_div(right),
                ArithmeticOperator::Remainder => left.checked_rem(right),
                _ => None,
            }
        }
        Arithmetic::Call(MathFunction::Now, _) => Some(now.unix_nanos()),
        Arithmetic::Call(function, arguments) => {
            let mut values = arguments.iter().map(whole).collect::<Option<Vec<i64>>>()?.into_iter();
            match function {
                MathFunction::Abs => values.next()?.checked_abs(),
                MathFunction::Ceil | MathFunction::Floor | MathFunction::Round if values.len() == 1 => values.next(),
                MathFunction::Max => values.max(),
                MathFunction::Min => values.min(),
                _ => None,
            }
        }
    }
}

/// The value of an expression as a float.
fn evaluate(expression: &Arithmetic, row: &impl Fields, now: Ticks) -> f64 {
    match expression {
        Arithmetic::Number(_, number) => *number,
        Arithmetic::Field(name) => row.field(name).and_then(Number::of).map_or(f64::NAN, Number::as_f64),
        Arithmetic::Negate(inner) => -evaluate(inner, row, now),
        Arithmetic::Binary(operator, left, right) => {
            let (left, right) = (evaluate(left, row, now), evaluate(right, row, now));
            match operator {
                ArithmeticOperator::Default => {
                    if left.is_nan() {
                        right
                    } else {
                        left
                    }
                }
                ArithmeticOperator::Add => left + right,
                ArithmeticOperator::Subtract => left - right,
                ArithmeticOperator::Multiply => left * right,
                ArithmeticOperator::Divide => left / right,
                ArithmeticOperator::Remainder => left % right,
                ArithmeticOperator::Power => left.powf(right),
                ArithmeticOperator::Or => bits(left, right, |left, right| left | right),
                ArithmeticOperator::Xor => bits(left, right, |left, right| left ^ right),
                ArithmeticOperator::And => bits(left, right, |left, right| left & right),
            }
        }
        Arithmetic::Call(function, arguments) => {
            let mut values = arguments.iter().map(|argument| evaluate(argument, row, now));
            let mut next = || values.next().unwrap_or(f64::NAN);
            // A second argument asks for a multiple of it.
            let is_stepped = arguments.len() > 1;
            let rounded = |round: fn(f64) -> f64, value: f64, step: f64| {
                let rounded = match step.abs() {
                    // Nothing is a multiple of zero, but zero.
                    0.0 => f64::NAN,
                    step if is_stepped => decimal(round(value / step) * step, step),
                    _ => round(value),
                };
                if rounded.is_finite() { rounded } else { f64::NAN }
            };
            match function {
                MathFunction::Abs => next().abs(),
                MathFunction::Exp => next().exp(),
                MathFunction::Ln => next().ln(),
                MathFunction::Ceil => rounded(f64::ceil, next(), next()),
                MathFunction::Floor => rounded(f64::floor, next(), next()),
                MathFunction::Round => rounded(f64::round, next(), next()),
                MathFunction::Max => values.fold(f64::NAN, f64::max),
                MathFunction::Min => values.fold(f64::NAN, f64::min),
                MathFunction::Now => now.unix_nanos() as f64,
            }
        }
    }
}

/// The bits of two numbers without their fractions; NaN where one of them is not a number.
fn bits(left: f64, right: f64, combine: fn(u64, u64) -> u64) -> f64 {
    // A cast of a negative number to `u64` is zero, so it goes by way of `i64`, as the bits of LogsQL do.
    let whole = |number: f64| if number < 0.0 { number as i64 as u64 } else { number as u64 };
    if left.is_nan() || right.is_nan() { f64::NAN } else { combine(whole(left), whole(right)) as f64 }
}

/// The nearest number with the digits of a step, so that 0.3 is not 0.30000000000000004.
pub(super) fn decimal(number: f64, step: f64) -> f64 {
    let digits = 10f64.powi((-step.log10().floor()).max(0.0) as i32 + 3);
    let rounded = (number * digits).round() / digits;
    if rounded.is_finite() { rounded } else { number }
}
