//! Each function makes no more than it declares.

use super::*;
use crate::labels::Labels;
use daytable_platform::budget::{TextRefusal, VALUE_BYTES_MAX};

const BIG: usize = 3 << 10;

fn context() -> LineContext<'static> {
    LineContext { line: "the line", time: 0, now: 0, labels: &Labels::default, go_on: &|| true }
}

/// Arguments of each kind, in every order, up to `count` of them.
fn arguments(count: usize) -> Vec<Vec<TemplateValue>> {
    let text = |text: &str| TemplateValue::String(text.into());
    let values = [text(&"b".repeat(BIG)), text("b"), text("&\u{149}"), TemplateValue::Int(1 << 40)];
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<TemplateValue>> = all.clone();
    for _ in 0..count {
        let more = |start: &Vec<TemplateValue>| values.clone().map(|value| [start.as_slice(), &[value]].concat());
        last = last.iter().flat_map(more).collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn no_function_makes_more_than_it_declares_and_all_is_charged() {
    let few = arguments(3);
    let refused = FUNCTIONS.map(|(name, growth)| {
        let mut refused = 0;
        let replace_all = if name == "Replace" { arguments(4) } else { Vec::new() };
        for arguments in few.iter().chain(&replace_all) {
            let made = MadeText::new(&|| true);
            let longest = arguments.iter().map(TemplateValue::bytes).max().unwrap_or(0).max(64);
            let all: usize = arguments.iter().map(|value| value.to_string().len()).sum();
            let before = made.left();
            let value = call(name, arguments.clone(), &context(), &made);
            refused += usize::from(made.refusal().is_some());
            let Ok(value) = value else { continue };
            let bytes = value.bytes();
            assert!(before - made.left() >= bytes, "{name} makes {bytes} bytes that it does not charge");
            let most = match growth {
                Growth::Arguments => longest,
                Growth::Bounded => VALUE_BYTES_MAX,
                Growth::Triple => 3 * all + 64,
                Growth::Document => before - made.left(),
            };
            assert!(bytes <= most, "{name} declares {growth:?} and makes {bytes} bytes of {longest}");
        }
        (name, refused)
    });
    let multiply = ["repeat", "replace", "Replace", "regexReplaceAll", "regexReplaceAllLiteral", "alignLeft", "indent"];
    for (name, refused) in refused {
        if multiply.contains(&name) && name != "alignLeft" {
            assert!(refused > 0, "{name} makes a text of any length");
        }
    }
}

#[test]
fn many_arguments_are_bounded_together() {
    for name in ["print", "println", "html", "js", "urlquery"] {
        let made = MadeText::new(&|| true);
        let value = TemplateValue::String("b".repeat(1 << 20).into());
        let made_of_many = call(name, vec![value; 3000], &context(), &made);
        assert_eq!(
            (made_of_many.is_err(), made.refusal()),
            (true, Some(TextRefusal::TooLong(VALUE_BYTES_MAX))),
            "{name}"
        );
    }
    let made = MadeText::new(&|| true);
    let value = TemplateValue::String("b".repeat(1 << 20).into());
    let arguments = [vec![TemplateValue::String("%s".repeat(2000).into())], vec![value; 2000]].concat();
    assert!(call("printf", arguments, &context(), &made).is_err());
    assert_eq!(made.refusal(), Some(TextRefusal::TooLong(VALUE_BYTES_MAX)));
}

#[test]
fn a_document_is_charged_before_it_is_read() {
    let document = format!("[{}1]", "1,".repeat(200_000));
    let made = MadeText::new(&|| true);
    let read = call("fromJson", vec![TemplateValue::String(document.into())], &context(), &made);
    assert!(read.is_err() && made.refusal().is_some(), "it would take some 32 MB");
    let made = MadeText::new(&|| true);
    let read = call("fromJson", vec![TemplateValue::String(r#"{"a":[1,{"b":null}]}"#.into())], &context(), &made);
    assert_eq!(read.map(|value| value.to_string()).as_deref(), Ok("map[a:[1 map[b:<nil>]]]"));
}

#[test]
fn a_function_that_nobody_waits_for_ends() {
    let go_on = || false;
    let made = MadeText::new(&go_on);
    let text = |text: String| TemplateValue::String(text.into());
    let counted = call("count", vec![text(".*[^A-Z]|[A-Z]".into()), text("A".repeat(1 << 20))], &context(), &made);
    assert!(counted.is_err());
    assert_eq!(made.refusal(), Some(TextRefusal::Stopped));
}
