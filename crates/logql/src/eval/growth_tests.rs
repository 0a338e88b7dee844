//! Nothing that a query makes grows without a bound: each stage, each function over labels, and random programs of them.

use super::*;
use crate::ast::{LogqlQuery, PipelineStage};
use crate::source::{Direction, EntrySelection, LogEntry};
use crate::stages::StageGrowth;
use daytable_platform::budget::{MemoryBudget, RECORD_BYTES_MAX};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The same entry this many times.
struct Repeated {
    entry: LogEntry,
    times: usize,
    is_wanted: bool,
}

impl EntrySource for Repeated {
    fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    fn scan(&self, _: &EntrySelection<'_>, _: Direction, each: &mut EachEntry<'_>) -> Result<(), EvalError> {
        for _ in 0..self.times {
            if each(self.entry.clone()) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

fn repeated(line: String, times: usize) -> Repeated {
    let labels = |pairs: &[(&str, &str)]| Labels::new(pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect());
    let stream = Arc::new(labels(&[("app", "shop"), ("pod", "web-1")]));
    let entry = LogEntry { stream, time: 1, line, metadata: labels(&[("trace", "abc")]) };
    Repeated { entry, times, is_wanted: true }
}

const ALL: LogRequest =
    LogRequest { span: TimeSpan { from: 0, to: 10 }, direction: Direction::Backward, limit: 50_000, interval: 0 };

/// What the entries of a query take, and what was charged for them.
fn logs(source: &Repeated, query: &str, bytes_max: usize) -> Result<(usize, usize), EvalError> {
    let LogqlQuery::Log(query) = crate::parse(query)? else { panic!("{query} asks for numbers") };
    let budget = MemoryBudget::unshared(bytes_max).question();
    let evaluator = Evaluator { source, limits: Limits::default(), budget, now: 0 };
    let shown = evaluator.logs(&query, ALL)?;
    Ok((shown.iter().map(ShownEntry::bytes).sum(), evaluator.budget.charged()))
}

/// A number of the stage. A new stage gets the next one, and an example below.
fn number(stage: &PipelineStage) -> usize {
    match stage {
        PipelineStage::Line(_) => 0,
        PipelineStage::Json(_) => 1,
        PipelineStage::Logfmt { .. } => 2,
        PipelineStage::Pattern(_) => 3,
        PipelineStage::Regexp { .. } => 4,
        PipelineStage::Unpack => 5,
        PipelineStage::Decolorize => 6,
        PipelineStage::Labels(_) => 7,
        PipelineStage::LineFormat(_) | PipelineStage::UnreadFormat(_) => 8,
        PipelineStage::LabelFormat(_) => 9,
        PipelineStage::Drop(_) => 10,
        PipelineStage::Keep(_) => 11,
    }
}

#[test]
fn each_stage_makes_no_more_than_it_declares() {
    let long = "v".repeat(500_000);
    let nested = format!("{{\"{long}\":{{{}\"z\":1}}}}", (0..50).map(|n| format!("\"k{n}\":1,")).collect::<String>());
    let object = format!("{{\"_entry\":\"{long}\",\"a\":\"{long}\"}}");
    let paths = (0..20).map(|n| format!("p{n}=\"a\"")).collect::<Vec<_>>().join(", ");
    let groups = (0..20).map(|n| format!("(?P<g{n}>")).collect::<String>() + ".*" + &")".repeat(20);
    let examples = [
        ("!= `nothing`".to_owned(), object.clone()),
        ("| json".into(), nested),
        (format!("| json {paths}"), object.clone()),
        ("| logfmt".into(), format!("a={long} b={long}")),
        (format!("| logfmt {}", (0..20).map(|n| format!("p{n}=\"a\"")).collect::<Vec<_>>().join(", ")), format!("a={long}")),
        ("| pattern `<a>:<b>`".into(), format!("{long}:{long}")),
        (format!("| regexp `{groups}`"), long.clone()),
        ("| unpack".into(), object.clone()),
        ("| decolorize".into(), format!("\u{1b}[31m{long}\u{1b}[0m")),
        ("| app=`shop`".into(), object.clone()),
        ("| line_format `{{ range 100 }}{{ __line__ }}{{ end }}`".into(), object.clone()),
        ("| label_format a=`{{ __line__ }}`, b=`{{ __line__ }}`, c=`{{ __line__ }}`, d=`{{ __line__ }}`, e=`{{ __line__ }}`".into(), object.clone()),
        ("| drop app".into(), object.clone()),
        ("| keep app".into(), object.clone()),
    ];
    let mut seen = BTreeSet::new();
    for (stage, line) in examples {
        let source = repeated(line, 1);
        let query = format!("{{app=~`.+`}} {stage}");
        let Ok(LogqlQuery::Log(parsed)) = crate::parse(&query) else { panic!("{stage:.60} is no stage") };
        let plain = logs(&source, "{app=~`.+`}", 64 << 20).expect("entries").0;
        let growth = parsed.stages[0].growth();
        seen.insert(number(&parsed.stages[0]));
        match (growth, logs(&source, &query, 64 << 20)) {
            (StageGrowth::Nothing, made) => assert!(made.expect("entries").0 <= plain, "{stage:.60}"),
            (_, Ok((bytes, charged))) => {
                assert!(bytes <= plain + RECORD_BYTES_MAX + 4096 && charged >= bytes, "{stage:.60} makes {bytes}");
            }
            (_, Err(EvalError::TooLarge(reason))) => assert!(reason.contains("longer than"), "{reason}"),
            (_, Err(error)) => panic!("{stage:.60}: {error}"),
        }
    }
    assert_eq!(seen, (0..=11).collect(), "each stage has an example");
}

#[test]
fn the_labels_of_an_answer_are_charged() {
    let source = repeated("m".into(), 50_000);
    let query = "{app=~`.+`} | label_format a=`{{ repeat 900000 \"x\" }}`, b=`{{ repeat 900000 \"y\" }}`";
    let refused = logs(&source, query, 32 << 20).expect_err("50,000 entries of 2 MB");
    assert!(matches!(&refused, EvalError::TooLarge(reason) if reason.contains("entries")), "{refused}");
    let (bytes, charged) = logs(&repeated("m".into(), 5), query, 32 << 20).expect("5 entries");
    assert!(charged >= bytes && bytes > 9_000_000);
}

#[test]
fn a_question_that_nobody_waits_for_ends_within_an_entry() {
    let source = Repeated { is_wanted: false, ..repeated("b".repeat(100_000), 1) };
    let query = "{app=~`.+`} | line_format `{{ regexReplaceAll \"b\" __line__ \"c\" }}`";
    assert!(matches!(logs(&source, query, 32 << 20), Err(EvalError::Stopped(_))));
}

#[test]
fn label_replace_and_group_left_are_bounded() {
    let source = repeated("m".into(), 1);
    let mut query = "sum by (pod) (count_over_time({app=~`.+`}[5s]))".to_owned();
    for _ in 0..5 {
        query = format!("label_replace({query}, \"pod\", \"{}\", \"pod\", \"(.*)\")", "$1".repeat(300));
    }
    let LogqlQuery::Metric(metric) = crate::parse(&query).expect("a query") else { panic!("numbers") };
    let budget = MemoryBudget::unshared(64 << 20).question();
    let evaluator = Evaluator { source: &source, limits: Limits::default(), budget, now: 0 };
    let refused = evaluator.metric(&metric, TimeSteps::at(3)).expect_err("a label of 12 TB");
    assert!(matches!(&refused, EvalError::TooLarge(reason) if reason.contains("label_replace")), "{refused}");
}

fn operand() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("__line__".to_owned()),
        Just(".a".to_owned()),
        Just(".app".to_owned()),
        Just("$x".to_owned()),
        Just("\"b\"".to_owned()),
        Just("\".\"".to_owned()),
        Just("\"$0$0\"".to_owned()),
        Just("\"%s%q%x\"".to_owned()),
        Just("\"[1,[2,{}]]\"".to_owned()),
        (-3i64..5000).prop_map(|n| n.to_string()),
        Just("99999999999".to_owned()),
    ];
    let names = crate::template::function_names();
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (proptest::sample::select(names.clone()), proptest::collection::vec(inner, 0..4))
            .prop_map(|(name, arguments)| format!("({name} {})", arguments.join(" ")))
    })
}

fn stage() -> impl Strategy<Value = String> {
    let template = proptest::collection::vec(operand(), 1..4).prop_map(|operands| {
        let shown = operands.iter().map(|operand| format!("{{{{ $x = {operand} }}}}{{{{ $x }}}}"));
        format!("`{{{{ $x := \"x\" }}}}{}`", shown.collect::<String>())
    });
    let template = template.boxed();
    prop_oneof![
        template.clone().prop_map(|template| format!("| line_format {template}")),
        template.clone().prop_map(|template| format!("| label_format a={template}")),
        (template.clone(), template).prop_map(|(a, b)| format!("| label_format a={a}, b={b}")),
        Just("| json".to_owned()),
        Just("| logfmt".to_owned()),
        Just("| unpack".to_owned()),
        Just("| regexp `(?P<a>(?P<b>.*))`".to_owned()),
        Just("| pattern `<a> <b>`".to_owned()),
        Just("| drop a".to_owned()),
        Just("| decolorize".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A random program of stages ends, and what its answer takes was charged and is within the bound.
    #[test]
    fn random_programs_are_bounded(stages in proptest::collection::vec(stage(), 1..6), long in any::<bool>()) {
        let line = if long { format!("{{\"a\":\"{}\"}}", "b c".repeat(1000)) } else { "a=b c".to_owned() };
        let query = format!("{{app=~`.+`}} {}", stages.join(" "));
        prop_assert!(crate::parse(&query).is_ok(), "{}", query);
        let source = repeated(line, 3);
        match logs(&source, &query, 8 << 20) {
            Ok((bytes, charged)) => prop_assert!(bytes <= charged && charged <= 8 << 20),
            Err(EvalError::TooLarge(_)) => {}
            Err(error) => prop_assert!(false, "{query}: {error}"),
        }
    }
}
