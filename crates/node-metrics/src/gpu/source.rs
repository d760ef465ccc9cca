//! Where the state of GPUs comes from: the vendor's library, its tool, the kernel's files, or an
//! exporter that asks already.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::GpuState;
use super::{amd, dcgm, smi_csv, smi_xml};
use crate::commands::{Question, ask, ask_anyway};
use crate::files::{ReadError, Skipped};

/// A library that failed is tried again after so many readings.
const TRY_AGAIN_AFTER: u32 = 12;

/// The longest page of an exporter.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// How long an exporter may keep silent.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// A vendor's library.
pub trait GpuLibrary: Send {
    /// Every GPU; one that does not answer is [`GpuState::lost`].
    ///
    /// # Errors
    /// The library itself does not work any more: it has to be loaded again.
    fn states(&mut self) -> Result<Vec<GpuState>, String>;
}

/// Loads a library.
pub type Load = Box<dyn FnMut() -> Result<Box<dyn GpuLibrary>, String> + Send>;

/// The GPUs of a machine.
pub struct Gpus {
    root: PathBuf,
    exporter: Option<String>,
    load: Load,
    library: Option<Box<dyn GpuLibrary>>,
    wait: u32,
    fields: Option<Vec<&'static str>>,
    /// By address, what each GPU is called: one that is lost has an address only.
    names: BTreeMap<String, (String, Option<u32>)>,
}

impl Gpus {
    /// Those below a root; `exporter` is the `host:port` of a DCGM exporter to read instead.
    pub fn new(root: &Path, exporter: Option<String>, load: Load) -> Self {
        Self {
            root: root.to_owned(),
            exporter,
            load,
            library: None,
            wait: 0,
            fields: None,
            names: BTreeMap::new(),
        }
    }

    /// What they do now.
    ///
    /// # Errors
    /// There are none, or none of the ways works.
    pub fn read(&mut self, skipped: &mut Skipped) -> Result<Vec<GpuState>, ReadError> {
        if let Some(address) = &self.exporter {
            let page = page(address)
                .map_err(|error| ReadError::Failed(address.clone(), error.to_string()))?;
            return Ok(dcgm::parse(&page, skipped));
        }
        let nvidia = match self.by_library() {
            Some(found) => Ok(found),
            None => self.by_tool(skipped),
        };
        let nvidia = nvidia.map(|found| self.named(found));
        match (nvidia, amd::gpus(&self.root)) {
            (Ok(mut nvidia), Ok(amd)) => {
                nvidia.extend(amd);
                Ok(nvidia)
            }
            (Ok(found), Err(_)) | (Err(ReadError::Absent(_)), Ok(found)) => Ok(found),
            (Err(why), _) => Err(why),
        }
    }

    /// The same, where those that are lost have the names that they had before.
    fn named(&mut self, mut found: Vec<GpuState>) -> Vec<GpuState> {
        for gpu in &mut found {
            let Some(pci) = &gpu.pci else { continue };
            if !gpu.uuid.is_empty() {
                self.names.insert(pci.clone(), (gpu.uuid.clone(), gpu.index));
            } else if let Some((uuid, index)) = self.names.get(pci) {
                (gpu.uuid, gpu.index) = (uuid.clone(), *index);
            }
        }
        found
    }

    fn by_library(&mut self) -> Option<Vec<GpuState>> {
        if self.root != Path::new("/") {
            return None;
        }
        if self.library.is_none() {
            if self.wait > 0 {
                self.wait -= 1;
                return None;
            }
            self.library = (self.load)().ok();
        }
        let found = self.library.as_mut().map(|library| library.states());
        if !matches!(found, Some(Ok(_))) {
            self.library = None;
            self.wait = TRY_AGAIN_AFTER;
        }
        found?.ok()
    }

    fn by_tool(&mut self, skipped: &mut Skipped) -> Result<Vec<GpuState>, ReadError> {
        let question =
            |name, arguments| Question { name, program: "nvidia-smi", arguments, input: "" };
        if self.root != Path::new("/") {
            for (name, kind) in [("nvidia-smi.xml", 0), ("nvidia-smi.csv", 1), ("dcgm.txt", 2)] {
                match (ask(&self.root, &question(name, &[])), kind) {
                    (Ok(text), 0) => return smi_xml::parse(&text),
                    (Ok(text), 1) => return smi_csv::parse(&text, skipped),
                    (Ok(text), _) => return Ok(dcgm::parse(&text, skipped)),
                    (Err(_), _) => {}
                }
            }
            return Err(ReadError::Absent("nvidia-smi".to_owned()));
        }
        if self.fields.is_none() {
            let help = ask(&self.root, &question("help", &["--help-query-gpu"]))?;
            self.fields = Some(smi_csv::known_fields(&help));
        }
        let fields = self.fields.as_deref().unwrap_or_default().join(",");
        let query = format!("--query-gpu={fields}");
        let arguments = [&*query, "--format=csv"];
        let answer = ask_anyway(&self.root, &question("nvidia-smi.csv", &arguments));
        if !matches!(&answer, Ok(said) if said.failed.is_none()) {
            self.fields = None;
        }
        let said = answer?;
        let found = smi_csv::parse(&said.text, skipped);
        match said.failed {
            // It fails with one GPU that is lost, and tells of the others all the same.
            Some(why) if !found.as_ref().is_ok_and(|all| all.iter().any(|gpu| gpu.lost)) => {
                Err(ReadError::Failed("nvidia-smi".to_owned(), why))
            }
            _ => found,
        }
    }
}

/// A page of an exporter on this machine or near it. Asked in HTTP/1.0, it comes in one piece.
fn page(address: &str) -> std::io::Result<String> {
    let mut addresses = address.to_socket_addrs()?;
    let first = addresses.next().ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&first, SILENCE_MAX)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(std::io::Error::other("the answer is not 200 OK")),
    }
}

#[cfg(test)]
mod tests {
    use super::{GpuLibrary, Gpus, TRY_AGAIN_AFTER};
    use crate::files::Skipped;
    use crate::gpu::state::GpuState;
    use crate::test_tree::tree;
    use std::io::{Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A library whose driver is loaded anew after its second reading.
    struct Fake(u32);

    impl GpuLibrary for Fake {
        fn states(&mut self) -> Result<Vec<GpuState>, String> {
            self.0 += 1;
            match self.0 {
                1 => Ok(vec![GpuState { uuid: "GPU-a".to_owned(), ..GpuState::default() }]),
                2 => Ok(vec![GpuState {
                    uuid: "GPU-a".to_owned(),
                    lost: true,
                    ..GpuState::default()
                }]),
                _ => Err("uninitialized".to_owned()),
            }
        }
    }

    #[test]
    fn a_library_that_fails_is_loaded_again_but_not_at_once() {
        let loads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&loads);
        let load = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Fake(0)) as Box<dyn GpuLibrary>)
        });
        let mut gpus = Gpus::new("/".as_ref(), None, load);
        let mut lost = Vec::new();
        for _ in 0..3 {
            lost.push(gpus.by_library().map(|found| found[0].lost));
        }
        assert_eq!(lost, [Some(false), Some(true), None]);
        for _ in 0..TRY_AGAIN_AFTER {
            assert_eq!(gpus.by_library(), None);
        }
        assert_eq!(loads.load(Ordering::Relaxed), 1);
        assert!(gpus.by_library().is_some());
        assert_eq!(loads.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn captured_answers_stand_in_for_the_tools() {
        let none = || Gpus::new("/nowhere".as_ref(), None, Box::new(|| Err(String::new())));
        assert!(none().read(&mut Skipped::default()).is_err());
        let root = tree(
            r"
            commands/nvidia-smi.csv: index, uuid, temperature.gpu\n0, GPU-a, 40
            sys/class/drm/card0/device/vendor: 0x1002
            ",
        );
        let mut gpus = Gpus::new(root.path(), None, Box::new(|| Err(String::new())));
        let found = gpus.read(&mut Skipped::default()).expect("gpus");
        assert_eq!((found.len(), found[0].temperature), (2, Some(40.0)));
    }

    #[test]
    fn a_gpu_that_is_lost_keeps_its_name() {
        let root = tree(
            "commands/nvidia-smi.csv: index, uuid, pci.bus_id\\n3, GPU-a, 00000000:C1:00.0\\n",
        );
        let mut gpus = Gpus::new(root.path(), None, Box::new(|| Err(String::new())));
        assert_eq!(gpus.read(&mut Skipped::default()).expect("gpus")[0].uuid, "GPU-a");
        let lost = "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error\n";
        std::fs::write(root.path().join("commands/nvidia-smi.csv"), lost).expect("written");
        let gpu = gpus.read(&mut Skipped::default()).expect("gpus").remove(0);
        assert_eq!((gpu.lost, &*gpu.uuid, gpu.index), (true, "GPU-a", Some(3)));
        assert_eq!((gpu.busy, gpu.memory_used), (None, None));
    }

    #[test]
    fn an_exporter_is_read_instead() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
        let address = listener.local_addr().expect("address").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("client");
            let mut request = [0; 1_024];
            let read = stream.read(&mut request).expect("request");
            assert!(request[..read].starts_with(b"GET /metrics HTTP/1.0"));
            stream
                .write_all(b"HTTP/1.0 200 OK\r\n\r\nDCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-b\"} 41\n")
                .expect("answer");
        });
        let mut gpus = Gpus::new("/".as_ref(), Some(address), Box::new(|| Err(String::new())));
        let found = gpus.read(&mut Skipped::default()).expect("gpus");
        server.join().expect("server");
        assert_eq!(found[0].temperature, Some(41.0));
        // Nobody listens there any more.
        assert!(gpus.read(&mut Skipped::default()).is_err());
    }
}
