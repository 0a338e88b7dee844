//! Runs a program system call by system call, and does to it what a machine may do: kills it before a call, lets a call
//! fail or write too little, cuts the power of its disk. The program may be written in any language and needs no change.
//!
//! * [`tracer`]: a [`Player`] is asked before each system call ([`run`]), with ptrace(2).
//! * [`disk`]: a player that records every change and every sync below a folder, and makes the folder as a power cut may
//!   leave it ([`Disk::after_cut`]).
//! * [`random`]: the dice of both. The same seed gives the same cut.
//!
//! Only for Linux on x86-64: the tracer reads registers.
//!
//! What is not there: it does not decide what a right answer is (compare what the program kept with what it promised), and
//! file systems are not modelled, only what POSIX promises.

pub mod disk;
pub mod random;
pub mod tracer;

pub use disk::Disk;
pub use nix;
pub use random::Random;
pub use tracer::{Call, End, Player, Verdict, run};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
