//! The shepherd alone, for this crate's tests; installed muster calls it through its own binary.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = muster_engine_local::shepherd_main(&arguments) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
