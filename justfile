# One word for each task. `just` alone lists them. `sh tests/setup` installs just itself as target/venv/bin/just.

# List the tasks.
default:
    @just --list --unsorted

# Install what the tests use besides Rust.
setup:
    sh tests/setup

# Check formats and lints, in a minute.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Run everything that a change must pass before it is merged.
test:
    sh tests/run

# Try the properties of all crates on more random inputs than `just test` does. A failure prints its seed.
properties cases="4096":
    PROPTEST_CASES={{cases}} cargo test --workspace --lib --locked

# List the slowest tests of the last run.
slowest count="20":
    tests/slowest {{count}}

# Measure one benchmark: parse, page, seal, end_to_end, edges, asking, azure or fleet. benches/lake, benches/drilldown and benches/events are scripts.
bench name="end_to_end" *args:
    cargo bench --bench {{name}} -- {{args}}

# Measure what README and docs/evidence/measured.md say, and write their tables. Nothing else should run meanwhile.
measured:
    python3 benches/measured.py

# Run the fuzz targets for a number of executions. Needs a nightly toolchain and cargo-fuzz.
fuzz executions="1000000" *targets:
    sh fuzz/run {{executions}} {{targets}}

# Kill, cut and rotate a release build and compare what it kept: sweep, kills, cuts, troubles, rotations …
torture mode="kills" *args:
    cargo build --release --locked
    cargo run --release --locked -p daytable-torture -- {{mode}} --daytable target/release/daytable {{args}}

# Write the reference pages again from the program, and check the documents of the code.
docs:
    cargo run --quiet --locked -- config >config/daytable.toml
    cargo run --quiet --locked -- config --reference >docs/reference/configuration.md
    cargo run --quiet --locked -- man --reference >docs/reference/commands.md
    DAYTABLE_WRITE_DOCS=1 cargo test --quiet --locked --lib the_page_has_the_table
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Say how long a clean build takes, crate by crate (target/cargo-timings), and which crates it compiles.
timings:
    cargo build --release --locked --timings

# Make everything of a release for this machine in dist/: static binary, packages, image, chart, SBOM, checksums.
package:
    sh packaging/release dist

# The same for x86_64 and aarch64. The other one needs `rustup target add` and Debian's cross compiler.
release:
    sh packaging/release dist x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
