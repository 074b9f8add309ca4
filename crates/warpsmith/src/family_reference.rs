//! Runs a family on the virtual GPU to compute the reference of an op whose reference is a family.

use std::path::PathBuf;
use std::sync::OnceLock;

use chips::Chip;
use compiler::Compiler;
use compiler::toolchain;
use declared::{DeclaredInputs, DeclaredOp, DeclaredProblem};
use family::Catalog;
use gpu::accelerator::VirtualDevice;
use op::{Addresses, CheckDevice as _, Kernel, OpInputs as _, OpProblems as _, Refusal};

use crate::cli::Global;

/// The virtual GPU that runs every target.
const CHIP: &str = "h200";

/// Tells an op how to run its families, if its reference is one.
pub fn provide(op: &mut DeclaredOp, global: &Global) {
    let runner =
        FamilyRunner { kernels: global.kernels.clone(), cuda: global.cuda.clone(), loaded: OnceLock::new() };
    op.set_family_reference(move |op, family, problem, inputs| runner.run(op, family, problem, inputs));
}

/// The kernels and the compiler, which are loaded when the first reference is computed.
struct FamilyRunner {
    kernels: Option<PathBuf>,
    cuda: Option<PathBuf>,
    loaded: OnceLock<Result<(Catalog, Compiler), Refusal>>,
}

impl FamilyRunner {
    fn load(&self) -> Result<(Catalog, Compiler), Refusal> {
        let catalog = Catalog::load(self.kernels.as_deref()).map_err(Refusal::new)?;
        let toolchain = toolchain::ensure(self.cuda.as_deref(), &mut |_| ()).map_err(Refusal::missing)?;
        let compiler = crate::commands::lend_compiler::compiler(toolchain).map_err(Refusal::missing)?;
        Ok((catalog, compiler))
    }

    /// The outputs of the family's first preset that supports the problem.
    fn run(
        &self,
        op: &DeclaredOp,
        name: &str,
        problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let loaded = self.loaded.get_or_init(|| self.load());
        let (catalog, compiler) = loaded.as_ref().map_err(Clone::clone)?;
        let family = catalog.family(&format!("{}/{name}", op.name())).map_err(Refusal::new)?;
        let presets =
            family.presets.iter().map(|preset| op.candidate(family, Some(&preset.name), &[], problem));
        let mut refusal = None;
        let found = presets
            .into_iter()
            .find_map(|found| found.map_err(|why| refusal.get_or_insert(why).clone()).ok());
        let candidate = found.ok_or_else(|| {
            refusal.unwrap_or_else(|| Refusal::new(format!("the reference {name} has no presets")))
        })?;
        let chip = Chip::by_name(CHIP).map_err(Refusal::new)?;
        let target = if family.targets.contains(&chip.target) { chip.target } else { family.targets[0] };
        let mut device = VirtualDevice::new(chip);
        device.expect(op.work(problem).flops);
        let failed = |error: op::RunError| Refusal::new(format!("the reference {name} failed: {error}"));
        let kernel = Kernel::build(&mut device, compiler, family, candidate, target).map_err(failed)?;
        let arrangement = op.arrange(family, problem, inputs);
        let parameters = |addresses: &Addresses| op.parameters(family, problem, inputs, addresses);
        let observed =
            kernel.observe(&mut device, &op.sizes(problem), &arrangement, &parameters).map_err(failed)?;
        if let Some(finding) = observed
            .reports
            .iter()
            .flat_map(|report| &report.findings)
            .find(|it| it.severity != vgpu::Severity::Note)
        {
            return Err(Refusal::new(format!("the reference {name} is not clean: {}", finding.message)));
        }
        Ok(observed.outputs)
    }
}
