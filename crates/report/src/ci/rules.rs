//! The kinds of findings, with a description and advice for each.

/// A kind of finding.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// A fixed identifier: `race`.
    pub id: &'static str,
    /// A readable identifier: `Race`.
    pub name: &'static str,
    /// What the finding means, in one sentence.
    pub short: &'static str,
    /// What to do about it.
    pub help: &'static str,
}

/// The rule of an identifier. An unknown one has the rule `wrong-result`.
pub fn rule(id: &str) -> &'static Rule {
    let found = RULES.iter().find(|rule| rule.id == id);
    found.or_else(|| RULES.iter().find(|rule| rule.id == "wrong-result")).unwrap_or(&RULES[0])
}

macro_rules! rules {
    ($($id:literal $name:literal $short:literal $help:literal)*) => {
        /// Every kind of finding.
        pub const RULES: &[Rule] = &[$(Rule { id: $id, name: $name, short: $short, help: $help }),*];
    };
}

rules! {
    // Findings of the virtual GPU.
    "out-of-bounds" "OutOfBounds"
    "An access is outside every allocation, or outside shared or local memory."
    "Compare the index with the size of the buffer. A partial last tile is the usual cause."
    "misaligned" "Misaligned"
    "The address of an access is not a multiple of the alignment that the instruction requires."
    "Align the row stride and the base address to the width of the access."
    "uninitialised" "Uninitialised"
    "A value that nothing wrote decides a branch, an address or an output."
    "Write the value on every path before it is read."
    "race" "Race"
    "Two accesses to the same memory conflict, and no synchronisation orders them."
    "Add a barrier or another synchronisation between the two accesses. The related location is the other access."
    "async-not-waited" "AsyncNotWaited"
    "The data of an asynchronous copy or matrix product is used before the wait for it."
    "Wait for the copy group, the mbarrier or the product before the data is used."
    "proxy-fence" "ProxyFence"
    "A bulk copy or the tensor cores read data or a tensor map that threads wrote, without a proxy fence in between."
    "Add fence.proxy.async between the writes and the asynchronous read; for tensor maps, fence.proxy.tensormap."
    "barrier-phase" "BarrierPhase"
    "A wait is satisfied by an older phase of the same parity."
    "Flip the parity after every phase of the mbarrier."
    "layout" "Layout"
    "The tensor cores expect their operand in another order than the bulk copy wrote it."
    "Use the same swizzle in the tensor map and in the matrix descriptor."
    "tensor-map" "TensorMap"
    "The operand of a bulk copy is not a tensor map, or is in memory where a tensor map may not be."
    "Pass the tensor map as a __grid_constant__ parameter."
    "texture" "Texture"
    "A fetch reads something that is not a texture, or a texture of another shape or type."
    "Pass a texture object with the dimensions and the element type that the kernel fetches."
    "registers" "Registers"
    "A kernel needs more registers than its family or its block has."
    "Reduce the number of live values, or change the limit in the manifest."
    "barrier-divergence" "BarrierDivergence"
    "Not all threads of the warp or block reach a barrier."
    "Move the barrier out of the divergent branch."
    "barrier-count" "BarrierCount"
    "A barrier has a wrong number of participants or arrivals."
    "Make the thread count of the barrier equal to the number of threads that arrive."
    "deadlock" "Deadlock"
    "No thread can make progress."
    "Check that every wait has an arrival that does not depend on it."
    "runaway" "Runaway"
    "The kernel used up its budget of instructions or time."
    "Check the condition of the loop. --budget sets a larger limit."
    "warp-mask" "WarpMask"
    "The mask of a warp operation does not match the lanes that execute it."
    "Compute the mask from the branch that the lanes take."
    "divergent-warp-op" "DivergentWarpOp"
    "An instruction of the whole warp, such as ldmatrix or mma, is in divergent code."
    "Move the instruction out of the divergent branch."
    "unwritten-output" "UnwrittenOutput"
    "No thread wrote some elements of an output."
    "Check the grid and the bounds of the last tile."
    "idle-blocks" "IdleBlocks"
    "Some blocks stored nothing."
    "Check the grid: it may be larger than the work."
    "scope" "Scope"
    "The scope of an atomic or a fence does not include all threads that use it."
    "Use a wider scope, such as gpu instead of cta."
    "not-resident" "NotResident"
    "A block waits for a block that cannot be resident at the same time."
    "Launch no more blocks than fit on the device, or remove the dependence between blocks."
    "trap" "Trap"
    "The kernel ended with trap, a failed assertion, an invalid barrier or a broken call."
    "Read the message for the cause."
    "launch" "Launch"
    "The launch itself was not possible."
    "Check the sizes of the grid, the block and the shared memory."
    // Results of `check` and `sanitize`.
    "wrong-result" "WrongResult"
    "The output differs from the reference, or the kernel broke another rule of correctness."
    "Run `warpsmith check` with the flags in the message; --sanitize looks for the cause."
    "broken" "Broken"
    "The kernel could not be built or run."
    "Read the message for the cause."
    "does-not-compile" "DoesNotCompile"
    "The compiler reported an error."
    "Correct the error at its line."
    // Findings of `gate`.
    "wrong-answer" "WrongAnswer"
    "A candidate's output is wrong, or a checker found a problem."
    "Run `warpsmith check FAMILY --sanitize` to see the source lines."
    "spills" "Spills"
    "A candidate spills more bytes than its family allows."
    "Reduce the number of live values, or use more threads with less work each."
    "serialised-wgmma" "SerialisedWgmma"
    "The assembler serialised warpgroup products."
    "Do not touch the accumulators between the product and the wait."
    "regression" "Regression"
    "A candidate is slower than the best measured time on record."
    "Find the change that made it slower, or remove the entry from the leaderboard to accept the new time."
    "registers-increased" "RegistersIncreased"
    "A candidate uses more registers than on record."
    "Reduce the number of live values, or remove the entry from the leaderboard to accept the increase."
    "spills-increased" "SpillsIncreased"
    "A candidate spills more bytes than on record."
    "Reduce the number of live values, or remove the entry from the leaderboard to accept the increase."
    "shared-memory-increased" "SharedMemoryIncreased"
    "A candidate uses more shared memory than on record."
    "Use smaller tiles or fewer stages, or remove the entry from the leaderboard to accept the increase."
    "instructions-increased" "InstructionsIncreased"
    "A candidate executes more instructions than on record (counted by the virtual GPU)."
    "Compare the hot lines of `warpsmith profile`, or remove the entry from the leaderboard to accept the increase."
    "global-sectors-increased" "GlobalSectorsIncreased"
    "A candidate moves more sectors of global memory than on record (counted by the virtual GPU)."
    "Check that neighbouring lanes access neighbouring addresses, or remove the entry to accept the increase."
    "local-sectors-increased" "LocalSectorsIncreased"
    "A candidate moves more sectors of local memory than on record (counted by the virtual GPU)."
    "Keep arrays in registers: index them with constants. Or remove the entry to accept the increase."
    "bank-conflicts-increased" "BankConflictsIncreased"
    "A candidate has more bank conflicts than on record (counted by the virtual GPU)."
    "Pad or swizzle the rows in shared memory, or remove the entry to accept the increase."
    "modelled-time-increased" "ModelledTimeIncreased"
    "A candidate's modelled time is larger than on record. It is not a measurement."
    "Run `warpsmith profile` to see what limits the kernel, or remove the entry to accept the increase."
    // Missing data.
    "incomplete" "Incomplete"
    "Data that the verdict needs is missing. This is not a pass."
    "Repeat the run, or record the missing entry with `warpsmith gate --update`."
}
