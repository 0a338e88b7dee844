//! `daytable completions`: prints the completions of a shell, from the same source as `--help`.
//!
//! Behind the script of commands and options stands a part that asks [`complete`](super::complete) for the tables, instances,
//! levels, sources and fields of the data folder. Logged names are never evaluated by the shell.

use super::exit::CliError;
use clap_complete::Shell;
use std::io::Write;

/// `compgen -W` would expand `$(…)` in a name, so names are compared one by one.
const BASH: &str = r#"
_daytable_dynamic() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kind='' suffix='' value at
    local -a data=()
    case ${COMP_WORDS[1]} in
        query|count|tail|export)
            case $before in
                --instance) kind=instances ;;
                --source) kind=sources ;;
                --table) kind=tables ;;
                --level) kind=levels ;;
                -*) ;;
                *) if [[ $current != -* ]]; then kind=fields suffix=:; fi ;;
            esac ;;
        archive|drop) if [[ $before != -* && $current != -* ]]; then kind=tables; fi ;;
    esac
    if [[ -z $kind ]]; then
        _daytable "$@"
        return
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} == --data ]]; then data=(--data "${COMP_WORDS[at+1]}"); fi
    done
    COMPREPLY=()
    while IFS= read -r value; do
        if [[ $value == "$current"* ]]; then COMPREPLY+=("$(printf %q "$value")$suffix"); fi
    done < <(daytable complete "$kind" "${data[@]}" 2>/dev/null)
    if [[ -n $suffix ]]; then compopt -o nospace 2>/dev/null; fi
    return 0
}
complete -F _daytable_dynamic -o bashdefault -o default daytable
"#;

const ZSH: &str = r#"
_daytable_dynamic() {
    local kind
    local -a found data
    case ${words[2]} in
        query|count|tail|export)
            case ${words[CURRENT-1]} in
                --instance) kind=instances ;;
                --source) kind=sources ;;
                --table) kind=tables ;;
                --level) kind=levels ;;
                -*) ;;
                *) [[ ${words[CURRENT]} != -* ]] && kind=fields ;;
            esac ;;
        archive|drop) [[ ${words[CURRENT-1]} != -* && ${words[CURRENT]} != -* ]] && kind=tables ;;
    esac
    if [[ -z $kind ]]; then
        _daytable "$@"
        return
    fi
    (( ${words[(I)--data]} )) && data=(--data "${words[${words[(I)--data]}+1]}")
    found=("${(@f)$(daytable complete $kind $data 2>/dev/null)}")
    if [[ $kind == fields ]]; then compadd -S : -a found; else compadd -a found; fi
}
compdef _daytable_dynamic daytable
"#;

const FISH: &str = r#"
for option in instance:instances source:sources table:tables level:levels
    set --local parts (string split : $option)
    complete -c daytable -n "__fish_seen_subcommand_from query count tail export" -l $parts[1] -x \
        -a "(daytable complete $parts[2] 2>/dev/null)"
end
complete -c daytable -n "__fish_seen_subcommand_from query count tail export" -f -a "(daytable complete fields 2>/dev/null | string replace --regex '\$' ':')"
complete -c daytable -n "__fish_seen_subcommand_from archive drop" -f -a "(daytable complete tables 2>/dev/null)"
"#;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, mut command_line: clap::Command) -> Result<(), CliError> {
    // The generator panics on a write error, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_line, "daytable", &mut script);
    script.extend_from_slice(match args.shell {
        Shell::Bash => BASH.as_bytes(),
        Shell::Zsh => ZSH.as_bytes(),
        Shell::Fish => FISH.as_bytes(),
        _ => b"",
    });
    std::io::stdout().lock().write_all(&script).map_err(CliError::output)
}
