//! `srun --multi-prog`: a file that says which tasks run which program (srun manual).

/// Longest configuration file, in bytes.
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;

/// The command line of each task.
///
/// # Errors
/// A message as srun says it, without `srun: error: `.
pub(crate) fn read(text: &str, file: &str, tasks: u32) -> Result<Vec<Vec<String>>, String> {
    let mut programs: Vec<Option<Vec<String>>> = vec![None; tasks as usize];
    for (at, line) in logical_lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("Configuration file {file} invalid, line {at}: {why}");
        let (ranks, command) =
            line.split_once([' ', '\t']).ok_or_else(|| wrong("a program is missing"))?;
        let words = words(command).ok_or_else(|| wrong("a quote is not closed"))?;
        for (offset, rank) in
            ranks_of(ranks, tasks).map_err(|why| wrong(&why))?.into_iter().enumerate()
        {
            let Some(slot) = programs.get_mut(rank as usize) else { continue };
            let fill = |word: &String| {
                word.replace("%t", &rank.to_string()).replace("%o", &offset.to_string())
            };
            *slot = Some(words.iter().map(fill).collect());
        }
    }
    programs
        .into_iter()
        .enumerate()
        .map(|(rank, program)| {
            program.ok_or_else(|| {
                format!("Configuration file {file} invalid, no record for task id {rank}")
            })
        })
        .collect()
}

/// Lines with their numbers; a backslash at the end joins the next one.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let (body, joins) = match line.strip_suffix('\\') {
            Some(body) => (body, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if open => last.push_str(body),
            _ => lines.push((index + 1, body.to_owned())),
        }
        open = joins;
    }
    lines
}

/// `*`, `0`, `1-3,5`: the task numbers, in order; those past the last task are left out.
fn ranks_of(text: &str, tasks: u32) -> Result<Vec<u32>, String> {
    if text == "*" {
        return Ok((0..tasks).collect());
    }
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (low.parse::<u32>(), high.parse::<u32>()) {
            (Ok(low), Ok(high)) if low <= high => {
                ranks.extend(low..high.saturating_add(1).min(tasks));
            }
            _ => return Err(format!("\"{text}\" is not a list of task numbers")),
        }
    }
    Ok(ranks)
}

/// Words with quotes and backslashes as a shell reads them, nothing expanded.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => {
                if inside {
                    words.push(std::mem::take(&mut word));
                    inside = false;
                }
                continue;
            }
            '\'' | '"' => loop {
                match letters.next()? {
                    end if end == letter => break,
                    '\\' if letter == '"' => word.push(letters.next()?),
                    other => word.push(other),
                }
            },
            '\\' => word.push(letters.next()?),
            other => word.push(other),
        }
        inside = true;
    }
    if inside {
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn ranks_offsets_and_quotes() {
        let text = "# who does what\n0 echo zero %t %o\n1-2 echo 'one two' \\\n%t %o\n";
        let programs = read(text, "mp.conf", 3).expect("read");
        assert_eq!(programs[0], ["echo", "zero", "0", "0"]);
        assert_eq!(programs[1], ["echo", "one two", "1", "0"]);
        assert_eq!(programs[2], ["echo", "one two", "2", "1"]);
        assert_eq!(read("* hostname\n", "x", 2).expect("read").len(), 2);
    }

    #[test]
    fn a_task_without_a_program_is_an_error() {
        assert_eq!(
            read("0 echo zero\n", "mp2.conf", 3).expect_err("refused"),
            "Configuration file mp2.conf invalid, no record for task id 1"
        );
        assert!(read("0-x echo\n", "f", 1).is_err());
        assert!(read("0 echo 'open\n", "f", 1).is_err());
        assert!(read("0-4294967295 true\n", "f", 1).is_ok());
    }
}
