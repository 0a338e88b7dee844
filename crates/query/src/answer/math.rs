//! The pipe `math`: numbers of columns are computed, for many rows at once.
//!
//! Whole numbers are computed exactly as long as they, and what they become on the way, have 64 bits. A value
//! that is not such a number is computed from floats alone.

use super::accumulator::{WHOLE_MAX, computed_number};
use daytable_logsql::FieldName;
use daytable_logsql::number::Number;
use daytable_logsql::query::{Arithmetic, ArithmeticOperator, MathFunction};
use daytable_model::time::Ticks;

/// What a row has whose value is not a number.
pub(super) const NOT_A_NUMBER: Number = Number::Float(f64::NAN);

/// An expression, prepared for many rows.
pub(super) struct MathExpression {
    term: Term,
    reads: Vec<FieldName>,
}

/// A part of an expression.
enum Term {
    /// A number, whole if it is, and as a float.
    Constant(Option<i64>, f64),
    /// The numbers of a column, by its place among those that the expression reads.
    Column(usize),
    Negate(Box<Term>),
    Binary(ArithmeticOperator, Box<Term>, Box<Term>),
    Call(MathFunction, Vec<Term>),
}

impl MathExpression {
    /// Prepares an expression.
    pub(super) fn new(expression: &Arithmetic, now: Ticks) -> MathExpression {
        let mut reads = Vec::new();
        let term = Term::new(expression, now, &mut reads);
        MathExpression { term, reads }
    }

    /// The columns that it reads.
    pub(super) fn reads(&self) -> &[FieldName] {
        &self.reads
    }

    /// Its values for some rows, whose numbers in the columns that it reads are given; [`NOT_A_NUMBER`] where
    /// there is none.
    pub(super) fn values(&self, rows: usize, columns: &[&[Number]]) -> Vec<Number> {
        let block = Block { rows, columns };
        let wholes = block.wholes(&self.term).unwrap_or_default();
        if wholes.len() == rows && wholes.iter().all(Option::is_some) {
            return wholes.into_iter().flatten().map(Number::Whole).collect();
        }
        let wholes = wholes.into_iter().chain(std::iter::repeat(None));
        let values = wholes.zip(block.floats(&self.term));
        values.map(|(whole, float)| whole.map_or_else(|| computed_number(float), Number::Whole)).collect()
    }
}

impl Term {
    fn new(expression: &Arithmetic, now: Ticks, reads: &mut Vec<FieldName>) -> Term {
        match expression {
            Arithmetic::Number(text, float) => match Number::parse(text) {
                Some(Number::Whole(whole)) => Term::Constant(Some(whole), *float),
                _ => Term::Constant(None, *float),
            },
            Arithmetic::Field(name) => {
                let known = reads.iter().position(|known| known.written() == name.written());
                Term::Column(known.unwrap_or_else(|| {
                    reads.push(name.clone());
                    reads.len() - 1
                }))
            }
            Arithmetic::Negate(inner) => Term::Negate(Term::new(inner, now, reads).into()),
            Arithmetic::Binary(operator, left, right) => {
                let (left, right) = (Term::new(left, now, reads), Term::new(right, now, reads));
                Term::Binary(*operator, left.into(), right.into())
            }
            Arithmetic::Call(MathFunction::Now, _) => Term::Constant(Some(now.unix_nanos()), now.unix_nanos() as f64),
            Arithmetic::Call(function, arguments) => {
                Term::Call(*function, arguments.iter().map(|argument| Term::new(argument, now, reads)).collect())
            }
        }
    }
}

/// Rows for which an expression is computed.
struct Block<'b> {
    rows: usize,
    columns: &'b [&'b [Number]],
}

impl Block<'_> {
    /// The whole numbers that a term has, where only whole numbers lead to them; `None` if no row has one.
    fn wholes(&self, term: &Term) -> Option<Vec<Option<i64>>> {
        match term {
            Term::Constant(whole, _) => whole.map(|whole| vec![Some(whole); self.rows]),
            Term::Column(column) => {
                let whole = |number: &Number| match number {
                    Number::Whole(whole) => Some(*whole),
                    Number::Float(_) => None,
                };
                Some(self.columns[*column].iter().map(whole).collect())
            }
            Term::Negate(inner) => Some(each(self.wholes(inner)?, |whole| whole?.checked_neg())),
            Term::Binary(ArithmeticOperator::Default, left, right) => {
                let none = || vec![None; self.rows];
                let (mut wholes, others) = (self.wholes(left).unwrap_or_else(none), self.wholes(right));
                let others = others.unwrap_or_else(none).into_iter().zip(self.floats(left));
                for (whole, (other, float)) in wholes.iter_mut().zip(others) {
                    *whole = whole.or(other.filter(|_| float.is_nan()));
                }
                Some(wholes)
            }
            Term::Binary(operator, left, right) => {
                let left = self.wholes(left)?;
                let right = &self.wholes(right)?;
                match operator {
                    ArithmeticOperator::Add => Some(zip(left, right, |a, b| a?.checked_add(b?))),
                    ArithmeticOperator::Subtract => Some(zip(left, right, |a, b| a?.checked_sub(b?))),
                    ArithmeticOperator::Multiply => Some(zip(left, right, |a, b| a?.checked_mul(b?))),
                    ArithmeticOperator::Divide => Some(zip(left, right, |a, b| {
                        let quotient = a?.checked_div(b?)?;
                        (quotient * b? == a?).then_some(quotient)
                    })),
                    ArithmeticOperator::Remainder => Some(zip(left, right, |a, b| a?.checked_rem(b?))),
                    _ => None,
                }
            }
            Term::Call(function, arguments) => {
                let mut values = arguments.iter().map(|argument| self.wholes(argument));
                let first = values.next()??;
                match function {
                    MathFunction::Abs => Some(each(first, |whole| whole?.checked_abs())),
                    MathFunction::Ceil | MathFunction::Floor | MathFunction::Round if arguments.len() == 1 => {
                        Some(first)
                    }
                    MathFunction::Max => {
                        values.try_fold(first, |most, more| Some(zip(most, &more?, |a, b| Some(a?.max(b?)))))
                    }
                    MathFunction::Min => {
                        values.try_fold(first, |least, more| Some(zip(least, &more?, |a, b| Some(a?.min(b?)))))
                    }
                    _ => None,
                }
            }
        }
    }

    /// The values of a term as floats.
    fn floats(&self, term: &Term) -> Vec<f64> {
        match term {
            Term::Constant(_, float) => vec![*float; self.rows],
            Term::Column(column) => self.columns[*column].iter().map(|number| number.as_f64()).collect(),
            Term::Negate(inner) => each(self.floats(inner), |number| -number),
            Term::Binary(operator, left, right) => {
                let (left, right) = (self.floats(left), &self.floats(right));
                match operator {
                    ArithmeticOperator::Default => zip(left, right, |a, b| if a.is_nan() { b } else { a }),
                    ArithmeticOperator::Add => zip(left, right, |a, b| a + b),
                    ArithmeticOperator::Subtract => zip(left, right, |a, b| a - b),
                    ArithmeticOperator::Multiply => zip(left, right, |a, b| a * b),
                    ArithmeticOperator::Divide => zip(left, right, |a, b| a / b),
                    ArithmeticOperator::Remainder => zip(left, right, |a, b| a % b),
                    ArithmeticOperator::Power => zip(left, right, f64::powf),
                    ArithmeticOperator::Or => zip(left, right, |a, b| bits(a, b, |a, b| a | b)),
                    ArithmeticOperator::Xor => zip(left, right, |a, b| bits(a, b, |a, b| a ^ b)),
                    ArithmeticOperator::And => zip(left, right, |a, b| bits(a, b, |a, b| a & b)),
                }
            }
            Term::Call(function, arguments) => {
                let mut values = arguments.iter().map(|argument| self.floats(argument));
                let Some(first) = values.next() else { return vec![f64::NAN; self.rows] };
                match function {
                    MathFunction::Abs => each(first, f64::abs),
                    MathFunction::Exp => each(first, f64::exp),
                    MathFunction::Ln => each(first, f64::ln),
                    MathFunction::Ceil => rounded(first, values.next(), f64::ceil),
                    MathFunction::Floor => rounded(first, values.next(), f64::floor),
                    MathFunction::Round => rounded(first, values.next(), f64::round),
                    // A number and none are the number.
                    MathFunction::Max => values.fold(first, |most, more| zip(most, &more, f64::max)),
                    MathFunction::Min => values.fold(first, |least, more| zip(least, &more, f64::min)),
                    // It is a constant.
                    MathFunction::Now => first,
                }
            }
        }
    }
}

/// Changes each value.
fn each<T: Copy>(mut values: Vec<T>, change: impl Fn(T) -> T) -> Vec<T> {
    values.iter_mut().for_each(|value| *value = change(*value));
    values
}

/// Combines each value with the one of the same row.
fn zip<T: Copy>(mut values: Vec<T>, others: &[T], mut combine: impl FnMut(T, T) -> T) -> Vec<T> {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = combine(*value, *other));
    values
}

/// Rounded numbers; multiples of the steps where there are some. None where the result is not finite.
fn rounded(numbers: Vec<f64>, steps: Option<Vec<f64>>, round: impl Fn(f64) -> f64) -> Vec<f64> {
    let finite = |number: f64| if number.is_finite() { number } else { f64::NAN };
    let Some(steps) = steps else { return each(numbers, |number| finite(round(number))) };
    // Mostly all steps are one.
    let (mut last, mut digits) = (f64::NAN, f64::NAN);
    zip(numbers, &steps, |number, step| {
        let step = step.abs();
        if step == 0.0 {
            // Nothing is a multiple of zero, but zero.
            return f64::NAN;
        }
        if step != last {
            (last, digits) = (step, decimal_scale(step));
        }
        finite(with_scale(round(number / step) * step, digits))
    })
}

/// The bits of two numbers without their fractions; NaN where one of them is not a number.
fn bits(left: f64, right: f64, combine: fn(u64, u64) -> u64) -> f64 {
    // A cast of a negative number to `u64` is zero, so it goes by way of `i64`, as the bits of LogsQL do.
    let whole = |number: f64| if number < 0.0 { number as i64 as u64 } else { number as u64 };
    if left.is_nan() || right.is_nan() { f64::NAN } else { combine(whole(left), whole(right)) as f64 }
}

/// The nearest number with the digits of a step, so that 0.3 is not 0.30000000000000004.
pub(super) fn decimal(number: f64, step: f64) -> f64 {
    with_scale(number, decimal_scale(step))
}

/// By what numbers with the digits of a step are multiplied to be whole.
fn decimal_scale(step: f64) -> f64 {
    10f64.powi((-step.log10().floor()).max(0.0) as i32 + 3)
}

fn with_scale(number: f64, scale: f64) -> f64 {
    let scaled = number * scale;
    // A whole number stays what it is as long as a float holds the product.
    if number as i64 as f64 == number && scaled.abs() <= WHOLE_MAX {
        return number;
    }
    let rounded = scaled.round() / scale;
    if rounded.is_finite() { rounded } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_logsql::{ParsedQuery, Pipe};

    fn expression(text: &str) -> MathExpression {
        let query =
            ParsedQuery::parse(&format!("* | math {text} as x")).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Some(Pipe::Math(columns)) = query.pipes.first() else { panic!("{text}: no math") };
        MathExpression::new(&columns[0].0, Ticks::UNIX_EPOCH)
    }

    /// A number with its type.
    fn shown(number: &Number) -> String {
        format!("{number:?}")
    }

    #[test]
    fn whole_numbers_stay_exact_as_long_as_they_fit() {
        let float = Number::Float;
        for (text, a, value) in [
            ("a + 1", Number::Whole(i64::MAX - 1), Number::Whole(i64::MAX)),
            ("a + 1", Number::Whole(i64::MAX), float(9_223_372_036_854_775_808.0)),
            ("a / 7", Number::Whole(i64::MAX), Number::Whole(i64::MAX / 7)),
            ("a / 2", Number::Whole(7), float(3.5)),
            ("a / 0", Number::Whole(7), float(f64::INFINITY)),
            ("a / -1", Number::Whole(i64::MIN), float(9_223_372_036_854_775_808.0)),
            ("a % 0", Number::Whole(7), NOT_A_NUMBER),
            ("a % 7", Number::Whole(i64::MIN), Number::Whole(i64::MIN % 7)),
            ("-a", Number::Whole(i64::MIN), float(9_223_372_036_854_775_808.0)),
            ("abs(a)", Number::Whole(-3), Number::Whole(3)),
            ("a * 1.5", Number::Whole(2), Number::Whole(3)),
            ("a default 5", NOT_A_NUMBER, Number::Whole(5)),
            ("a default 5", Number::Whole(4), Number::Whole(4)),
            ("a default 5", float(0.5), float(0.5)),
            ("max(a, 2, 1)", Number::Whole(i64::MAX), Number::Whole(i64::MAX)),
            ("max(a, 2)", NOT_A_NUMBER, Number::Whole(2)),
            ("min(a, 2)", float(0.5), float(0.5)),
            ("round(a, 0.1)", float(0.3000001), float(0.3)),
            ("round(a, 10)", Number::Whole(1234), Number::Whole(1230)),
            ("floor(a)", Number::Whole(i64::MAX), Number::Whole(i64::MAX)),
            ("floor(a)", float(-0.5), Number::Whole(-1)),
            ("ceil(a, 0)", Number::Whole(1), NOT_A_NUMBER),
            ("a ^ 2", Number::Whole(3), Number::Whole(9)),
            ("a & 6", Number::Whole(3), Number::Whole(2)),
        ] {
            let found = expression(text).values(1, &[&[a]]);
            assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), [shown(&value)], "{text} of {a:?}");
        }
    }

    /// Each row has the value that it has alone.
    #[test]
    fn rows_do_not_change_each_other() {
        let numbers = [i64::MIN, -7, -1, 0, 1, 2, 10, 1 << 53, (1 << 53) + 1, i64::MAX].map(Number::Whole);
        let floats = [f64::NEG_INFINITY, -0.5, -0.0, 0.1, 1.5, 1e300, f64::INFINITY, f64::NAN].map(Number::Float);
        let all = || numbers.iter().chain(&floats);
        let pairs: Vec<[Number; 2]> = all().flat_map(|a| all().map(|b| [*a, *b])).collect();
        let [left, right]: [Vec<Number>; 2] = [0, 1].map(|at| pairs.iter().map(|pair| pair[at]).collect());
        for text in [
            "a + b",
            "a - b",
            "a * b",
            "a / b",
            "a % b",
            "a ^ b",
            "a & b",
            "a or b",
            "a xor b",
            "a default b",
            "-a * b",
            "(a + b) / 2",
            "max(a, b)",
            "min(a, b, 3)",
            "round(a, b)",
            "floor(a / b)",
            "ceil(a, b) default b",
            "abs(a) - ln(b)",
        ] {
            let expression = expression(text);
            let columns: Vec<&[Number]> =
                expression.reads().iter().map(|name| if name.written() == "a" { &*left } else { &*right }).collect();
            let together = expression.values(pairs.len(), &columns);
            for (row, value) in together.iter().enumerate() {
                let alone: Vec<&[Number]> = columns.iter().map(|column| &column[row..=row]).collect();
                assert_eq!(shown(&expression.values(1, &alone)[0]), shown(value), "{text} of {:?}", pairs[row]);
            }
        }
    }
}
