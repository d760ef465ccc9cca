//! A machine, as `slurmd -C` and `nvidia-smi -L` tell it or as somebody wrote it down.

use std::collections::BTreeMap;
use thiserror::Error;

/// A machine that is to run jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name, as `hostname -s` gives it there.
    pub name: String,
    /// Sockets.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores: u32,
    /// Hardware threads of each core.
    pub threads: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its GPUs, in the order of their devices: those of a model stand together.
    pub gpus: Vec<Gpus>,
}

/// Some GPUs of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// The model as users ask for it: `h100`.
    pub model: String,
    /// How many.
    pub count: u32,
}

/// Why a machine cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: {what}")]
pub struct HostError {
    /// The machine.
    pub name: String,
    /// What of it.
    pub what: String,
}

impl Host {
    /// True for a name that stays one word in every file of Slurm.
    pub fn is_name(name: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && name.len() <= 64 && !name.starts_with('-') && name.chars().all(plain)
    }

    /// What `slurmd -C` and then `nvidia-smi -L` said on the machine; the latter may say nothing.
    ///
    /// # Errors
    /// [`HostError`] with the field that is missing or no number.
    pub fn told(name: &str, said: &str) -> Result<Self, HostError> {
        let wrong = |what: String| HostError { name: name.to_owned(), what };
        let line = said.lines().find(|line| line.starts_with("NodeName="));
        let line = line.ok_or_else(|| wrong("slurmd -C does not say what it has".to_owned()))?;
        let fields: BTreeMap<&str, &str> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let number = |key: &str| -> Result<u64, HostError> {
            let text = fields.get(key).ok_or_else(|| wrong(format!("no {key} in {line}")))?;
            text.parse().map_err(|_| wrong(format!("{key}={text} is no number")))
        };
        let boards = if fields.contains_key("Boards") { number("Boards")? } else { 1 };
        let sockets = match number("SocketsPerBoard") {
            Ok(sockets) => sockets * boards,
            Err(_) => number("Sockets")?,
        };
        let small = |key: &str, number: u64| {
            u32::try_from(number)
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| wrong(format!("{key}={number}")))
        };
        Ok(Self {
            name: name.to_owned(),
            sockets: small("Sockets", sockets)?,
            cores: small("CoresPerSocket", number("CoresPerSocket")?)?,
            threads: small("ThreadsPerCore", number("ThreadsPerCore")?)?,
            memory_mib: number("RealMemory")?,
            gpus: gpus(said.lines().filter_map(model)),
        })
    }

    /// `name:sockets=2,cores=32,threads=2,memory=512000,gpus=8,gpu=h100`: what is not said is one
    /// socket, one core, one thread, no GPU; memory (MiB) has to be.
    ///
    /// # Errors
    /// [`HostError`] with the word that is wrong.
    pub fn written(text: &str) -> Result<Self, HostError> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let wrong = |what: String| HostError { name: name.to_owned(), what };
        let mut host =
            Self { name: name.to_owned(), sockets: 1, cores: 1, threads: 1, ..Self::default() };
        let (mut count, mut gpu) = (0, "gpu".to_owned());
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let (key, value) =
                word.split_once('=').ok_or_else(|| wrong(format!("{word}: no value")))?;
            let number = || value.parse::<u64>().map_err(|_| wrong(format!("{word}: no number")));
            let small = || -> Result<u32, HostError> {
                u32::try_from(number()?).map_err(|_| wrong(format!("{word}: too many")))
            };
            match key {
                "sockets" => host.sockets = small()?.max(1),
                "cores" => host.cores = small()?.max(1),
                "threads" => host.threads = small()?.max(1),
                "memory" => host.memory_mib = number()?,
                "gpus" => count = small()?,
                "gpu" if Self::is_name(value) => value.clone_into(&mut gpu),
                "gpu" => return Err(wrong(format!("{word}: a model is one word"))),
                _ => {
                    let known = "sockets, cores, threads, memory, gpus, gpu";
                    return Err(wrong(format!("{key} is not known; there are {known}")));
                }
            }
        }
        if host.memory_mib == 0 {
            return Err(wrong("memory=MIB is missing".to_owned()));
        }
        host.gpus = (count > 0).then_some(Gpus { model: gpu, count }).into_iter().collect();
        Ok(host)
    }
}

/// `GPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)` is an `h100`: the first word with a number in it, or
/// the last of the name.
fn model(line: &str) -> Option<String> {
    let name = line.strip_prefix("GPU ")?.split_once(": ")?.1;
    let name = name.split(" (UUID").next().unwrap_or(name);
    let words: Vec<&str> = name.split([' ', '-']).filter(|word| !word.is_empty()).collect();
    let numbered = words.iter().find(|word| word.contains(|c: char| c.is_ascii_digit()));
    let word = numbered.or(words.last())?.to_ascii_lowercase();
    Some(word).filter(|word| Host::is_name(word))
}

fn gpus(models: impl Iterator<Item = String>) -> Vec<Gpus> {
    let mut gpus: Vec<Gpus> = Vec::new();
    for model in models {
        match gpus.last_mut() {
            Some(last) if last.model == model => last.count += 1,
            _ => gpus.push(Gpus { model, count: 1 }),
        }
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_what_slurmd_and_nvidia_smi_say() {
        // The form of slurmd(8), -C, and of nvidia-smi(1), -L.
        let said = "NodeName=gpu1 CPUs=128 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 \
                    ThreadsPerCore=2 RealMemory=515000\nUpTime=3-02:11:09\n\
                    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\
                    GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n\
                    GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-3)\n";
        let host = Host::told("gpu1", said).expect("understood");
        assert_eq!((host.sockets, host.cores, host.threads), (2, 32, 2));
        assert_eq!(host.memory_mib, 515_000);
        let one = |model: &str, count| Gpus { model: model.to_owned(), count };
        assert_eq!(host.gpus, [one("h100", 2), one("a100", 1)]);
        let cut = Host::told("gpu1", "NodeName=gpu1 CPUs=4 RealMemory=much");
        assert!(cut.is_err_and(|error| error.name == "gpu1"));
        assert!(Host::told("gpu1", "bash: slurmd: command not found").is_err());
    }

    #[test]
    fn a_machine_can_be_written_down() {
        let host = Host::written("n1:sockets=2,cores=8,memory=64000,gpus=4,gpu=l40").expect("read");
        assert_eq!((host.sockets, host.cores, host.threads, host.memory_mib), (2, 8, 1, 64_000));
        assert_eq!(host.gpus, [Gpus { model: "l40".to_owned(), count: 4 }]);
        for (text, part) in [
            ("n1:memory=lots", "no number"),
            ("n1:core=8,memory=1", "core is not known"),
            ("n1:cores=8", "memory"),
            ("n1:memory=1,gpu=h 100", "one word"),
        ] {
            let error = Host::written(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_name_is_one_word() {
        assert!(Host::is_name("gpu-1.lab"));
        for name in ["", "a b", "a\nb", "-o", "a=b", "a#b"] {
            assert!(!Host::is_name(name), "{name:?}");
        }
    }
}
