//! The few flags of an xtask command, read without a parser crate.

/// Words of a command line, taken one by one; what is left at the end is an error.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    /// Starts with all words.
    pub(crate) fn new(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    /// Takes the switch `name` and says whether it was there.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// Takes `name VALUE` or `name=VALUE`.
    ///
    /// # Errors
    /// The flag stands last, with no value behind it.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, String> {
        let joined = format!("{name}=");
        for at in 0..self.words.len() {
            if let Some(value) = self.words[at].strip_prefix(&joined) {
                let value = value.to_owned();
                self.words.remove(at);
                return Ok(Some(value));
            }
            if self.words[at] == name {
                if at + 1 == self.words.len() {
                    return Err(format!("{name} needs a value"));
                }
                let value = self.words.remove(at + 1);
                self.words.remove(at);
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// A word nobody took.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(format!("unexpected argument {word:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    #[test]
    fn takes_switches_and_values() {
        let words: Vec<String> =
            ["--long", "--only", "tidy", "--json=x"].iter().map(ToString::to_string).collect();
        let mut args = Args::new(&words);
        assert!(args.switch("--long"));
        assert!(!args.switch("--long"));
        assert_eq!(args.value("--only"), Ok(Some("tidy".to_owned())));
        assert_eq!(args.value("--json"), Ok(Some("x".to_owned())));
        assert_eq!(args.finish(), Ok(()));
    }

    #[test]
    fn refuses_what_nobody_took() {
        let mut args = Args::new(&["--only".to_owned()]);
        assert!(args.value("--only").is_err());
        assert!(args.finish().is_err());
    }
}
