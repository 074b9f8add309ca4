//! Finds where the values of registers come from: a forward analysis over all functions that a kernel can reach.
//!
//! Origins are the 64-bit parameters of the kernel and the variables of the module. A register either still holds an
//! address of an origin (copied, converted to another space, moved by an offset), or was computed from the bits of such
//! an address. The analysis ignores the order of instructions: a register has one set of origins for all its uses. This
//! is right for PTX from compilers, where a register has one meaning.

use std::collections::{HashMap, HashSet};

use super::{HEAP, HEAP_NAME, Names, Notice, Words};
use crate::isa::table::{self, Pointers};
use crate::ptx::ast::{Function, Init, Instruction, Module, Operand, Space, Statement, Variable};

/// A set of origins by number. All origins from 127 on share one bit.
type Set = u128;

fn bit(origin: usize) -> Set {
    1 << origin.min(127)
}

/// The possible origins of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Value {
    /// The value is an address in one of these origins.
    address: Set,
    /// The value was computed from the bits of addresses in these origins.
    bits: Set,
    /// The value was read from memory, or returned by an unknown function, or is the address of something that is not
    /// an origin.
    other: bool,
    /// The value was read from memory (implies `other`).
    loaded: bool,
}

impl Value {
    const LOADED: Value = Value { address: 0, bits: 0, other: true, loaded: true };
    const OTHER: Value = Value { address: 0, bits: 0, other: true, loaded: false };

    fn join(self, other: Value) -> Value {
        Value {
            address: self.address | other.address,
            bits: self.bits | other.bits,
            other: self.other | other.other,
            loaded: self.loaded | other.loaded,
        }
    }

    /// The result of an operation on this value that is not an address computation.
    fn into_bits(self) -> Value {
        Value { address: 0, bits: self.bits | self.address, ..self }
    }

    fn origins(self) -> Set {
        self.address | self.bits
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin<'a> {
    /// Eight bytes of a kernel parameter, by offset.
    Param(&'a str, i64),
    Variable(&'a str),
}

/// An operand with its name resolved.
#[derive(Debug)]
enum Place<'a> {
    /// A register or a parameter of a call: something that holds a value.
    Holder(usize),
    Variable(&'a str),
    /// The address of something else: a shared or local variable, a function, a parameter.
    Symbol,
    Number(u64),
    Nothing,
}

#[derive(Debug)]
struct Step<'a> {
    pointers: Pointers,
    modifiers: &'a str,
    /// Registers that the instruction writes.
    results: Vec<usize>,
    /// Values that the instruction reads, including those inside vectors. Address operands are stored separately.
    sources: Vec<Place<'a>>,
    /// The first part of each address operand, with its offset.
    addresses: Vec<(Place<'a>, i64)>,
    /// A result is a vector: `{a, b}`.
    splits: bool,
    /// A conversion between address spaces.
    converts: bool,
    call: Option<Call<'a>>,
    line: u32,
}

#[derive(Debug)]
struct Call<'a> {
    function: Option<&'a str>,
    returns: Vec<usize>,
    arguments: Vec<usize>,
}

/// What the names in a function refer to.
struct Scopes<'a> {
    /// Names declared in each open scope. A prefix with a number range stands for all its registers.
    open: Vec<HashMap<&'a str, (usize, Space)>>,
    next: usize,
}

pub fn scan(module: &Module<'_>, kernel: &str) -> Option<Vec<Notice>> {
    let entry = module.functions.iter().find(|f| f.entry && f.name == kernel && f.body.is_some())?;
    let mut scan = Scan::new(module, entry);
    scan.read_functions();
    scan.settle();
    scan.judge();
    Some(scan.into_notices())
}

struct Scan<'m, 'a> {
    module: &'m Module<'a>,
    entry: &'m Function<'a>,
    variables: HashMap<&'a str, &'m Variable<'a>>,
    functions: HashMap<&'a str, &'m Function<'a>>,
    /// Functions that can be reached, the kernel first.
    reached: Vec<&'m Function<'a>>,
    steps: Vec<Step<'a>>,
    /// Values of all holders: the registers of all functions, and the parameters.
    values: Vec<Value>,
    holders: HashMap<(&'a str, &'a str, usize), usize>,
    origins: Vec<Origin<'a>>,
    numbers: HashMap<Origin<'a>, usize>,
    words: Words,
    /// Registers that hold the address of a kernel parameter: the parameter and the offset in it.
    parameter_at: HashMap<usize, (&'a str, i64)>,
    /// True if the current instruction reads several fields of a parameter.
    splits: bool,
    /// Addresses of origins that were stored to memory.
    spilled: Value,

    pointers: Set,
    written: Set,
    escaped: Set,
    stores_through_memory: bool,
    /// The kernel calls `malloc`.
    uses_heap: bool,
    tested: Set,
    tested_lines: Vec<u32>,
    absolute_lines: Vec<u32>,
}

impl<'m, 'a> Scan<'m, 'a> {
    fn new(module: &'m Module<'a>, entry: &'m Function<'a>) -> Self {
        let mut functions: HashMap<&'a str, &'m Function<'a>> = HashMap::new();
        for f in module.functions.iter().filter(|f| f.body.is_some()) {
            functions.insert(f.name, f);
        }
        let local = module.functions.iter().flat_map(|f| f.body.iter().flatten()).filter_map(|s| match s {
            Statement::Declare(v) => Some(v),
            _ => None,
        });
        let variables = module.variables.iter().chain(local);
        let variables = variables.filter(|v| matches!(v.space, Space::Global | Space::Const));
        Scan {
            module,
            entry,
            variables: variables.map(|v| (v.name, v)).collect(),
            functions,
            reached: vec![entry],
            steps: Vec::new(),
            values: Vec::new(),
            holders: HashMap::new(),
            origins: Vec::new(),
            numbers: HashMap::new(),
            words: Words::default(),
            parameter_at: HashMap::new(),
            splits: false,
            spilled: Value::default(),
            pointers: 0,
            written: 0,
            escaped: 0,
            stores_through_memory: false,
            uses_heap: false,
            tested: 0,
            tested_lines: Vec::new(),
            absolute_lines: Vec::new(),
        }
    }

    fn origin(&mut self, origin: Origin<'a>) -> Set {
        let fresh = self.origins.len();
        let number = *self.numbers.entry(origin).or_insert(fresh);
        if number == fresh {
            self.origins.push(origin);
        }
        bit(number)
    }

    fn holder(&mut self, function: &'a str, name: &'a str, scope: usize) -> usize {
        let fresh = self.values.len();
        let holder = *self.holders.entry((function, name, scope)).or_insert(fresh);
        if holder == fresh {
            self.values.push(Value::default());
        }
        holder
    }

    fn read_functions(&mut self) {
        let mut next = 0;
        while next < self.reached.len() {
            let function = self.reached[next];
            self.read_function(function);
            next += 1;
        }
        // A variable whose address another variable holds can be reached through that variable.
        let mut known: HashSet<&str> = HashSet::new();
        let mut open: Vec<&'a str> = self
            .numbers
            .keys()
            .filter_map(|origin| match origin {
                Origin::Variable(name) => Some(*name),
                Origin::Param(..) => None,
            })
            .collect();
        while let Some(name) = open.pop() {
            if !known.insert(name) {
                continue;
            }
            let Some(variable) = self.variables.get(name).copied() else { continue };
            for init in &variable.init {
                if let Init::Address { name, .. } = init
                    && self.variables.contains_key(name)
                {
                    self.escaped |= self.origin(Origin::Variable(name));
                    open.push(name);
                }
            }
        }
    }

    fn read_function(&mut self, function: &'m Function<'a>) {
        let mut scopes = Scopes { open: vec![HashMap::new()], next: 1 };
        for statement in function.body.iter().flatten() {
            match statement {
                Statement::Open => scopes.open.push(HashMap::new()),
                Statement::Close if scopes.open.len() > 1 => drop(scopes.open.pop()),
                Statement::Declare(v) => {
                    let scope = scopes.next;
                    scopes.next += 1;
                    if let Some(innermost) = scopes.open.last_mut() {
                        innermost.insert(v.name, (scope, v.space));
                    }
                }
                Statement::Instruction(i) => {
                    let step = self.read_instruction(function, i, &scopes);
                    self.steps.push(step);
                }
                _ => {}
            }
        }
    }

    fn place(&mut self, function: &'m Function<'a>, name: &'a str, scopes: &Scopes<'a>) -> Place<'a> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let declared =
            scopes.open.iter().rev().find_map(|scope| scope.get(name).or_else(|| scope.get(prefix)));
        match declared {
            Some((scope, Space::Reg | Space::Param)) => {
                return Place::Holder(self.holder(function.name, name, *scope));
            }
            Some((_, Space::Shared | Space::Local)) => return Place::Symbol,
            _ => {}
        }
        if function.params.iter().chain(&function.returns).any(|p| p.name == name) {
            if function.entry {
                return Place::Symbol;
            }
            return Place::Holder(self.holder(function.name, name, 0));
        }
        if self.variables.contains_key(name) {
            self.origin(Origin::Variable(name));
            return Place::Variable(name);
        }
        if let Some(target) = self.functions.get(name).copied() {
            if !self.reached.iter().any(|f| f.name == target.name) {
                self.reached.push(target);
            }
            return Place::Symbol;
        }
        if name.starts_with('%') {
            self.words.register(name);
            return Place::Nothing;
        }
        Place::Symbol
    }

    fn read_instruction(
        &mut self,
        function: &'m Function<'a>,
        i: &Instruction<'a>,
        scopes: &Scopes<'a>,
    ) -> Step<'a> {
        self.words.instruction(i.opcode, i.modifiers);
        let mut step = Step {
            pointers: table::instruction(i.opcode).map_or(Pointers::Examine, |row| row.pointers),
            modifiers: i.modifiers,
            results: Vec::new(),
            sources: Vec::new(),
            addresses: Vec::new(),
            splits: false,
            converts: i.opcode == "cvta",
            call: None,
            line: i.pos.line,
        };
        if i.opcode == "call" {
            step.call = Some(self.read_call(function, i, scopes));
            return step;
        }
        let has_result = match step.pointers {
            Pointers::NoResult => false,
            Pointers::Tile => !i.modifiers.starts_with("store"),
            _ => true,
        };
        for (n, operand) in i.operands.iter().enumerate() {
            if n == 0 && has_result && !matches!(operand, Operand::Address { .. }) {
                step.splits = matches!(operand, Operand::Vector(_));
                self.splits = step.splits && is_param(i.modifiers);
                let mut places = Vec::new();
                self.read_operand(function, operand, scopes, &mut places, &mut step.addresses);
                step.results.extend(places.into_iter().filter_map(|place| match place {
                    Place::Holder(holder) => Some(holder),
                    _ => None,
                }));
            } else {
                let Step { sources, addresses, .. } = &mut step;
                self.read_operand(function, operand, scopes, sources, addresses);
            }
        }
        self.splits = false;
        self.follow_parameter(function, i, &step);
        step
    }

    /// Compilers put the address of a large parameter into a register and read its fields through the register.
    fn follow_parameter(&mut self, function: &Function<'a>, i: &Instruction<'a>, step: &Step<'a>) {
        let [to] = step.results[..] else { return };
        let is_parameter = |name: &str| function.entry && function.params.iter().any(|p| p.name == name);
        let further = match (i.opcode, &step.sources[..]) {
            ("mov" | "cvta", _) => 0,
            ("add", [_, Place::Number(offset)]) => offset.cast_signed(),
            _ => return,
        };
        let known = match (i.operands.get(1), step.sources.first()) {
            (Some(Operand::Name { name, .. }), _) if is_parameter(name) => Some((*name, 0)),
            (Some(Operand::Offset { name, offset }), _) if is_parameter(name) => Some((*name, *offset)),
            (_, Some(Place::Holder(from))) => self.parameter_at.get(from).copied(),
            _ => None,
        };
        if let Some((name, offset)) = known {
            self.parameter_at.insert(to, (name, offset.wrapping_add(further)));
        }
    }

    /// Registers the eight-byte fields of a parameter that an instruction reads. A vector has up to four elements.
    fn name_fields(&mut self, name: &'a str, offset: i64) {
        for further in [0, 8, 16, 24] {
            if further == 0 || self.splits {
                self.origin(Origin::Param(name, offset.wrapping_add(further) & !7));
            }
        }
    }

    /// Whether the step reads a parameter, directly or by its generic address.
    fn reads_parameter(&self, step: &Step<'a>) -> bool {
        let own = |name: &str| self.entry.params.iter().any(|p| p.name == name);
        is_param(step.modifiers)
            || matches!(step.addresses.first(), Some((Place::Variable(name), _)) if own(name))
    }

    fn read_operand(
        &mut self,
        function: &'m Function<'a>,
        operand: &Operand<'a>,
        scopes: &Scopes<'a>,
        values: &mut Vec<Place<'a>>,
        addresses: &mut Vec<(Place<'a>, i64)>,
    ) {
        match operand {
            Operand::Name { name, .. } | Operand::Offset { name, .. } => {
                values.push(self.place(function, name, scopes));
            }
            Operand::Int(v) => values.push(Place::Number(*v)),
            Operand::F32(_) | Operand::F64(_) => values.push(Place::Nothing),
            Operand::Sink => {}
            Operand::Vector(parts) | Operand::List(parts) => {
                for part in parts {
                    self.read_operand(function, part, scopes, values, addresses);
                }
            }
            Operand::Pair(pair) => {
                self.read_operand(function, &pair.0, scopes, values, addresses);
                self.read_operand(function, &pair.1, scopes, values, addresses);
            }
            Operand::Address { parts, offset } => {
                let mut inside = Vec::new();
                for part in parts {
                    self.read_operand(function, part, scopes, &mut inside, addresses);
                }
                let mut inside = inside.into_iter();
                let named = match parts.first() {
                    // The offset selects the field of the parameter.
                    Some(Operand::Name { name, .. }) if function.entry => Some(*name),
                    _ => None,
                };
                if let Some(first) = inside.next() {
                    let (first, offset) = match (first, named) {
                        (Place::Symbol, Some(name)) if function.params.iter().any(|p| p.name == name) => {
                            self.name_fields(name, *offset);
                            (Place::Variable(name), *offset)
                        }
                        (Place::Holder(from), _) if self.parameter_at.contains_key(&from) => {
                            let (name, base) = self.parameter_at[&from];
                            self.name_fields(name, base.wrapping_add(*offset));
                            (Place::Variable(name), base.wrapping_add(*offset))
                        }
                        (first, _) => (first, *offset),
                    };
                    addresses.push((first, offset));
                }
                values.extend(inside);
            }
        }
    }

    /// Reads `call (returns), function, (arguments), prototype`. Everything except the function may be absent.
    fn read_call(
        &mut self,
        function: &'m Function<'a>,
        i: &Instruction<'a>,
        scopes: &Scopes<'a>,
    ) -> Call<'a> {
        let mut lists: Vec<Vec<usize>> = Vec::new();
        let (mut name, mut lists_before_name) = (None, 0);
        for operand in &i.operands {
            match operand {
                Operand::List(_) => {
                    let (mut values, mut addresses) = (Vec::new(), Vec::new());
                    self.read_operand(function, operand, scopes, &mut values, &mut addresses);
                    lists.push(
                        values
                            .into_iter()
                            .filter_map(|place| match place {
                                Place::Holder(holder) => Some(holder),
                                _ => None,
                            })
                            .collect(),
                    );
                }
                Operand::Name { name: callee, .. } if name.is_none() => {
                    lists_before_name = lists.len();
                    let direct = matches!(self.place(function, callee, scopes), Place::Symbol);
                    name = Some(direct.then_some(*callee));
                }
                _ => {}
            }
        }
        let returns = if lists_before_name > 0 { lists[0].clone() } else { Vec::new() };
        let arguments = lists.get(lists_before_name).cloned().unwrap_or_default();
        Call { function: name.flatten(), returns, arguments }
    }

    fn value(&self, place: &Place<'a>) -> Value {
        match place {
            Place::Holder(holder) => self.values[*holder],
            Place::Variable(name) => match self.numbers.get(&Origin::Variable(name)) {
                Some(number) => Value { address: bit(*number), ..Value::default() },
                None => Value::OTHER,
            },
            Place::Symbol => Value::OTHER,
            Place::Number(_) | Place::Nothing => Value::default(),
        }
    }

    /// Repeats all steps until no value changes.
    fn settle(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        // Each round propagates values. A value grows at most a few hundred times. The limit protects against hostile
        // files.
        for _ in 0..64 {
            let before = (self.values.clone(), self.spilled);
            for step in &steps {
                self.flow(step);
            }
            if before == (self.values.clone(), self.spilled) {
                break;
            }
        }
        self.steps = steps;
    }

    fn flow(&mut self, step: &Step<'a>) {
        if let Some(call) = &step.call {
            return self.flow_call(call);
        }
        let joined = step.sources.iter().fold(Value::default(), |all, s| all.join(self.value(s)));
        let result = match step.pointers {
            Pointers::Load if self.reads_parameter(step) => {
                for (part, result) in step.results.iter().enumerate() {
                    self.values[*result] = self.values[*result].join(self.parameter(step, part));
                }
                return;
            }
            Pointers::Store if is_param(step.modifiers) => {
                if let Some((Place::Holder(to), _)) = step.addresses.first() {
                    self.values[*to] = self.values[*to].join(joined);
                }
                return;
            }
            Pointers::Store | Pointers::Reduce => {
                self.spilled = self.spilled.join(joined);
                return;
            }
            Pointers::Load | Pointers::Exchange => {
                if step.pointers == Pointers::Exchange {
                    self.spilled = self.spilled.join(joined);
                }
                // A pointer that was stored may be loaded back as a whole.
                let whole = if is_wide(step.modifiers) { self.spilled.address } else { 0 };
                Value { address: whole, ..Value::LOADED }
            }
            Pointers::Keep if !step.splits => joined,
            Pointers::AddProduct if !step.splits => {
                let last = step.sources.last().map_or(Value::default(), |s| self.value(s));
                let factors = step.sources.iter().rev().skip(1);
                factors.fold(last, |all, s| all.join(self.value(s).into_bits()))
            }
            Pointers::Convert if keeps_width(step.modifiers) => joined,
            Pointers::Subtract => {
                let all: Vec<Value> = step.sources.iter().map(|s| self.value(s)).collect();
                match all[..] {
                    // The distance between two addresses is not an address.
                    [a, b] if a.address != 0 && b.address != 0 => Value {
                        address: if b.address & !a.address == 0 { 0 } else { a.address },
                        ..a.join(b)
                    },
                    [a, b] => a.join(b.into_bits()),
                    _ => joined.into_bits(),
                }
            }
            Pointers::Mask if aligns(step) => joined,
            // The results of other reads: tensor tiles, texture fetches, barrier states.
            _ if !step.addresses.is_empty() => Value::LOADED,
            Pointers::Compare => Value::default(),
            _ => joined.into_bits(),
        };
        for r in &step.results {
            self.values[*r] = self.values[*r].join(result);
        }
    }

    /// What `ld.param` reads: an origin for a parameter of the kernel, or what the callers passed for a parameter of
    /// another function. `part` is the number of the vector element.
    fn parameter(&self, step: &Step<'a>, part: usize) -> Value {
        let further = part as i64 * i64::from(element_bits(step.modifiers) / 8);
        match step.addresses.first() {
            Some((Place::Holder(from), _)) => self.values[*from],
            Some((Place::Variable(name), offset)) => {
                let origin = self.numbers.get(&Origin::Param(name, offset.wrapping_add(further) & !7));
                let set = origin.map_or(0, |number| bit(*number));
                if is_wide(step.modifiers) {
                    Value { address: set, ..Value::default() }
                } else {
                    Value { bits: set, ..Value::default() }
                }
            }
            _ => Value::LOADED,
        }
    }

    fn flow_call(&mut self, call: &Call<'a>) {
        let targets: Vec<&'m Function<'a>> = match call.function {
            Some(name) => self.functions.get(name).copied().into_iter().collect(),
            None => self.reached.iter().skip(1).copied().collect(),
        };
        let unknown = targets.is_empty() || call.function.is_none();
        for f in targets {
            for (parameter, argument) in f.params.iter().zip(&call.arguments) {
                let to = self.holder(f.name, parameter.name, 0);
                self.values[to] = self.values[to].join(self.values[*argument]);
            }
            for (returned, to) in f.returns.iter().zip(&call.returns) {
                let from = self.holder(f.name, returned.name, 0);
                self.values[*to] = self.values[*to].join(self.values[from]);
            }
        }
        if unknown {
            for to in &call.returns {
                self.values[*to] = self.values[*to].join(Value::LOADED);
            }
        }
    }

    /// Examines every step once, when all values are known.
    fn judge(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        self.find_pointers(&steps);
        for step in &steps {
            self.judge_writes(step);
            self.judge_addresses(step);
            self.judge_tests(step);
        }
    }

    /// Finds the 64-bit parameters that are pointers: those that are declared as pointers, and those that alone form an
    /// address.
    fn find_pointers(&mut self, steps: &[Step<'a>]) {
        let params = self.origins.iter().enumerate().filter_map(|(n, origin)| match origin {
            Origin::Param(name, at) => Some((n, *name, *at)),
            Origin::Variable(_) => None,
        });
        let mut all = 0;
        for (n, name, at) in params {
            all |= bit(n);
            if at == 0 && self.entry.params.iter().any(|p| p.name == name && p.pointer) {
                self.pointers |= bit(n);
            }
        }
        let uses = steps.iter().filter(|s| !is_param(s.modifiers) && s.call.is_none());
        let addresses: Vec<Set> = uses
            .flat_map(|s| {
                let converted = s.sources.iter().filter(|_| s.converts);
                s.addresses.iter().map(|(place, _)| place).chain(converted)
            })
            .map(|place| self.value(place))
            // An integer may be added to the address of something that is not a parameter.
            .filter(|value| !value.other)
            .map(|value| value.address & all)
            .filter(|set| *set != 0)
            .collect();
        for set in addresses.iter().filter(|set| set.is_power_of_two()) {
            self.pointers |= set;
        }
        for set in addresses {
            if set & self.pointers == 0 {
                self.pointers |= set;
            }
        }
    }

    fn judge_writes(&mut self, step: &Step<'a>) {
        if let Some(call) = &step.call {
            let known = call.function.is_some_and(|name| {
                self.functions.contains_key(name) || matches!(name, "vprintf" | "__assertfail")
            });
            self.uses_heap |= !known && call.function == Some(HEAP);
            if !known {
                for argument in &call.arguments {
                    self.escaped |= self.values[*argument].origins();
                }
            }
            return;
        }
        let stores = !is_param(step.modifiers);
        if stores && matches!(step.pointers, Pointers::Store | Pointers::Reduce | Pointers::Exchange) {
            for source in &step.sources {
                self.escaped |= self.value(source).origins();
            }
        }
        let reads = match step.pointers {
            Pointers::Load | Pointers::Fetch | Pointers::Ignore => true,
            Pointers::Tile => step.modifiers.starts_with("load"),
            _ => false,
        };
        if let (false, true, Some((place, _))) = (reads, stores, step.addresses.first()) {
            let value = self.value(place);
            self.written |= value.origins();
            // A bulk copy to global memory has shared memory as its source.
            let private = is_private(step.modifiers) && !step.modifiers.contains("global.shared");
            self.stores_through_memory |= value.loaded && !private;
        }
    }

    fn judge_addresses(&mut self, step: &Step<'a>) {
        let private = is_private(step.modifiers) || is_param(step.modifiers);
        let is_copy = step.pointers == Pointers::Copy;
        let accesses = match step.pointers {
            Pointers::Load | Pointers::Store | Pointers::Reduce | Pointers::Exchange | Pointers::Tile => true,
            // One side of a copy is shared memory, where an address may be a number.
            Pointers::Copy => step.modifiers.contains("global") && !step.modifiers.starts_with("async.bulk"),
            _ => false,
        };
        if private && !is_copy || !accesses {
            return;
        }
        let places = step.addresses.iter().skip(usize::from(is_copy)).map(|(place, _)| place);
        let variables = self.numbers.iter().filter(|(origin, _)| matches!(origin, Origin::Variable(_)));
        let known = variables.fold(self.pointers, |set, (_, number)| set | bit(*number));
        let absolute = places.into_iter().any(|place| {
            let value = self.value(place);
            value.origins() & known == 0 && !value.other
        });
        if absolute {
            add_line(&mut self.absolute_lines, step.line);
        }
    }

    fn judge_tests(&mut self, step: &Step<'a>) {
        if step.call.is_some() || is_param(step.modifiers) && step.pointers == Pointers::Store {
            return;
        }
        let pointers = |v: Value| v.address & self.pointers;
        let values: Vec<Value> = step.sources.iter().map(|s| self.value(s)).collect();
        let all = values.iter().fold(0, |set, v| set | pointers(*v));
        let tested = match step.pointers {
            // A load of half a pointer.
            Pointers::Load if self.reads_parameter(step) => {
                let parts = (0..step.results.len()).map(|part| self.parameter(step, part).bits);
                parts.fold(0, |set, bits| set | bits) & self.pointers
            }
            Pointers::Compare => {
                let null = step.modifiers.starts_with("eq") || step.modifiers.starts_with("ne");
                let against_null = null && step.sources.iter().any(|s| matches!(s, Place::Number(0)));
                let same = values.len() >= 2 && pointers(values[0]) == pointers(values[1]);
                if against_null || same { 0 } else { all }
            }
            // An offset may be subtracted from an address, and the distance within one buffer is a number.
            Pointers::Subtract => match values[..] {
                [a, b] if pointers(b) == 0 || pointers(a) == pointers(b) => 0,
                _ => all,
            },
            Pointers::Keep if !step.splits => 0,
            Pointers::AddProduct => {
                let factors = values.iter().rev().skip(1);
                factors.fold(0, |set, v| set | pointers(*v))
            }
            Pointers::Convert if keeps_width(step.modifiers) => 0,
            Pointers::Mask if aligns(step) => 0,
            // Storing a pointer is not a test by itself, but its later use is unknown, so it counts unless the memory
            // is private.
            Pointers::Store if is_private(step.modifiers) => 0,
            Pointers::Ignore | Pointers::Copy => 0,
            _ => all,
        };
        if tested != 0 {
            self.tested |= tested;
            add_line(&mut self.tested_lines, step.line);
        }
    }

    fn into_notices(self) -> Vec<Notice> {
        let mut notices = self.words.into_notices();
        let writable = self.written | if self.stores_through_memory { self.escaped } else { 0 };
        let mut variables = Names::default();
        // Names are listed in the order of the module.
        let declared = self.module.variables.iter().filter(|v| v.space == Space::Global).map(|v| v.name);
        let inside = self.variables.values().filter(|v| v.space == Space::Global).map(|v| v.name);
        for name in declared.chain(inside) {
            let number = self.numbers.get(&Origin::Variable(name));
            if number.is_some_and(|n| writable & bit(*n) != 0) {
                variables.add(name);
            }
        }
        if self.uses_heap {
            variables.add(HEAP_NAME);
        }
        if !variables.0.is_empty() {
            notices.push(Notice::WritableVariables { names: variables.0 });
        }
        let mut parameters = Names::default();
        for (n, origin) in self.origins.iter().enumerate() {
            if let Origin::Param(name, offset) = origin
                && self.tested & bit(n) != 0
            {
                let whole = self.entry.params.iter().any(|p| p.name == *name && p.dims.is_empty());
                parameters.add(&if whole { (*name).to_string() } else { format!("{name}+{offset}") });
            }
        }
        if !parameters.0.is_empty() {
            notices.push(Notice::TestsPointer { parameters: parameters.0, lines: self.tested_lines });
        }
        if !self.absolute_lines.is_empty() {
            notices.push(Notice::AbsoluteAddress { lines: self.absolute_lines });
        }
        notices.sort();
        notices
    }
}

fn add_line(lines: &mut Vec<u32>, line: u32) {
    const MOST: usize = 8;
    if lines.len() < MOST && !lines.contains(&line) {
        lines.push(line);
    }
}

fn is_param(modifiers: &str) -> bool {
    modifiers.split('.').next().is_some_and(|space| space.starts_with("param"))
}

/// Whether the space is not global memory, so that a small number can be an address.
fn is_private(modifiers: &str) -> bool {
    let spaces = ["shared", "local", "const", "param"];
    modifiers.split('.').any(|part| spaces.iter().any(|space| part.starts_with(space)))
}

fn type_bits(part: &str) -> Option<u32> {
    let (kind, bits) = part.split_at_checked(1)?;
    if !matches!(kind, "b" | "u" | "s" | "f") {
        return None;
    }
    bits.parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64 | 128))
}

/// Bits of the last type that an instruction names.
fn element_bits(modifiers: &str) -> u32 {
    modifiers.rsplit('.').find_map(type_bits).unwrap_or(32)
}

fn is_wide(modifiers: &str) -> bool {
    element_bits(modifiers) >= 64
}

/// Whether a conversion between integers keeps all bits of an address.
fn keeps_width(modifiers: &str) -> bool {
    let mut types = modifiers.split('.').filter_map(|part| Some((part, type_bits(part)?)));
    types.all(|(part, bits)| bits == 64 && !part.starts_with('f'))
}

/// Whether an `and` rounds an address down to a multiple of a power of two.
fn aligns(step: &Step<'_>) -> bool {
    let is_mask = |place: &Place<'_>| match place {
        Place::Number(mask) => *mask != 0 && mask.wrapping_neg().is_power_of_two() && *mask >> 63 == 1,
        _ => false,
    };
    is_wide(step.modifiers) && step.sources.iter().any(is_mask)
}
