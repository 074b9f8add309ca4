//! Hopper: tensor copies must leave the same bytes, products of warpgroups must each be within the documented bound. The
//! kernels, the random cases and their answers are those of the virtual GPU's own tests.

#[path = "../../../vgpu/tests/it/hopper/copy_case.rs"]
mod copy_case;
#[path = "../../../vgpu/tests/it/hopper/kernels.rs"]
mod kernels;
#[path = "../../../vgpu/tests/it/hopper/product_case.rs"]
mod product_case;

use std::collections::HashMap;

use ::random::Random;
use warpsmith_gpu::accelerator::{Accelerator, AcceleratorError, Geometry, Image, ModuleId};

use crate::case::Verdict;
use copy_case::{random_bytes, random_case};
use product_case::{Product, TYPES, random_product};

/// Copies each way, and products of each type.
const COPIES: usize = 500;
const PRODUCTS: usize = 200;

pub enum Group {
    Loads,
    Stores,
    /// Of a row of `TYPES`.
    Products(usize),
}

pub fn groups() -> Vec<(String, Group)> {
    let mut groups = vec![
        ("cp.async.bulk.tensor load".to_owned(), Group::Loads),
        ("cp.async.bulk.tensor store".to_owned(), Group::Stores),
    ];
    for (row, (a, b, d)) in TYPES.iter().enumerate() {
        groups.push((format!("wgmma {d:?} {a:?} {b:?}").to_lowercase(), Group::Products(row)));
    }
    groups
}

/// A device and the modules it has loaded, by their text.
struct Bench<'a> {
    device: &'a mut dyn Accelerator,
    modules: HashMap<String, ModuleId>,
    /// Where their texts are written.
    folder: Option<&'a std::path::Path>,
    name: &'a str,
}

impl Bench<'_> {
    /// Runs `k` of a text with buffers made of these bytes; returns what is then in buffer `result`. `parameters` get the
    /// addresses of the buffers.
    fn run(
        &mut self,
        text: &str,
        block: u32,
        shared_bytes: u32,
        buffers: &[&[u8]],
        result: usize,
        parameters: impl FnOnce(&mut dyn Accelerator, &[u64]) -> Result<Vec<Vec<u8>>, AcceleratorError>,
    ) -> Result<Vec<u8>, AcceleratorError> {
        let module = match self.modules.get(text) {
            Some(module) => *module,
            None => {
                let module = self.device.load(Image::Ptx(text))?;
                if let Some(folder) = self.folder {
                    let file = format!("{}-{}.ptx", self.name.replace([' ', '/'], "_"), self.modules.len());
                    std::fs::write(folder.join(file), text).unwrap();
                }
                self.modules.insert(text.to_owned(), module);
                module
            }
        };
        let mut placed = Vec::new();
        for bytes in buffers {
            let buffer = self.device.allocate("buffer", bytes.len() as u64)?;
            self.device.write(buffer, bytes)?;
            placed.push(buffer);
        }
        let addresses: Vec<u64> = placed.iter().map(|buffer| buffer.address).collect();
        let parameters = parameters(self.device, &addresses)?;
        let geometry = Geometry { grid: [1; 3], block: [block, 1, 1], cluster: [1; 3], shared_bytes };
        let launched = self.device.launch(module, "k", geometry, &parameters)?;
        if let Some(report) = launched.report
            && !report.stats.completed
        {
            let reason = report.findings.first().map_or("it did not end".to_owned(), |f| f.message.clone());
            return Err(AcceleratorError::Launch { kernel: "k".to_owned(), reason });
        }
        let bytes = self.device.read(placed[result])?;
        for buffer in placed {
            self.device.free(buffer)?;
        }
        Ok(bytes)
    }
}

/// One group on both devices: the virtual GPU against the answer, and against the other. The first `skipped` cases
/// are drawn but not run.
pub fn judge(
    name: &str,
    group: &Group,
    skipped: usize,
    folder: Option<&std::path::Path>,
    ours: &mut dyn Accelerator,
    theirs: Option<&mut dyn Accelerator>,
) -> Result<(Verdict, Option<Verdict>), String> {
    let mut ours = Bench { device: ours, modules: HashMap::new(), folder, name };
    let mut theirs = theirs.map(|device| Bench { device, modules: HashMap::new(), folder: None, name });
    let (mut model, mut hardware) = (Verdict::default(), Verdict::default());
    let mut random = Random::new(21);
    let count = if matches!(group, Group::Products(_)) { PRODUCTS } else { COPIES };
    for number in 0..count {
        let verdicts = (number >= skipped).then_some((&mut model, &mut hardware));
        let done = match group {
            Group::Products(row) => product(*row, &mut random, &mut ours, theirs.as_mut(), verdicts),
            _ => copy(matches!(group, Group::Loads), &mut random, &mut ours, theirs.as_mut(), verdicts),
        };
        done.map_err(|error| format!("case {number}: {error}"))?;
    }
    Ok((model, theirs.map(|_| hardware)))
}

fn equal(verdict: &mut Verdict, ours: &[u8], other: &[u8], what: &dyn std::fmt::Debug) {
    verdict.compared += 1;
    match ours.iter().zip(other).position(|(a, b)| a != b) {
        None => verdict.equal += 1,
        Some(at) => verdict
            .wrong(|| format!("byte {at}: virtual {:02x}, other {:02x}; {what:?}", ours[at], other[at])),
    }
}

fn copy(
    load: bool,
    random: &mut Random,
    ours: &mut Bench<'_>,
    theirs: Option<&mut Bench<'_>>,
    verdicts: Option<(&mut Verdict, &mut Verdict)>,
) -> Result<(), String> {
    let mut case = random_case(random, load);
    if !load {
        case.map.fill = vgpu::tensor_map::Fill::Zero;
    }
    let tensor = random_bytes(random, case.bytes);
    let shared = random_bytes(random, case.shared as usize);
    let rank = case.map.rank();
    let text = if load { kernels::tensor_load(rank) } else { kernels::tensor_store(rank) };
    let wanted = if load { case.loaded(&tensor) } else { case.stored(&shared, &tensor) };
    let run = |bench: &mut Bench<'_>| {
        let result = usize::from(load);
        bench.run(&text, 32, case.shared, &[&tensor, &shared], result, |device, at| {
            let map = vgpu::TensorMap { address: at[0], ..case.map.clone() };
            Ok(case.parameters(&device.encode_tensor_map(&map)?, at[1]))
        })
    };
    let Some((model, hardware)) = verdicts else { return Ok(()) };
    let failed =
        |error: AcceleratorError| format!("{error}; {:?} at {:?}, offset {}", case.map, case.at, case.offset);
    let got = run(ours).map_err(failed)?;
    equal(model, &got, &wanted, &(&case.map, &case.at));
    if let Some(theirs) = theirs {
        equal(hardware, &got, &run(theirs).map_err(failed)?, &(&case.map, &case.at));
    }
    Ok(())
}

fn product(
    row: usize,
    random: &mut Random,
    ours: &mut Bench<'_>,
    theirs: Option<&mut Bench<'_>>,
    verdicts: Option<(&mut Verdict, &mut Verdict)>,
) -> Result<(), String> {
    let types = TYPES[row];
    let step = random.integer(1, 33) as usize;
    let n = if types.0.is_integer() { [8, 16, 24, 32, 48, 64, 128, 256][step % 8] } else { 8 * step };
    let (product, image, descriptors) = random_product(random, types, n);
    let (a, c) = (product.a_fragment(), product.c_fragment());
    let run = |bench: &mut Bench<'_>| {
        let buffers: [&[u8]; 4] = [&image, &a, &c, &c];
        bench.run(&product.text(), 128, image.len() as u32, &buffers, 3, |_, at| {
            let words = at.iter().copied().chain(descriptors).map(|word| word.to_le_bytes().to_vec());
            let scalars =
                [u32::from(product.scale), image.len() as u32].map(|word| word.to_le_bytes().to_vec());
            Ok(words.chain(scalars).collect())
        })
    };
    let within = |verdict: &mut Verdict, product: &Product, bytes: &[u8], ours: bool| {
        let error = product.error(bytes);
        let worst = if ours { &mut verdict.our_error } else { &mut verdict.their_error };
        *worst = Some(worst.unwrap_or(0.0).max(error));
        if error > 1.0 {
            let who = if ours { "virtual" } else { "cuda" };
            verdict.wrong(|| format!("{who}: {error:.3} of the bound: {}", product.describe()));
        }
    };
    let Some((model, hardware)) = verdicts else { return Ok(()) };
    let failed = |error| format!("{error}; {}", product.describe());
    let got = run(ours).map_err(failed)?;
    model.compared += 1;
    model.equal += 1;
    within(model, &product, &got, true);
    if let Some(theirs) = theirs {
        let other = run(theirs).map_err(failed)?;
        let same = got.chunks_exact(4).zip(other.chunks_exact(4)).filter(|(a, b)| a == b).count();
        hardware.compared += got.len() as u64 / 4;
        hardware.equal += same as u64;
        within(hardware, &product, &got, true);
        within(hardware, &product, &other, false);
    }
    Ok(())
}
