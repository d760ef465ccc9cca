//! The script as it is handed over: every byte of it, except that sbatch finds nothing to read.

/// How directives begin that sbatch would read.
const WORDS: [&str; 2] = ["#SBATCH", "#SLURM"];

/// The script with the directives of its header in small letters, which sbatch passes over: muster
/// has read them, and what they ask for is on the command line. Read twice, `--array` would make an
/// array of every task, `--dependency` wait for another job's number, and `--mem-per-gpu` contradict
/// `--mem`. To the interpreter the lines are comments either way, and of the same length.
pub(super) fn unread(script: &str) -> String {
    let mut out = String::with_capacity(script.len());
    let mut in_header = true;
    for line in script.split_inclusive('\n') {
        let text = line.trim();
        in_header = in_header && (text.is_empty() || text.starts_with('#'));
        match WORDS.iter().find(|word| in_header && line.starts_with(**word)) {
            Some(word) => {
                out.push_str(&word.to_ascii_lowercase());
                out.push_str(&line[word.len()..]);
            }
            None => out.push_str(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::unread;

    #[test]
    fn only_directives_of_the_header_change_and_no_byte_moves() {
        let script = "#!/bin/bash\n#SBATCH --array=1-9\n\n # SBATCH -x\n#MUSTER --gang=a:2\n\
                      cat > next.sh <<END\n#SBATCH -n4\nEND\n";
        let handed = unread(script);
        assert_eq!(handed, script.replacen("#SBATCH --array", "#sbatch --array", 1));
        assert_eq!(unread("#!/bin/sh\n#SLURM -n2"), "#!/bin/sh\n#slurm -n2");
        assert_eq!(unread(""), "");
    }
}
