//! `Key=value` lines, as `scontrol -o show` prints them.

use std::collections::BTreeMap;

/// One line: its values by key. Of a key that comes twice the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    values: BTreeMap<String, String>,
}

impl Record {
    /// Reads a line. A value may have blanks: it goes on to the next word that begins with a key
    /// and `=`. Keys are letters, digits and `_ : /`, and begin with a capital letter.
    pub fn of(line: &str) -> Self {
        let mut values: Vec<(String, String)> = Vec::new();
        for word in line.split(' ') {
            match (word.split_once('='), values.last_mut()) {
                (Some((key, value)), _) if is_key(key) => {
                    values.push((key.to_owned(), value.to_owned()));
                }
                (_, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (_, None) => {}
            }
        }
        let mut record = Self::default();
        for (key, value) in values {
            record.values.entry(key).or_insert_with(|| value.trim_end().to_owned());
        }
        record
    }

    /// The records of a text. Lines that begin with no key are no records ("No reservations in the
    /// system").
    pub fn all(text: &str) -> impl Iterator<Item = Self> {
        text.lines().map(Self::of).filter(|record| !record.values.is_empty())
    }

    /// A value; `None` where it is not there or stands for nothing.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?.as_str();
        (!["", "(null)", "N/A", "n/a", "NONE", "None"].contains(&value)).then_some(value)
    }

    /// A value that has to be there.
    ///
    /// # Errors
    /// A sentence with the key.
    pub fn need(&self, key: &str) -> Result<&str, String> {
        self.get(key).ok_or_else(|| format!("a record without {key}"))
    }

    /// A whole number, `None` where it is not there or without a bound.
    ///
    /// # Errors
    /// A sentence with the key and what stands there.
    pub fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>, String> {
        match self.get(key) {
            None | Some("UNLIMITED" | "INFINITE") => Ok(None),
            Some(text) => {
                text.parse().map(Some).map_err(|_| format!("{key}={text} is no whole number"))
            }
        }
    }

    /// The words of a list parted by commas; none of `ALL`.
    pub fn words(&self, key: &str) -> impl Iterator<Item = &str> {
        let list = self.get(key).filter(|list| *list != "ALL").unwrap_or_default();
        list.split(',').filter(|word| !word.is_empty())
    }

    /// True for `YES`.
    pub fn is_yes(&self, key: &str) -> bool {
        self.get(key) == Some("YES")
    }
}

fn is_key(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_:/".contains(c);
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_value_goes_on_to_the_next_key() {
        let line = "NodeName=n1 OS=Linux 6.1 #1 SMP a=b Gres=(null) CPUs/Task=2 Reason=bad disk ";
        let record = Record::of(line);
        assert_eq!(record.get("OS"), Some("Linux 6.1 #1 SMP a=b"));
        assert_eq!(record.get("Gres"), None);
        assert_eq!(record.number("CPUs/Task"), Ok(Some(2u32)));
        assert_eq!(record.get("Reason"), Some("bad disk"));
        assert!(record.number::<u32>("OS").is_err());
    }

    #[test]
    fn a_sentence_is_no_record() {
        assert_eq!(Record::all("No reservations in the system\n").count(), 0);
    }
}
