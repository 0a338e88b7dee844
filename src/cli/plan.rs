//! `daytable plan`: prints the steps of the next run of the lifecycle, with reasons. It changes no data.

use super::args::{DataArgs, JsonArgs};
use super::exit::CliError;
use super::folder::{RuleArgs, rules_of};
use super::hint::hint;
use super::locate::{self, Located};
use super::output::{Output, TextTable};
use daytable_lifecycle::{PlanLine, View, forecast};
use daytable_model::time;
use daytable_store::{LifecycleState, Reader};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let located = args.rules.located(&args.data)?;
    let plan = match locate::connect(&located.data_dir, None)? {
        Some(control) if located.named.is_none() => {
            control.post("/-/plan", "")?.all("a line is not a part of a plan")?
        }
        _ => plan_offline(&located)?,
    };
    let mut output = Output::new();
    if args.output.json {
        plan.iter().try_for_each(|line| output.json(line))?;
    } else if plan.is_empty() {
        output.line("nothing to do")?;
    } else {
        output.line(columns(plan))?;
    }
    output.flush()
}

/// Plans while another process may write: a plan only reads.
fn plan_offline(located: &Located) -> Result<Vec<PlanLine>, CliError> {
    let data_dir = &located.data_dir;
    let state = LifecycleState::of(Reader::open(data_dir)?.catalog())?;
    let (rules, limits) = rules_of(located.config().as_ref(), &state);
    if located.is_wrong {
        hint("  this is the plan by the rules of the last daemon");
    }
    let view = View::of(data_dir, state, &rules, limits, time::now());
    Ok(forecast(&view).lines())
}

fn columns(plan: Vec<PlanLine>) -> TextTable<'static, 3> {
    TextTable::new(["step", "table", "why"], &[], plan, |line| [line.step.replace('_', " "), line.table, line.why])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_step_and_its_reason() {
        let (step, table, why) = ("remove_archive".to_owned(), "Log20261121".to_owned(), "it is old".to_owned());
        let shown = PlanLine { step, table, archive: Some("file:///a".into()), why };
        assert_eq!(
            columns(vec![shown]).to_string(),
            "step            table        why\nremove archive  Log20261121  it is old"
        );
    }
}
