//! Converts PTX text to a [`Module`].

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::facts::{self, Code, Fact};
use super::product_fences::unfenced_products;
use super::source::{SourceMap, SourceReader};
use super::values::{Sketch, by_address};
use super::{
    Diagnostic, FidelityReport, FidelityRow, Function, Kernel, LoadError, Module, ModuleVariable, Param,
    RefusedKernel,
};
use super::{RESERVED_SHARED_BYTES, flow, registers};
use crate::isa::decode::{Callee, Constant, ConstantPool, Decoder, Entity, Fidelity, Meta, Pipe};
use crate::isa::op::{Class, Inst, Op, Slot};
use crate::isa::types::{Space as MemorySpace, Ty};
use crate::mem::window;
use crate::ptx::ast::{self, Init, Space, Statement, Variable};

/// Limits that prevent a hostile file from using too much memory. They are far above what hardware has.
const MAX_LOCAL_BYTES: u64 = 1 << 20;
const MAX_SHARED_BYTES: u64 = 1 << 30;
const MAX_VARIABLE_BYTES: u64 = 1 << 32;
const MAX_FUNCTIONS: usize = 4096;
const MAX_DIAGNOSTICS: usize = 1000;

/// Parses and decodes a module. A kernel that cannot run is refused alone ([`Module::refused`]). If no kernel can run,
/// returns the problems of all.
pub fn load(text: &str) -> Result<Module, LoadError> {
    let ast = crate::ptx::parse(text).map_err(|e| LoadError {
        diagnostics: vec![Diagnostic {
            line: e.pos.line,
            column: e.pos.column,
            message: e.message,
            instruction: None,
            function: None,
            source: Vec::new(),
        }],
    })?;
    let mut loader = Loader::new(&ast);
    loader.variables();
    // Problems of the variables concern all kernels.
    let mut problems = std::mem::take(&mut loader.diagnostics);
    let mut kernels = Vec::new();
    let mut refused = Vec::new();
    for f in &ast.functions {
        if f.entry && f.body.is_some() {
            kernels.extend(loader.kernel(f));
            let found = std::mem::take(&mut loader.diagnostics);
            if !found.is_empty() {
                refused.push(RefusedKernel { name: f.name.to_string(), error: LoadError::new(found) });
            }
        }
    }
    if kernels.is_empty() && refused.is_empty() && problems.is_empty() {
        loader.report(ast::Pos { line: 1, column: 1 }, "module has no kernel (.entry)");
        problems.append(&mut loader.diagnostics);
    }
    if kernels.is_empty() || !problems.is_empty() {
        problems.extend(refused.into_iter().flat_map(|kernel| kernel.error.diagnostics));
        return Err(LoadError::new(problems));
    }
    let mut ignored: Vec<String> = ast.ignored.iter().map(|(w, _)| (*w).to_string()).collect();
    ignored.sort_unstable();
    ignored.dedup();
    Ok(Module {
        id: Module::next_id(),
        target: ast.target.to_string(),
        version: ast.version,
        kernels: kernels.into(),
        refused: refused.into(),
        variables: loader.module_variables.into(),
        sources: Arc::new(loader.sources),
        fidelity: FidelityReport { ignored_directives: ignored, ..loader.fidelity.report },
    })
}

struct Loader<'m, 'a> {
    ast: &'m ast::Module<'a>,
    by_name: HashMap<&'a str, &'m ast::Function<'a>>,
    labels: HashMap<&'a str, String>,
    module_variables: Vec<ModuleVariable>,
    sources: SourceMap,
    fidelity: FidelityCounter,
    diagnostics: Vec<Diagnostic>,
    /// Addresses of the functions with a body, and the functions whose address the module takes.
    function_addresses: HashMap<&'a str, u64>,
    address_taken: Vec<&'a str>,
}

/// Layout of the shared memory of one kernel. It grows as the functions of the kernel are read.
#[derive(Default)]
struct SharedLayout<'a> {
    offsets: HashMap<&'a str, u32>,
    named: Vec<(u32, u32, String)>,
    bytes: u64,
    dynamic_align: u32,
}

impl<'m, 'a> Loader<'m, 'a> {
    fn new(ast: &'m ast::Module<'a>) -> Self {
        let mut by_name: HashMap<&'a str, &'m ast::Function<'a>> = HashMap::new();
        for f in &ast.functions {
            // A definition takes precedence over a declaration of the same name.
            if f.body.is_some() || !by_name.contains_key(f.name) {
                by_name.insert(f.name, f);
            }
        }
        let mut function_addresses = HashMap::new();
        for (n, f) in ast.functions.iter().enumerate() {
            if f.body.is_some() && !f.entry {
                function_addresses.insert(f.name, window::FUNCTION + 0x80 * n as u64);
            }
        }
        let mut address_taken: Vec<&'a str> = Vec::new();
        let mut take = |name: &'a str| {
            if function_addresses.contains_key(name) && !address_taken.contains(&name) {
                address_taken.push(name);
            }
        };
        for init in ast.variables.iter().flat_map(|v| &v.init) {
            if let Init::Address { name, .. } = init {
                take(name);
            }
        }
        for s in ast.functions.iter().flat_map(|f| f.body.iter().flatten()) {
            if let Statement::Instruction(ast::Instruction { opcode: "mov", operands, .. }) = s
                && let Some(ast::Operand::Name { name, .. }) = operands.get(1)
            {
                take(name);
            }
        }
        Loader {
            ast,
            function_addresses,
            address_taken,
            by_name,
            labels: ast.debug_strings.iter().map(|(l, s)| (*l, s.clone())).collect(),
            module_variables: Vec::new(),
            sources: SourceMap::new(ast),
            fidelity: FidelityCounter::default(),
            diagnostics: Vec::new(),
        }
    }

    fn report(&mut self, pos: ast::Pos, message: impl Into<String>) {
        self.report_at(pos, message, None, None, 0);
    }

    fn report_at(
        &mut self,
        pos: ast::Pos,
        message: impl Into<String>,
        instruction: Option<String>,
        function: Option<&str>,
        loc: u32,
    ) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(Diagnostic {
                line: pos.line,
                column: pos.column,
                message: message.into(),
                instruction,
                function: function.map(str::to_string),
                source: self.sources.stack(loc),
            });
        }
    }

    /// Size of a variable in bytes; `None` if the type is unknown or the size overflows.
    fn size_of(v: &Variable<'_>) -> Option<u64> {
        let element = u64::from(Ty::parse(v.ty)?.bytes()).checked_mul(u64::from(v.vector))?;
        v.dims.iter().try_fold(element, |n, d| n.checked_mul(*d))
    }

    fn align_of(v: &Variable<'_>) -> u32 {
        let natural = Ty::parse(v.ty).map_or(1, Ty::bytes) * v.vector;
        let align = v.align.unwrap_or(natural).max(1);
        if align.is_power_of_two() && align <= 4096 { align } else { natural.max(1) }
    }

    /// Reads all module-level `.global` and `.const` variables, because they may point to each other.
    fn variables(&mut self) {
        let mut index = HashMap::new();
        for v in &self.ast.variables {
            if !matches!(v.space, Space::Global | Space::Const) {
                continue;
            }
            let Some(declared) = Self::size_of(v) else {
                self.report(v.pos, format!("variable `{}` has an unknown type or size", v.name));
                continue;
            };
            let element = Ty::parse(v.ty).map_or(1, Ty::bytes);
            let bytes = declared.max(u64::from(element) * v.init.len() as u64);
            if bytes > MAX_VARIABLE_BYTES {
                self.report(v.pos, format!("variable `{}` is too large", v.name));
                continue;
            }
            index.insert(v.name, self.module_variables.len() as u32);
            self.module_variables.push(ModuleVariable {
                name: v.name.to_string(),
                align: Self::align_of(v),
                bytes,
                init: Vec::new(),
                relocations: Vec::new(),
                constant: v.space == Space::Const,
                managed: v.managed,
            });
        }
        for v in &self.ast.variables {
            let Some(&at) = index.get(v.name) else { continue };
            let element = Ty::parse(v.ty).map_or(1, Ty::bytes) as usize;
            let mut init = Vec::with_capacity(v.init.len() * element);
            let mut relocations = Vec::new();
            for value in &v.init {
                let bits = match value {
                    Init::Int(x) => *x,
                    Init::F32(x) if element == 8 => f64::from(f32::from_bits(*x)).to_bits(),
                    Init::F32(x) => u64::from(*x),
                    Init::F64(x) if element == 4 => u64::from((f64::from_bits(*x) as f32).to_bits()),
                    Init::F64(x) => *x,
                    Init::Address { name, offset } => match index.get(name) {
                        Some(target) if element == 8 => {
                            relocations.push((init.len() as u64, *target, *offset));
                            0
                        }
                        None if element == 8 && self.function_addresses.contains_key(name) => {
                            self.function_addresses[name].wrapping_add_signed(*offset)
                        }
                        _ => {
                            self.report(
                                v.pos,
                                format!("initialiser refers to `{name}`, which has no address"),
                            );
                            0
                        }
                    },
                };
                init.extend_from_slice(&bits.to_le_bytes()[..element.min(8)]);
            }
            self.module_variables[at as usize].init = init;
            self.module_variables[at as usize].relocations = relocations;
        }
    }

    /// Reads a kernel and all functions that it can reach. Returns `None` if one of them has a problem.
    fn kernel(&mut self, entry: &'m ast::Function<'a>) -> Option<Kernel> {
        let mut constants = ConstantPool::default();
        let mut shared = SharedLayout::default();
        // Functions that the entry can reach, in the order of their first call.
        let mut order: Vec<&'m ast::Function<'a>> = vec![entry];
        let mut functions: Vec<Function> = Vec::new();
        let mut facts = Vec::new();
        let mut next = 0;
        while next < order.len() {
            let f = order[next];
            if order.len() > MAX_FUNCTIONS {
                self.report(f.pos, "too many functions");
                return None;
            }
            let (function, known) = self.function(f, next == 0, &mut constants, &mut shared, &mut order);
            functions.push(function);
            facts.extend(known);
            next += 1;
        }
        let targets = order
            .iter()
            .enumerate()
            .filter_map(|(n, f)| Some((*self.function_addresses.get(f.name)?, n as u32)))
            .collect();
        let mut first = 0;
        for f in &mut functions {
            f.first = first;
            first += f.insts.len() as u32;
        }
        let (params, param_bytes) = kernel_params(entry)?;
        let dynamic = shared.bytes.next_multiple_of(u64::from(shared.dynamic_align.max(16)));
        if shared.bytes > MAX_SHARED_BYTES {
            self.report(entry.pos, "static shared memory is larger than any GPU has");
        }
        if !self.diagnostics.is_empty() {
            return None;
        }
        let directive = |name: &str| entry.directives.iter().find(|(d, _)| *d == name).map(|(_, n)| n);
        let dims = |n: &Vec<u64>| {
            let d = |i: usize| n.get(i).copied().unwrap_or(1).min(u64::from(u32::MAX)) as u32;
            [d(0), d(1), d(2)]
        };
        let required_threads = directive(".reqntid").map(dims);
        let cluster = directive(".reqnctapercluster").map(dims).filter(|c| c.iter().all(|d| *d > 0));
        let max_threads =
            directive(".maxntid").map(dims).map(|d| d.iter().fold(1u32, |a, b| a.saturating_mul(*b)));
        let number = |name: &str| directive(name).map(|n| dims(n)[0]);
        let has =
            |wanted: fn(&Op) -> bool| functions.iter().flat_map(|f| &f.insts).any(|inst| wanted(&inst.op));
        let written = functions.iter().try_fold(0, |all, f| Some(all | f.written?));
        Some(Kernel {
            uses_heap: has(|op| matches!(op, Op::Malloc | Op::Free)),
            synchronises_grid: has(|op| matches!(op, Op::GridWorkspace { .. })),
            reaches_peers: has(|op| {
                matches!(op, Op::MapAddress { .. })
                    || matches!(op, Op::TensorLoad(access) if access.multicast)
            }),
            starts_dependents_without_wait: starts_dependents_without_wait(&functions),
            changes_maps: has(|op| matches!(op, Op::ReplaceInMap { .. } | Op::CopyMap { .. })),
            name: entry.name.to_string(),
            params,
            param_bytes,
            shared_bytes: shared.bytes as u32,
            max_threads,
            min_blocks: number(".minnctapersm").filter(|n| *n > 0),
            max_registers: number(".maxnreg"),
            required_threads,
            cluster,
            functions,
            constants: constants.entries,
            constant_units: constants.units,
            dynamic_shared: dynamic as u32,
            targets,
            reserved_shared: shared.offsets.get(RESERVED_SHARED_NAME).copied(),
            shared_variables: shared.named,
            facts: facts.into(),
            written,
        })
    }

    fn function(
        &mut self,
        f: &'m ast::Function<'a>,
        entry: bool,
        constants: &mut ConstantPool,
        shared: &mut SharedLayout<'a>,
        order: &mut Vec<&'m ast::Function<'a>>,
    ) -> (Function, Vec<Fact>) {
        let label_refs: HashMap<&'a str, &str> = self.labels.iter().map(|(l, s)| (*l, s.as_str())).collect();
        let by_name = &self.by_name;
        let mut callees = |name: &str| {
            let target = *by_name.get(name)?;
            target.body.as_ref()?;
            let index = order.iter().position(|o| o.name == target.name).unwrap_or_else(|| {
                order.push(target);
                order.len() - 1
            });
            let bytes =
                |vs: &[Variable<'_>]| vs.iter().map(|v| Self::size_of(v).unwrap_or(0) as u32).collect();
            Some(Callee {
                index: index as u32,
                params: bytes(&target.params),
                returns: bytes(&target.returns),
            })
        };
        let mut body = BodyReader {
            decoder: Decoder::new(entry, constants, &mut callees, &self.function_addresses),
            sources: SourceReader::new(&mut self.sources, &label_refs, f.name),
            shared,
            local: LocalLayout::default(),
            fidelity: &mut self.fidelity,
            problems: Vec::new(),
        };
        let parameters = body.read(self.ast, f);
        let BodyReader { decoder, local, problems, .. } = body;
        let Decoder { insts, metas, registers, indirect, returns, .. } = decoder;
        if indirect {
            for name in &self.address_taken {
                if let Some(target) = self.by_name.get(name)
                    && !order.iter().any(|o| o.name == *name)
                {
                    order.push(target);
                }
            }
        }
        if !problems.is_empty() {
            for (pos, message, instruction, loc) in problems {
                self.report_at(pos, message, instruction, Some(f.name), loc);
            }
            // Continue with an empty body, so that problems of other functions are reported too.
            return (Function::empty(), vec![Fact::UNKNOWN]);
        }
        let (mut function, facts) =
            Function::from_instructions(insts, metas, &registers, parameters, &constants.entries, entry);
        function.return_words = returns.len() as u32;
        function.local_bytes = (local.bytes as u32).next_multiple_of(16);
        (function, facts)
    }
}

/// See [`Kernel::starts_dependents_without_wait`].
fn starts_dependents_without_wait(functions: &[Function]) -> Option<u32> {
    let insts = || functions.iter().flat_map(|f| (f.first..).zip(&f.insts)).map(|(at, inst)| (at, &inst.op));
    let waits = insts().any(|(_, op)| matches!(op, Op::GridDependency { wait: true }));
    let reads = insts().any(|(_, op)| match op {
        Op::Load(access) => matches!(access.space, MemorySpace::Global | MemorySpace::Generic),
        Op::CopyAsync { .. } | Op::CopyBulk { .. } | Op::TensorLoad(_) => true,
        _ => false,
    });
    let starts = insts().find(|(_, op)| matches!(op, Op::GridDependency { wait: false }));
    starts.filter(|_| reads && !waits).map(|(at, _)| at)
}

/// The instructions of the module for the fidelity report.
#[derive(Default)]
struct FidelityCounter {
    report: FidelityReport,
    /// Instructions that are already counted, by PTX position. Several kernels may contain the same function.
    counted: std::collections::HashSet<(u32, u32)>,
}

impl FidelityCounter {
    fn count(&mut self, i: &ast::Instruction<'_>, fidelity: Fidelity) {
        if self.counted.insert((i.pos.line, i.pos.column)) {
            let rows = &mut self.report.instructions;
            let row = rows.entry(mnemonic(i)).or_insert(FidelityRow { fidelity: Fidelity::Exact, count: 0 });
            row.count += 1;
            row.fidelity = row.fidelity.max(fidelity);
        }
    }
}

/// Reads the body of one function.
struct BodyReader<'b, 'a> {
    decoder: Decoder<'a, 'b>,
    sources: SourceReader<'b, 'a>,
    shared: &'b mut SharedLayout<'a>,
    local: LocalLayout,
    fidelity: &'b mut FidelityCounter,
    problems: Vec<LoadProblem>,
}

/// The names of the shared memory that the system reserves for itself and for libraries, with offsets in it.
/// Cooperative groups of several warps use part 1.
const RESERVED_SHARED: &[(&str, u32)] = &[
    ("%reserved_smem_offset_begin", 0),
    ("%reserved_smem_offset_0", 0),
    ("%reserved_smem_offset_1", 512),
    ("%reserved_smem_offset_cap", RESERVED_SHARED_BYTES),
    ("%reserved_smem_offset_end", RESERVED_SHARED_BYTES),
];
const RESERVED_SHARED_NAME: &str = "reserved shared memory";

impl<'a> BodyReader<'_, 'a> {
    /// Gives a function that uses reserved shared memory a variable in its place.
    fn declare_reserved_shared(&mut self, f: &ast::Function<'a>) {
        let is_reserved = |operand: &ast::Operand<'_>| matches!(operand, ast::Operand::Name { name, .. } if name.starts_with("%reserved_smem_offset_"));
        let uses = f.body.iter().flatten().any(
            |statement| matches!(statement, Statement::Instruction(i) if i.operands.iter().any(is_reserved)),
        );
        if !uses {
            return;
        }
        let name = RESERVED_SHARED_NAME;
        let at = *self.shared.offsets.entry(name).or_insert_with(|| {
            // Whole units of the block's memory, so that it is easy to clear.
            let at = self.shared.bytes.next_multiple_of(128);
            self.shared.bytes = at + u64::from(RESERVED_SHARED_BYTES);
            self.shared.named.push((at as u32, RESERVED_SHARED_BYTES, name.to_string()));
            at as u32
        });
        for (name, offset) in RESERVED_SHARED {
            self.decoder.declare_outer(name, Entity::Shared { offset: at + offset });
        }
    }

    /// Reads declarations and instructions. Returns the registers of a device function's parameters.
    fn read(&mut self, module: &ast::Module<'a>, f: &ast::Function<'a>) -> Vec<Slot> {
        // Declares the names of the module, then the names of the function.
        declare_module_variables(module, &mut self.decoder, self.shared, &mut self.problems);
        self.declare_reserved_shared(f);
        let parameters = declare_parameters(f, &mut self.decoder, &mut self.problems);
        // A branch table may be declared before or after its use.
        for s in f.body.iter().flatten() {
            if let Statement::BranchTargets(name, targets) = s {
                self.decoder.branch_targets.insert(name, targets.clone());
            }
        }
        for s in f.body.iter().flatten() {
            self.statement(s);
        }
        // Reaching the end of the text is a return.
        self.decoder.begin(f.pos.line, Pipe::Control);
        if let Err(e) = self.decoder.leave_function() {
            self.problems.push((f.pos, e.0, None, 0));
        }
        resolve_branches(&mut self.decoder, &mut self.problems);
        parameters
    }

    fn statement(&mut self, s: &Statement<'a>) {
        let decoder = &mut self.decoder;
        match s {
            Statement::Open => decoder.open_scope(),
            Statement::Close => decoder.close_scope(),
            Statement::Label(name, pos) => {
                if !decoder.label(name) {
                    self.problems.push((
                        *pos,
                        format!("label `{name}` is defined twice"),
                        None,
                        decoder.meta.loc,
                    ));
                }
            }
            Statement::Declare(v) => {
                if let Err(message) = declare_local(v, decoder, self.shared, &mut self.local) {
                    self.problems.push((v.pos, message, None, decoder.meta.loc));
                }
            }
            Statement::Loc(loc) => decoder.meta.loc = self.sources.directive(loc),
            Statement::Instruction(i) => match decoder.instruction(i) {
                Ok(()) => self.fidelity.count(i, decoder.fidelity),
                Err(e) => self.problems.push((i.pos, e.0, Some(mnemonic(i)), decoder.meta.loc)),
            },
            Statement::BranchTargets(..) => {}
        }
    }
}

impl Function {
    /// Divides instructions into blocks, analyses their values and allocates their registers.
    fn from_instructions(
        mut insts: Vec<Inst>,
        metas: Vec<Meta>,
        registers: &[(Class, u32)],
        mut params: Vec<Slot>,
        constants: &[(Class, Constant, u32)],
        is_entry: bool,
    ) -> (Function, Vec<Fact>) {
        let blocks = flow::split(&mut insts);
        let code = Code {
            insts: &insts,
            metas: &metas,
            blocks: &blocks,
            registers: registers.len(),
            params: &params,
            constants,
            is_entry,
        };
        let mut facts = facts::analyse(&code);
        let of_address = by_address::of_address(&code, &facts);
        facts.iter_mut().zip(of_address).for_each(|(fact, of_address)| fact.of_address = of_address);
        let written = by_address::written(&code);
        let sketch = Sketch::new(&code, &facts);
        let unfenced = unfenced_products(&insts, &blocks);
        let frame = registers::allocate(&mut insts, &blocks, registers, &mut params);
        let mut block_of = vec![0u32; insts.len()];
        for (b, block) in blocks.iter().enumerate() {
            block_of[block.start as usize..block.end as usize].fill(b as u32);
        }
        let function = Function {
            insts,
            metas,
            blocks,
            block_of,
            frame,
            params,
            return_words: 0,
            local_bytes: 0,
            first: 0,
            reachable: OnceLock::new(),
            poll_code: OnceLock::new(),
            written,
            unfenced,
            sketch,
        };
        (function, facts)
    }

    /// A function that ends at once.
    fn empty() -> Function {
        Function {
            insts: vec![Inst::new(Op::Exit, &[], &[])],
            metas: vec![Meta::new(0, 0, Pipe::Control)],
            blocks: Vec::new(),
            block_of: vec![0],
            frame: registers::Frame::default(),
            params: Vec::new(),
            return_words: 0,
            local_bytes: 0,
            first: 0,
            reachable: OnceLock::new(),
            poll_code: OnceLock::new(),
            written: None,
            unfenced: HashMap::new(),
            sketch: None,
        }
    }
}

/// Place, message, instruction and source location of a problem in a function.
type LoadProblem = (ast::Pos, String, Option<String>, u32);

/// Declares the module's variables.
fn declare_module_variables<'a>(
    module: &ast::Module<'a>,
    decoder: &mut Decoder<'a, '_>,
    shared: &mut SharedLayout<'a>,
    problems: &mut Vec<LoadProblem>,
) {
    let mut memory = 0u32;
    for v in &module.variables {
        match v.space {
            Space::Global | Space::Const if Loader::size_of(v).is_some_and(|n| n <= MAX_VARIABLE_BYTES) => {
                decoder.declare_outer(v.name, Entity::Memory { variable: memory });
                memory += 1;
            }
            Space::Shared => match declare_shared(v, shared) {
                Ok(entity) => decoder.declare_outer(v.name, entity),
                Err(message) => problems.push((v.pos, message, None, 0)),
            },
            _ => {}
        }
    }
}

/// Declares the parameters. Returns the registers of a device function's parameters.
fn declare_parameters<'a>(
    f: &ast::Function<'a>,
    decoder: &mut Decoder<'a, '_>,
    problems: &mut Vec<LoadProblem>,
) -> Vec<Slot> {
    let mut parameters: Vec<Slot> = Vec::new();
    if decoder.entry {
        if let Some((params, _)) = kernel_params(f) {
            for (v, p) in f.params.iter().zip(params) {
                decoder.declare(v.name, Entity::KernelParam { offset: p.offset });
            }
        } else {
            problems.push((f.pos, "kernel parameter has an unknown type or is too large".into(), None, 0));
        }
    } else {
        for (vs, is_return) in [(&f.params, false), (&f.returns, true)] {
            for v in vs {
                match param_words(decoder, v) {
                    Some((words, bytes)) => {
                        if is_return {
                            decoder.returns.extend(&words);
                        } else {
                            parameters.extend(&words);
                        }
                        decoder.declare(v.name, Entity::ParamWords { words, bytes });
                    }
                    None => problems.push((
                        v.pos,
                        "parameter has an unknown type or is too large".into(),
                        None,
                        0,
                    )),
                }
            }
        }
    }
    parameters
}

/// Declares a variable inside a function.
fn declare_local<'a>(
    v: &Variable<'a>,
    decoder: &mut Decoder<'a, '_>,
    shared: &mut SharedLayout<'a>,
    local: &mut LocalLayout,
) -> Result<(), String> {
    match v.space {
        Space::Reg => decoder.declare_registers(v).map_err(|e| e.0),
        Space::Param => {
            let (words, bytes) =
                param_words(decoder, v).ok_or("parameter has an unknown type or is too large")?;
            decoder.declare(v.name, Entity::ParamWords { words, bytes });
            Ok(())
        }
        Space::Local => local.add(v).map(|offset| decoder.declare(v.name, Entity::Local { offset })),
        Space::Shared => declare_shared(v, shared).map(|e| decoder.declare(v.name, e)),
        Space::Global | Space::Const => Err("global variable inside a function".to_string()),
    }
}

fn mnemonic(i: &ast::Instruction<'_>) -> String {
    if i.modifiers.is_empty() { i.opcode.to_string() } else { format!("{}.{}", i.opcode, i.modifiers) }
}

/// Gives branches their targets. Labels may follow the branches that use them.
fn resolve_branches(decoder: &mut Decoder<'_, '_>, problems: &mut Vec<LoadProblem>) {
    let pending = std::mem::take(&mut decoder.pending);
    for branch in pending {
        let mut targets = Vec::new();
        for name in branch.labels {
            match decoder.find_label(name, &branch.blocks) {
                Some(t) => targets.push(t),
                None => problems.push((branch.pos, format!("unknown label `{name}`"), None, 0)),
            }
        }
        match &mut decoder.insts[branch.at].op {
            Op::Branch { target } => *target = targets.first().copied().unwrap_or(0),
            Op::BranchIndexed { targets: t } => *t = targets.into(),
            _ => {}
        }
    }
}

#[derive(Default)]
struct LocalLayout {
    bytes: u64,
}

impl LocalLayout {
    fn add(&mut self, v: &Variable<'_>) -> Result<u32, String> {
        let size = Loader::size_of(v).ok_or_else(|| format!("variable `{}` has an unknown type", v.name))?;
        let at = self.bytes.next_multiple_of(u64::from(Loader::align_of(v)));
        if at + size > MAX_LOCAL_BYTES {
            return Err(format!("local variable `{}` is too large", v.name));
        }
        self.bytes = at + size;
        Ok(at as u32)
    }
}

fn declare_shared<'a>(v: &Variable<'a>, shared: &mut SharedLayout<'a>) -> Result<Entity, String> {
    if v.external || v.dims.first() == Some(&0) {
        shared.dynamic_align = shared.dynamic_align.max(Loader::align_of(v));
        return Ok(Entity::DynamicShared);
    }
    if let Some(offset) = shared.offsets.get(v.name) {
        return Ok(Entity::Shared { offset: *offset });
    }
    let size = Loader::size_of(v).ok_or_else(|| format!("variable `{}` has an unknown type", v.name))?;
    let at = shared.bytes.next_multiple_of(u64::from(Loader::align_of(v)));
    if size > MAX_SHARED_BYTES || at + size > MAX_SHARED_BYTES {
        return Err(format!("shared variable `{}` is larger than any GPU's shared memory", v.name));
    }
    shared.bytes = at + size;
    shared.offsets.insert(v.name, at as u32);
    shared.named.push((at as u32, size as u32, v.name.to_string()));
    Ok(Entity::Shared { offset: at as u32 })
}

/// Allocates registers for the words of a parameter. The size is limited, because hardware limits parameters to a few
/// KiB.
fn param_words(decoder: &mut Decoder<'_, '_>, v: &Variable<'_>) -> Option<(Vec<Slot>, u32)> {
    let bytes = Loader::size_of(v).filter(|n| *n <= 4096)? as u32;
    let words = (0..bytes.div_ceil(4)).map(|_| decoder.fresh(Class::R32)).collect();
    Some((words, bytes))
}

fn kernel_params(f: &ast::Function<'_>) -> Option<(Vec<Param>, u32)> {
    let mut at = 0u64;
    let mut params = Vec::new();
    for v in &f.params {
        let bytes = Loader::size_of(v).filter(|n| *n <= 32768)?;
        let align = Loader::align_of(v);
        at = at.next_multiple_of(u64::from(align));
        params.push(Param {
            name: v.name.to_string(),
            offset: at as u32,
            bytes: bytes as u32,
            align,
            element: v.ty.to_owned(),
            pointer: v.pointer,
        });
        at += bytes;
        if at > 65536 {
            return None;
        }
    }
    Some((params, at as u32))
}
