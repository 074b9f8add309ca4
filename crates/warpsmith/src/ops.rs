//! The ops that the program knows: those that have their own code, and every op that is declared by files.

use attention::{Attention, AttentionBackward};
use declared::DeclaredOp;
use family::{Catalog, CatalogError, Family};
use op::{AnyOp, Op};

use crate::cli::Global;
use crate::error::CommandError;
use crate::family_reference;
use crate::printer::Printer;

/// The op of commands that name neither a family nor an op.
pub const DEFAULT: &str = "attention";

/// The ops that have their own code.
fn built_in() -> Vec<Box<AnyOp>> {
    vec![op::erase(Attention), op::erase(AttentionBackward)]
}

/// The names of all ops.
pub fn names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = built_in().iter().map(|op| op.name().to_owned()).collect();
    let declared = catalog.ops().map(|op| op.name.clone()).filter(|name| !names.contains(name));
    names.extend(declared.collect::<Vec<_>>());
    names
}

/// The op with this name.
pub fn named(name: &str, catalog: &Catalog) -> Result<Box<AnyOp>, CommandError> {
    find(name, catalog, |_| ())
}

/// The op with this name. `prepare` completes an op that is declared by files.
fn find(
    name: &str,
    catalog: &Catalog,
    prepare: impl FnOnce(&mut DeclaredOp),
) -> Result<Box<AnyOp>, CommandError> {
    if let Some(files) = catalog.op(name) {
        let own = catalog.entries().iter().filter(|entry| entry.op == name);
        let families = own.filter_map(|entry| entry.family.as_ref().ok());
        let mut op =
            DeclaredOp::new(files, families).map_err(|errors| CommandError::usage(errors.to_string()))?;
        op.read_arrays()?;
        op.check_arrays()?;
        prepare(&mut op);
        return Ok(op::erase(op));
    }
    if let Some(op) = built_in().into_iter().find(|op| op.name() == name) {
        return Ok(op);
    }
    let known = names(catalog);
    let near = family::nearest(name, known.iter().map(String::as_str));
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let has_families = catalog.entries().iter().any(|entry| entry.op == name);
    let message = if has_families {
        format!("the op `{name}` has families but no {}", family::OP_FILE)
    } else {
        format!("there is no op `{name}`")
    };
    Err(CommandError::usage(message).hint(format!("{near}ops: {}", known.join(", "))))
}

/// The op with this name, in a process that runs kernels but computes no reference.
pub fn for_worker(name: &str, catalog: &Catalog) -> Result<Box<AnyOp>, CommandError> {
    let Some(files) = catalog.op(name) else { return named(name, catalog) };
    let op = DeclaredOp::without_scripts(files);
    let mut op = op.map_err(|errors| CommandError::usage(errors.to_string()))?;
    op.read_arrays()?;
    Ok(op::erase(op))
}

/// The ops of a command that takes several: those of the folder of `--kernels` if the command names neither an op nor a
/// family, otherwise its only one.
pub fn all_of_command(
    global: &Global,
    families: &[String],
    catalog: &Catalog,
) -> Result<Vec<Box<AnyOp>>, CommandError> {
    let given = catalog.given_ops();
    if global.op.is_none() && families.is_empty() && given.len() > 1 {
        return given
            .iter()
            .map(|op| find(op, catalog, |op| family_reference::provide(op, global)))
            .collect();
    }
    Ok(vec![of_command(global, families, catalog)?])
}

/// The op of a command: the named one, or that of its families, or that of the folder of `--kernels`, or attention. A
/// family may be named by its op, which means all families of the op.
pub fn of_command(
    global: &Global,
    families: &[String],
    catalog: &Catalog,
) -> Result<Box<AnyOp>, CommandError> {
    let named = global.op.as_deref();
    let mut found: Option<String> = named.map(str::to_owned);
    let known = names(catalog);
    for family in families.iter().filter(|family| *family != lab::bench::CHOSEN) {
        let op =
            if known.contains(family) { family.clone() } else { in_op(family, named, catalog)?.op.clone() };
        if let Some(other) = found.as_ref().filter(|other| **other != op) {
            return Err(CommandError::usage(format!("{family} belongs to the op {op}, not to {other}"))
                .hint("name families of one op"));
        }
        found = Some(op);
    }
    let given: Vec<&String> = catalog.given_ops().iter().collect();
    let found = match (&found, given.as_slice()) {
        (Some(found), _) => found,
        (None, [one]) => one.as_str(),
        (None, []) => DEFAULT,
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            let message = format!("the folder of --kernels has several ops: {}", names.join(", "));
            return Err(CommandError::usage(message).hint(format!("name one, as in `--op {}`", names[0])));
        }
    };
    find(found, catalog, |op| family_reference::provide(op, global))
}

/// The family with this name.
pub fn family<'c>(op: &AnyOp, name: &str, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
    in_op(name, Some(op.name()), catalog)
}

/// The families that a command works on if it names none: those in the folder of `--kernels`, or all.
fn default_families<'c>(op: &AnyOp, catalog: &'c Catalog) -> Result<Vec<&'c Family>, CommandError> {
    let all = families(op, catalog)?;
    if !catalog.given_ops().contains(op.name()) {
        return Ok(all);
    }
    let is_given = |family: &&Family| {
        let entries = catalog.entries().iter();
        entries.filter(|entry| entry.is_users).any(|it| it.op == family.op && it.name == family.name)
    };
    Ok(all.into_iter().filter(is_given).collect())
}

/// The families of the op, or an error in one of their manifests.
pub fn families<'c>(op: &AnyOp, catalog: &'c Catalog) -> Result<Vec<&'c Family>, CommandError> {
    let own = catalog.entries().iter().filter(|entry| entry.op == op.name());
    own.map(|entry| entry.family.as_ref().map_err(|error| CommandError::usage(error.to_string()))).collect()
}

/// The families that a command names, each by its own name or all by the op's name. The default families if none is named.
pub fn named_families<'c>(
    op: &AnyOp,
    names: &[String],
    catalog: &'c Catalog,
) -> Result<Vec<&'c Family>, CommandError> {
    if names.is_empty() {
        return default_families(op, catalog);
    }
    let mut named: Vec<&Family> = Vec::new();
    for name in names {
        let found = if name == op.name() { families(op, catalog)? } else { vec![family(op, name, catalog)?] };
        for family in found {
            if !named.iter().any(|known| known.name == family.name) {
                named.push(family);
            }
        }
    }
    Ok(named)
}

/// The family that a search uses if none is named.
pub fn search_family<'c>(op: &AnyOp, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
    if let Some(name) = op.default_family().filter(|_| !catalog.given_ops().contains(op.name())) {
        return family(op, name, catalog);
    }
    let families = default_families(op, catalog)?;
    let best = families.iter().find(|family| !family.plain).or(families.first());
    best.copied().ok_or_else(|| CommandError::usage(format!("the op {} has no families", op.name())))
}

/// The family that is written to be obvious, which is a baseline everywhere.
pub fn plain_family<'c>(op: &AnyOp, catalog: &'c Catalog) -> Option<&'c Family> {
    families(op, catalog).ok()?.into_iter().find(|family| family.plain)
}

/// The one problem that a name stands for.
pub fn problem<O: Op + ?Sized>(op: &O, name: &str) -> Result<O::Problem, CommandError> {
    let mut problems = op.problems(name)?;
    match (problems.pop(), problems.is_empty()) {
        (Some(problem), true) => Ok(problem),
        _ => Err(CommandError::usage(format!("`{name}` names several problems; name one"))),
    }
}

/// The problem of commands that name none.
pub fn default_problem(op: &AnyOp) -> String {
    op.default_problems().into_iter().next().unwrap_or_default()
}

/// Refuses to start if the machine lacks what the reference needs, and says what the reference cannot show.
pub fn require_reference(op: &AnyOp, printer: &Printer) -> Result<(), CommandError> {
    if let Some(limits) = op.limits_of_checks() {
        printer.message(&format!("note: {limits}"));
    }
    Ok(op.require_reference()?)
}

/// A family by its name, or by its name within an op.
fn in_op<'c>(name: &str, op: Option<&str>, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
    if let Some(op) = op.filter(|_| !name.contains('/')) {
        match catalog.family(&format!("{op}/{name}")) {
            Err(CatalogError::UnknownFamily { .. }) => {}
            other => return Ok(other?),
        }
    }
    Ok(catalog.family(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_problem(name: &str) -> (Box<AnyOp>, op::AnyProblem) {
        let op = named(name, &Catalog::load(None).unwrap()).unwrap();
        let problem = problem(&*op, &default_problem(&*op)).unwrap();
        (op, problem)
    }

    #[test]
    fn every_op_is_found_by_its_name() {
        let catalog = Catalog::load(None).unwrap();
        let names = names(&catalog);
        assert!(names.len() > 1 && names[0] == DEFAULT, "{names:?}");
        for name in names {
            assert_eq!(named(&name, &catalog).unwrap().name(), name);
        }
    }

    #[test]
    fn only_problems_of_one_op_are_equal() {
        let (attention, softmax) = (first_problem(DEFAULT).1, first_problem("softmax").1);
        assert_eq!(attention, first_problem(DEFAULT).1);
        assert_ne!(attention, softmax);
    }

    #[test]
    #[should_panic(
        expected = "a value of another op was given to an op that needs `warpsmith_attention::problem::Problem`"
    )]
    fn a_problem_of_another_op_is_refused() {
        let (attention, _) = first_problem(DEFAULT);
        attention.work(&first_problem("softmax").1);
    }
}
