//! The muster command line.

use std::ffi::OsString;

/// Carries out a command; `args` begin with the program's name. Returns the exit code.
pub fn run(args: &[OsString]) -> i32 {
    let word = args.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    eprintln!("muster: there is no command {word:?} [E_COMMAND]");
    2
}
