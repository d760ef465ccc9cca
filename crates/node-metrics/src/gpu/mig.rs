//! The MIG instances of a GPU, by what the driver's library says of them.

use serde::{Deserialize, Serialize};

/// An instance that can be given to a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigPart {
    /// The driver's id of it, `MIG-…`.
    pub uuid: String,
    /// The first of its memory slots on the GPU.
    pub start: u8,
    /// How many memory slots it takes.
    pub size: u8,
    /// Its compute slices: the number before `g`.
    pub compute: u8,
    /// It has the media extensions (`+me`).
    pub media: bool,
}

/// A MIG device as the library lists it: a compute instance inside a GPU instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigDevice {
    /// The driver's id of it.
    pub uuid: String,
    /// The number of the GPU instance that it is in.
    pub gpu_instance: u32,
    /// Where that instance lies, in memory slots: the first, and how many.
    pub placement: (u32, u32),
    /// The compute slices of that instance.
    pub compute: u32,
    /// It has the media extensions.
    pub media: bool,
}

/// What a driver's library says of one GPU's MIG devices.
pub trait MigLibrary {
    /// How many there may be; `None` where the GPU is not cut into instances.
    fn devices_max(&self) -> Option<u32>;
    /// The device at this place of the list; `None` where there is none.
    fn device(&self, at: u32) -> Option<MigDevice>;
}

/// The instances of a GPU in the order of their places, and remarks on those left out; `None` where
/// it is not cut into any.
///
/// An instance that is cut again, into several compute instances, is left out: they share its
/// memory, and nothing would keep their jobs apart.
pub fn instances(library: &dyn MigLibrary) -> Option<(Vec<MigPart>, Vec<String>)> {
    let most = library.devices_max()?;
    let devices: Vec<MigDevice> = (0..most).filter_map(|at| library.device(at)).collect();
    let (mut parts, mut notes) = (Vec::new(), Vec::new());
    for device in &devices {
        let inside = devices.iter().filter(|d| d.gpu_instance == device.gpu_instance).count();
        let (start, size) = device.placement;
        let slot = (u8::try_from(start), u8::try_from(size), u8::try_from(device.compute));
        match (inside, slot) {
            (1, (Ok(start), Ok(size), Ok(compute))) if size > 0 => {
                let (uuid, media) = (device.uuid.clone(), device.media);
                parts.push(MigPart { uuid, start, size, compute, media });
            }
            (1, _) => notes.push(format!("the place of {} is not known", device.uuid)),
            (count, _) => notes.push(format!(
                "{} is one of {count} compute instances of GPU instance {}, which are not given out",
                device.uuid, device.gpu_instance
            )),
        }
    }
    parts.sort_by_key(|part| (part.start, part.size));
    Some((parts, notes))
}

#[cfg(test)]
mod tests {
    use super::{MigDevice, MigLibrary, MigPart, instances};

    /// A library that says what it is given: places of the list, some of them empty.
    struct Data(Option<Vec<Option<MigDevice>>>);

    impl MigLibrary for Data {
        fn devices_max(&self) -> Option<u32> {
            self.0.as_ref().map(|list| list.len() as u32)
        }

        fn device(&self, at: u32) -> Option<MigDevice> {
            self.0.as_ref()?.get(at as usize)?.clone()
        }
    }

    #[allow(clippy::unnecessary_wraps)] // lists have gaps, which are None
    fn device(uuid: &str, gpu_instance: u32, placement: (u32, u32)) -> Option<MigDevice> {
        let (compute, media) = (placement.1.min(3), false);
        Some(MigDevice { uuid: uuid.to_owned(), gpu_instance, placement, compute, media })
    }

    #[test]
    fn instances_are_listed_by_their_places() {
        let data = Data(Some(vec![
            device("MIG-c", 5, (4, 2)),
            None,
            device("MIG-a", 2, (0, 4)),
            device("MIG-d", 9, (6, 1)),
        ]));
        let (parts, notes) = instances(&data).expect("cut");
        let part = |uuid: &str, start, size, compute| MigPart {
            uuid: uuid.to_owned(),
            start,
            size,
            compute,
            media: false,
        };
        assert_eq!(parts, [part("MIG-a", 0, 4, 3), part("MIG-c", 4, 2, 2), part("MIG-d", 6, 1, 1)]);
        assert!(notes.is_empty());
    }

    #[test]
    fn instances_that_are_cut_again_are_left_out_with_a_remark() {
        let data = Data(Some(vec![
            device("MIG-a", 1, (0, 4)),
            device("MIG-b", 1, (0, 4)),
            device("MIG-c", 2, (4, 0)),
        ]));
        let (parts, notes) = instances(&data).expect("cut");
        assert!(parts.is_empty());
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].contains("one of 2 compute instances of GPU instance 1"), "{notes:?}");
    }

    #[test]
    fn a_gpu_that_is_not_cut_has_none() {
        assert_eq!(instances(&Data(None)), None);
        assert_eq!(instances(&Data(Some(Vec::new()))), Some((Vec::new(), Vec::new())));
    }
}
