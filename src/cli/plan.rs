//! `daytable plan`: what the next run of the lifecycle would do and why. Changes nothing.

use super::args::Data;
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::output::{Columns, Output};
use super::working::{Rules, rules_of};
use daytable_lifecycle::{PlanLine, View, forecast};
use daytable_model::time;
use daytable_store::LifecycleState;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    rules: Rules,
    /// An object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let told = match Control::connect(&args.data.dir)? {
        Some(control) if args.rules.config()?.is_none() => ask_daemon(control)?,
        _ => plan_here(args)?,
    };
    let mut output = Output::new();
    if args.json {
        told.iter().try_for_each(|told| output.json(told))?;
    } else if told.is_empty() {
        output.line("nothing is to be done")?;
    } else {
        output.line(columns(told))?;
    }
    output.flush()
}

fn ask_daemon(control: Control) -> Result<Vec<PlanLine>, CliError> {
    let mut answer = control.post("/-/plan", "")?;
    let mut told = Vec::new();
    while let Some(line) = answer.next_line()? {
        told.push(serde_json::from_str(&line).map_err(|_| ControlError::Protocol("a line is no part of a plan"))?);
    }
    Ok(told)
}

/// Plans beside whoever writes: a plan only reads.
fn plan_here(args: &Args) -> Result<Vec<PlanLine>, CliError> {
    let config = args.rules.config()?;
    let state = LifecycleState::of(args.data.open()?.catalog())?;
    let (rules, limits) = rules_of(config.as_ref(), &state);
    let view = View::of(&args.data.dir, state, &rules, limits, time::now());
    Ok(forecast(&view).told())
}

fn columns(told: Vec<PlanLine>) -> Columns<'static, 3> {
    let rows = told.into_iter().map(|told| [told.step.replace('_', " "), told.table, told.why]);
    Columns { heads: ["step", "table", "why"], right: &[], rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_step_and_its_reason() {
        let (step, table, why) = ("remove_archive".to_owned(), "Log20261121".to_owned(), "it is old".to_owned());
        let told = PlanLine { step, table, archive: Some("file:///a".into()), why };
        assert_eq!(
            columns(vec![told]).to_string(),
            "step            table        why\nremove archive  Log20261121  it is old"
        );
    }
}
